"""ConsumerGroupHeartbeat (68), versions 0–1: a consumer group member joins, reports, gets its assignment, leaves
(KIP-848).

- The response is sent once the change is durable; an error has its reason.
- v0 the broker generates the id of a member that joins without one; v1+ clients generate their own (KIP-1082), and may
  subscribe with a regular expression: INVALID_REGULAR_EXPRESSION.
- The answer is UNSUPPORTED_VERSION while the finalized feature group.version is 0, and on a broker whose
  group.coordinator.rebalance.protocols does not name `consumer`.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

from oncelog.broker.coordinator.group.consumer.heartbeat import HeartbeatRequest
from oncelog.broker.coordinator.group.consumer.regex import LongMatch
from oncelog.broker.handlers.shared.matching import matching_beside
from oncelog.broker.handlers.shared.modern_groups import heartbeat_response
from oncelog.broker.handlers.shared.topic_filter import topic_filter
from oncelog.broker.requests.context import RequestContext
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.slices import Sliced
from oncelog.protocol.generated.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from oncelog.protocol.generated.consumer_group_heartbeat_response import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

_OWN_MEMBER_ID_SINCE = 1
_respond, _refuse = heartbeat_response(ConsumerGroupHeartbeatResponse, Assignment, TopicPartitions)


def handle(
    context: RequestContext, request: ConsumerGroupHeartbeatRequest
) -> Completion[ConsumerGroupHeartbeatResponse] | Any:
    heartbeat = HeartbeatRequest(
        group_id=request.group_id,
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        topic_names=request.subscribed_topic_names,
        topic_regex=request.subscribed_topic_regex,
        server_assignor=request.server_assignor,
        owned=_owned(request),
        client_id=context.client_id or "",
        client_host=f"/{context.peer.host}",
        makes_its_own_id=context.api_version >= _OWN_MEMBER_ID_SINCE,
        may_describe=topic_filter(context),
    )
    done = context.broker.groups.consumers.heartbeat(heartbeat)
    if isinstance(done.error, LongMatch):
        return context.run(_match(context, heartbeat, done.error))
    return done.map(_respond, _refuse)


def _match(
    context: RequestContext, heartbeat: HeartbeatRequest, long: LongMatch
) -> Sliced[Completion[ConsumerGroupHeartbeatResponse]]:
    """Try once more with what was matched beside the loop, until no large part is new."""
    while True:
        patterns = long.patterns
        found = yield from matching_beside(tuple(patterns.values()), long.names, context.broker.slices)
        matches = heartbeat.matches.with_more(frozenset(long.names), dict(zip(patterns, found, strict=True)))
        heartbeat = replace(heartbeat, matches=matches)
        done = context.broker.groups.consumers.heartbeat(heartbeat)
        if not isinstance(done.error, LongMatch):
            return done.map(_respond, _refuse)
        long = done.error


def _owned(request: ConsumerGroupHeartbeatRequest) -> Mapping[UUID, Collection[int]] | None:
    if request.topic_partitions is None:
        return None
    owned: dict[UUID, set[int]] = {}
    for entry in request.topic_partitions:
        owned.setdefault(entry.topic_id, set()).update(entry.partitions)
    return owned
