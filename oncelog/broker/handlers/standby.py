"""What a node answers that stands by: another node leads.

Owns: the response. Does not own: which APIs are handled as always, and the error of each of the others
(`broker.apis.standby`).

- Answers that name the leader wait until it was seen (`broker.succession.leader_seen`).
- An idempotent producer without a transactional id may ask any node for its producer id, and before it has one this may
  be the only node that it is connected to: no error makes it ask another, so its connection is closed. franz-go takes
  each node in turn after an error, and a connection that is closed before its first answer for a login that it lacks:
  its records fail. So it gets the error.
- The connection of an administrator whose client asks any node is closed, too, unless it means this node's settings.
"""

from functools import partial
from typing import Any

from oncelog.broker.apis.descriptor import Refused
from oncelog.broker.apis.standby import ANSWERED, ELSEWHERE, FROM_ANY_NODE
from oncelog.broker.apis.table import API_TABLE
from oncelog.broker.cluster.metadata_log import ResourceType
from oncelog.broker.handlers.current import NAMING
from oncelog.broker.handlers.shared.refused_requests import refused_response
from oncelog.broker.requests.context import CloseConnection, Handler, RequestContext
from oncelog.broker.succession.leader_seen import LeaderSeen
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.fetch_request import FetchRequest
from oncelog.protocol.generated.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData

_OF_NODES = (ResourceType.BROKER, ResourceType.BROKER_LOGGER)
_FRANZ_GO = "kgo"
_REASON = "This node stands by, and another one leads."


def around_handler(leader: LeaderSeen, api: ApiKey, handle: Handler) -> Handler:
    """Return the handler that names an error; `handle` itself if a node that stands by knows the answer."""
    error = ELSEWHERE.get(api)
    if api in NAMING:
        return partial(_once_seen, leader, handle)
    if api in ANSWERED or error is None:
        return handle
    kept = API_TABLE[api].read_only
    refused = Refused(error) if kept is None else kept._replace(error=error)

    if api is ApiKey.FETCH:
        return _refuse_fetch

    def refuse(context: RequestContext, request: Any) -> Any:
        if _may_be_from_any_node(context, api, request):
            raise CloseConnection("only the leader can answer it: this node stands by, and the client asks another one")
        version = context.api_version
        place = API_TABLE[api].errors_in(version).rows if error is ErrorCode.NOT_LEADER_OR_FOLLOWER else None
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
    return api in FROM_ANY_NODE


def _unknown_leader(api: ApiKey) -> Any:
    """Return what Kafka names where it knows no leader. The default of these messages is node 0, in epoch 0, which
    franz-go asks from then on."""
    from oncelog.protocol.generated import share_acknowledge_response, share_fetch_response

    kind = share_fetch_response if api is ApiKey.SHARE_FETCH else share_acknowledge_response
    return kind.LeaderIdAndEpoch(-1, -1)


def _refuse_fetch(_context: RequestContext, request: FetchRequest) -> FetchResponse:
    """For each partition: an error of the whole response makes no client look for another leader."""
    return FetchResponse(
        responses=[
            FetchableTopicResponse(
                topic=topic.topic,
                topic_id=topic.topic_id,
                partitions=[
                    PartitionData(
                        partition_index=each.partition,
                        error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER,
                        high_watermark=-1,
                        log_start_offset=-1,
                        records=b"",
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _once_seen(leader: LeaderSeen, handle: Handler, context: RequestContext, request: Any) -> Any:
    return leader.when_seen().map(lambda _: handle(context, request))
