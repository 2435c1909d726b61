"""What a read-only broker answers (`oncelog.read.only`).

Owns: the response. Does not own: which APIs are handled as always, and the error of each of the others (`broker.apis`),
what stays still besides requests (`broker.assembly.read_only`).
Invariant: no descriptor can leave its answer out, so a new API says what it is before it can be used.

The errors are those of a Kafka whose authorizer lets everybody describe and read topics, and nothing else: no client
retries them, producers and group members end with them at once, and what they mean needs no explanation. The reason is
in the message of each response that has a field for one, and in the log. NOT_CONTROLLER, COORDINATOR_NOT_AVAILABLE or
KAFKA_STORAGE_ERROR would be retried until a timeout.

A consumer reads with `assign`, also with a group id, from offsets that the group has committed. It cannot join a group:
a membership is a change, and the members that were there would lose theirs.
"""

from typing import Any

from oncelog.broker.apis.descriptor import READS
from oncelog.broker.apis.table import API_TABLE
from oncelog.broker.handlers.shared.refused_requests import refused_response
from oncelog.broker.requests.context import Handler, RequestContext
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.errors import ErrorCode

REASON = "This broker is read-only (oncelog.read.only)."


def around_handler(api: ApiKey, handle: Handler) -> Handler:
    """Return the handler that refuses requests; `handle` itself if its API changes nothing."""
    refused = API_TABLE[api].read_only
    if refused is READS:
        return handle

    def refuse(context: RequestContext, request: Any) -> Any:
        context.broker.logger.warning("request.refused", api=api.name, client_id=context.client_id, message=REASON)
        own = refused
        if api is ApiKey.INIT_PRODUCER_ID and request.transactional_id is None:
            own = refused._replace(error=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        return context.run(refused_response(api, own, context.api_version, request, REASON))

    return refuse
