"""A share group as the broker has it in memory, for `GET /share-groups/GROUP` of both HTTP listeners.

Owns: the response, also for a group that is not in use. Does not own: the values (`broker.sharing.shown`). Invariant: a
group with many share-partitions holds the loop no longer than a large request does, and the text is written in a
thread.
"""

import asyncio
import json
from typing import TYPE_CHECKING, Any

from oncelog.broker.admin.messages import Response
from oncelog.broker.turns.completion import Completion

if TYPE_CHECKING:
    from oncelog.broker.requests.parts import Broker


async def share_group_response(broker: "Broker", group_id: str) -> Response:
    manager = broker.sharing_when_needed.known
    partitions: list[Any] = []
    if manager is not None:
        from oncelog.broker.sharing.shown import show_share_partitions

        shown = broker.slices.run_own(show_share_partitions(manager, broker.topics, group_id))
        partitions = await _result(shown)
    return Response(200, await asyncio.to_thread(_written, {"group": group_id, "partitions": partitions}))


async def _result(shown: Completion[list[Any]]) -> list[Any]:
    ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def on_ended(_: Completion[list[Any]]) -> None:
        if not ended.done():
            ended.set_result(None)

    shown.then(on_ended)
    await ended
    return shown.result()


def _written(values: dict[str, Any]) -> bytes:
    return json.dumps(values, indent=2).encode() + b"\n"
