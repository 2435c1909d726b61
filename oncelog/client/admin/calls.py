"""The ways of most administrative requests: to the controller, to the coordinator of a key, and to each node.

Owns: sending, retrying while a coordinator loads, raising for the codes of a response, and for
topics that do not exist. Does not own: the requests and what their responses mean (the other modules of this room).
"""

from collections.abc import Callable, Collection, Iterable

from oncelog.client.values.errors import ConfigError, error_for, raise_for
from oncelog.client.values.waiting import Deadline
from oncelog.client.wire.apis import Api, RequestT, ResponseT
from oncelog.client.wire.cluster import COORDINATOR_BUSY, Cluster, CoordinatorKind
from oncelog.client.wire.connections import Purpose
from oncelog.protocol.errors import ErrorCode

Code = tuple[int, str]
"""An error code, perhaps 0, and the name of what it concerns."""
_HAS_MEMBERS = frozenset(
    (
        ErrorCode.NON_EMPTY_GROUP,
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.ILLEGAL_GENERATION,
    )
)


async def ask_controller(
    cluster: Cluster, api: Api[RequestT, ResponseT], request: RequestT, deadline: Deadline
) -> ResponseT:
    """Send to the controller once: a retry of create or delete after a lost response would report a misleading
    error."""
    await cluster.refresh((), deadline)
    node_id = cluster.metadata.controller_id
    if node_id not in cluster.metadata.nodes:
        transport = await cluster.connections.any_transport(deadline)
    else:
        transport = await cluster.connections.transport(node_id, Purpose.DATA, deadline)
    return await transport.request(api, request, deadline.remaining_s)


async def ask_coordinator(
    cluster: Cluster,
    kind: CoordinatorKind,
    key: str,
    api: Api[RequestT, ResponseT],
    request: RequestT,
    deadline: Deadline,
    codes_of: Callable[[ResponseT], Iterable[Code]],
    raising: Callable[[int, str], None] = raise_for,
) -> ResponseT:
    """Return the coordinator's response; raises for its first error code, by `raising`."""
    response = await cluster.call_coordinator(
        kind, key, api, request, deadline, lambda each: next((code for code, _ in codes_of(each) if code), 0)
    )
    for code, about in codes_of(response):
        raising(code, about)
    return response


async def ask_nodes(
    cluster: Cluster,
    api: Api[RequestT, ResponseT],
    request: RequestT,
    deadline: Deadline,
    code_of: Callable[[ResponseT], int],
    node_ids: Iterable[int] = (),
) -> "list[tuple[int, ResponseT]]":
    """Return the response of each of these nodes (default: all) with its id, once what it coordinates is
    loaded."""
    await cluster.refresh((), deadline)
    found = []
    for node_id in node_ids or sorted(cluster.metadata.nodes):
        while True:
            response = await cluster.call_node(node_id, api, request, deadline)
            code = code_of(response)
            if code not in COORDINATOR_BUSY:
                break
            await deadline.pause(cluster.retry_backoff_ms, api.key.name, error_for(code))
        raise_for(code, f"node {node_id}")
        found.append((node_id, response))
    return found


async def require_topics(cluster: Cluster, names: Collection[str], deadline: Deadline) -> None:
    """Raises UnknownTopic at once for a topic that does not exist, without creating it."""
    await cluster.refresh(names, deadline)
    for name in names:
        if name not in cluster.metadata.topics:
            raise await cluster.unknown_topic(name, deadline)


async def raise_for_topic(
    cluster: Cluster, code: int, name: str | None, message: str | None, deadline: Deadline
) -> None:
    """Raise as `raise_for`; for a topic that does not exist, UnknownTopic with the names that it may have been."""
    if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and name is not None:
        raise await cluster.unknown_topic(name, deadline)
    raise_for(code, message or "" if name is None else f"topic {name!r}: {message or ''}")


def raise_for_group(code: int, about: str) -> None:
    """Raise as `raise_for`, but never retry an error about a group in use: the caller has to stop the group."""
    if code in _HAS_MEMBERS:
        raise ConfigError(f"{about} has members", code=ErrorCode(code), hint="stop its consumers first")
    raise_for(code, about)
