"""The responses of a node that stands by: it answers what it knows, and returns to the rest the error after which a
client looks for the leader.

Owns: the response, and the error of each owner. Does not own: the owner of an API (`broker.apis`).

A client goes to a leader or a coordinator by the address that Metadata or FindCoordinator has given it, and asks for
another after these errors. It sends everything else to any node. A node that stands by answers that from the metadata
log, which it follows, or as a node that has no group and no transaction. Fetch is handled as by a node that leads none
of the partitions: clients look for another leader only after an error of a partition, not of the response.

- Responses that name the leader wait until it was seen (`broker.succession.leader_seen`).
- An idempotent producer without a transactional id may ask any node for its producer id, and before it has one this may
  be the only node that it is connected to: no error makes it ask another, so its connection is closed. franz-go takes
  each node in turn after an error, and a connection that is closed before its first answer for a login that it lacks:
  its records fail. So it gets the error.
- What a broker of Kafka forwards to the controller, clients send to any node: Java's Admin to the one that it is
  connected to, and after an error again to that one. It takes another once the connection is closed: so it is closed,
  unless the request is about this node's settings.
"""

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from oncelog.broker.apis.descriptor import Owner, Refused
from oncelog.broker.apis.table import API_TABLE
from oncelog.broker.cluster.metadata_log import ResourceType
from oncelog.broker.handlers.shared.refused_requests import refused_response
from oncelog.broker.requests.context import CloseConnection, Handler, RequestContext
from oncelog.broker.succession.leader_seen import LeaderSeen
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.errors import ErrorCode

ELSEWHERE: Mapping[Owner, ErrorCode] = MappingProxyType(
    {
        Owner.PARTITION: ErrorCode.NOT_LEADER_OR_FOLLOWER,
        Owner.COORDINATOR: ErrorCode.NOT_COORDINATOR,
        Owner.CONTROLLER: ErrorCode.NOT_CONTROLLER,
    }
)
"""The error of what another node answers, by its owner."""
_OF_NODES = (ResourceType.BROKER, ResourceType.BROKER_LOGGER)
_FRANZ_GO = "kgo"
_REASON = "This node stands by, and another one leads."


def around_handler(leader: LeaderSeen, api: ApiKey, handle: Handler) -> Handler:
    """Return the handler that names an error; `handle` itself if a node that stands by knows the answer."""
    described = API_TABLE[api]
    if described.names_leader:
        return partial(_once_seen, leader, handle)
    error = ELSEWHERE.get(described.owner)
    if error is None:
        return handle
    kept = described.read_only
    refused = Refused(error) if kept is None else kept._replace(error=error)

    def refuse(context: RequestContext, request: Any) -> Any:
        if _may_be_from_any_node(context, api, request):
            raise CloseConnection("only the leader can answer it: this node stands by, and the client asks another one")
        version = context.api_version
        place = described.errors_in(version).rows if described.owner is Owner.PARTITION else None
        said = refused
        if api in (ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE):
            said = refused._replace(others={**refused.others, "current_leader": _unknown_leader(api)})
        return context.run(refused_response(api, said, version, request, _REASON, place))

    return refuse


def _may_be_from_any_node(context: RequestContext, api: ApiKey, request: Any) -> bool:
    """Whether the client asks this node by chance, and would ask it again after an error."""
    if api is ApiKey.INIT_PRODUCER_ID:
        return request.transactional_id is None and context.peer.software_name != _FRANZ_GO
    if api in (ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS):
        return not any(each.resource_type in _OF_NODES and each.resource_name for each in request.resources)
    return API_TABLE[api].from_any_node


def _unknown_leader(api: ApiKey) -> Any:
    """Return what Kafka names where it knows no leader. The default of these messages is node 0, in epoch 0, which
    franz-go asks from then on."""
    from oncelog.protocol.generated import share_acknowledge_response, share_fetch_response

    kind = share_fetch_response if api is ApiKey.SHARE_FETCH else share_acknowledge_response
    return kind.LeaderIdAndEpoch(-1, -1)


def _once_seen(leader: LeaderSeen, handle: Handler, context: RequestContext, request: Any) -> Any:
    return leader.when_seen().map(lambda _: handle(context, request))
