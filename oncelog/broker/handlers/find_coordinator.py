"""FindCoordinator (10), versions 0–6: which node coordinates a group, a transactional id or a share-partition.

- It is the leader of the key's partition of the internal topic, under its address for the client's listener. The
  topic is created when first needed (one replica), and the response waits for it; a node that stands by creates none.
- v1+ key types (0 group, 1 transaction); v4+ several keys at once, each with its own result (KIP-699).
- While the internal topic cannot be created (the disk is full): COORDINATOR_NOT_AVAILABLE.
- An unknown key type is INVALID_REQUEST. No key is rejected, not even an empty one: later requests report it.
- v6's key type 2 (share-partitions, KIP-932) has keys "group:topicId:partition", and others are INVALID_REQUEST; so is
  the key type before v6.
"""

from collections.abc import Sequence

from oncelog.broker.cluster.metadata_log import Topic
from oncelog.broker.requests.context import RequestContext
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.slices import Sliced
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.generated.find_coordinator_request import FindCoordinatorRequest
from oncelog.protocol.generated.find_coordinator_response import Coordinator, FindCoordinatorResponse
from oncelog.protocol.partitioning import coordinator_partition
from oncelog.protocol.topics import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE

_SHARE = 2
_SHARE_SINCE = 6
_BATCHED_SINCE = 4
_CHARACTERS_AN_ELEMENT = 16
"""How many characters are hashed for one element. Measured: hashing so many takes 3.5 µs."""
_TOPIC_OF = {0: CONSUMER_OFFSETS, 1: TRANSACTION_STATE, _SHARE: SHARE_GROUP_STATE}


def handle(
    context: RequestContext, request: FindCoordinatorRequest
) -> Sliced[FindCoordinatorResponse | Completion[FindCoordinatorResponse]]:
    keys = request.coordinator_keys if context.api_version >= _BATCHED_SINCE else (request.key,)
    topic = _TOPIC_OF.get(request.key_type)
    if topic is None:
        text = ErrorCode.INVALID_REQUEST.text
        return _respond(context, [_error_response(key, ErrorCode.INVALID_REQUEST, text) for key in keys])
    hashed: Sequence[str | None] = keys if request.key_type != _SHARE else (yield from _share_partitions(context, keys))
    if keys and not any(place is not None for place in hashed):
        text = "" if context.api_version >= _BATCHED_SINCE else ErrorCode.INVALID_REQUEST.text
        return _respond(context, [_error_response(key, ErrorCode.INVALID_REQUEST, text) for key in keys])
    try:
        made = context.broker.topics.ensure_internal(topic)
    except KafkaError as error:
        refusal = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return _respond(context, [_error_response(key, refusal, error.message) for key in keys])
    yield made
    coordinators = []
    for key, place in zip(keys, hashed, strict=True):
        if place is None:
            coordinators.append(_error_response(key, ErrorCode.INVALID_REQUEST, ""))
        else:
            coordinators.append(_coordinator_of(context, made.result(), key, place))
        yield 1 + len(key) // _CHARACTERS_AN_ELEMENT
    return _respond(context, coordinators)


def _share_partitions(context: RequestContext, keys: Sequence[str]) -> Sliced[list[str | None]]:
    """Return the keys as their coordinator writes them; None for those that are none."""
    from oncelog.broker.coordinator.share.values import parse_share_partition_key

    if context.api_version < _SHARE_SINCE:
        return [None] * len(keys)
    hashed: list[str | None] = []
    for key in keys:
        try:
            hashed.append(str(parse_share_partition_key(key)))
        except ValueError:
            hashed.append(None)
        yield 1 + len(key) // _CHARACTERS_AN_ELEMENT
    return hashed


def _coordinator_of(context: RequestContext, topic: Topic, key: str, hashed: str) -> Coordinator:
    broker = context.broker
    node_id = broker.leadership.node_of(topic.name, coordinator_partition(hashed, topic.partition_count))
    address = None if node_id is None else broker.nodes.address(node_id, context.peer)
    if node_id is None or address is None:
        refusal = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return _error_response(key, refusal, refusal.text)
    host, port = address
    text = "" if context.api_version >= _BATCHED_SINCE else None
    return Coordinator(key=key, node_id=node_id, host=host, port=port, error_message=text)


def _error_response(key: str, error_code: ErrorCode, message: str) -> Coordinator:
    return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=error_code, error_message=message)


def _respond(context: RequestContext, coordinators: Sequence[Coordinator]) -> FindCoordinatorResponse:
    if context.api_version >= _BATCHED_SINCE:
        return FindCoordinatorResponse(coordinators=coordinators)
    only = coordinators[0]
    return FindCoordinatorResponse(
        error_code=only.error_code,
        error_message=only.error_message,
        node_id=only.node_id,
        host=only.host,
        port=only.port,
    )
