"""FindCoordinator (10), versions 0–5: which node coordinates a group or a transactional id.

- Here it is always this node, under the address that the client's listener advertises. The internal topic is made at
  its first need (one replica), and the answer waits for it.
- v1+ key types (0 group, 1 transaction); v4+ several keys at once, each answered on its own (KIP-699).
- An empty group id is INVALID_GROUP_ID, an empty transactional id and an unknown key type are INVALID_REQUEST.

Left out: v6 (share groups, KIP-932).
"""

from collections.abc import Sequence

from broker.completion import Completion
from broker.dispatch import RequestContext
from broker.topic_config import CONSUMER_OFFSETS, TRANSACTION_STATE
from protocol.errors import ErrorCode
from protocol.generated.find_coordinator_request import FindCoordinatorRequest
from protocol.generated.find_coordinator_response import Coordinator, FindCoordinatorResponse

_GROUP = 0
_TRANSACTION = 1
_TOPIC_OF = {_GROUP: CONSUMER_OFFSETS, _TRANSACTION: TRANSACTION_STATE}


def handle(
    context: RequestContext, request: FindCoordinatorRequest
) -> FindCoordinatorResponse | Completion[FindCoordinatorResponse]:
    keys = request.coordinator_keys if context.api_version >= 4 else [request.key]
    topic = _TOPIC_OF.get(request.key_type)
    if topic is None:
        return _respond(context, keys, ErrorCode.INVALID_REQUEST)
    empty_key_error = ErrorCode.INVALID_GROUP_ID if request.key_type == _GROUP else ErrorCode.INVALID_REQUEST
    ready = context.broker.topics.ensure_internal(topic)
    return ready.map(lambda _: _respond(context, keys, ErrorCode.NONE, empty_key_error))


def _respond(
    context: RequestContext,
    keys: Sequence[str],
    error: ErrorCode,
    empty_key_error: ErrorCode = ErrorCode.INVALID_REQUEST,
) -> FindCoordinatorResponse:
    host, port = context.advertised
    coordinators = []
    for key in keys:
        found = error or (ErrorCode.NONE if key else empty_key_error)
        coordinators.append(
            Coordinator(key=key, node_id=-1, host="", port=-1, error_code=found, error_message=found.text)
            if found
            else Coordinator(
                key=key, node_id=context.broker.node_id, host=host, port=port, error_code=found, error_message=None
            )
        )
    if context.api_version >= 4:
        return FindCoordinatorResponse(coordinators=coordinators)
    only = coordinators[0]
    return FindCoordinatorResponse(
        error_code=only.error_code,
        error_message=only.error_message,
        node_id=only.node_id,
        host=only.host,
        port=only.port,
    )
