"""What the witness has found, for `GET /witness` of both HTTP listeners.

Owns: the response, also where there is no witness. Does not own: the findings (`broker.witness`). Invariant: the text,
of up to a thousand findings, is written in a thread.
"""

import asyncio
import json
from typing import TYPE_CHECKING

from oncelog.broker.admin.messages import HttpError, Response

if TYPE_CHECKING:
    from oncelog.broker.requests.parts import Broker
    from oncelog.broker.witness.findings import Report


async def witness_response(broker: "Broker") -> Response:
    """Raises HttpError."""
    if broker.witness is None:
        raise HttpError(404, "the witness is off: start the broker with --override oncelog.witness.enable=true")
    return Response(200, await asyncio.to_thread(_written, broker.witness.report()))


def _written(report: "Report") -> bytes:
    return json.dumps(report.as_json(), indent=2).encode() + b"\n"
