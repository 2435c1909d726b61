"""Steps of requests about groups, and of FindCoordinator.

Owns: what a client without Describe on a topic sees of a group that reads it. Does not own: the handlers.
"""

from collections.abc import Iterable
from typing import Any

from oncelog.broker.apis.descriptor import EachRow, Right, Visible
from oncelog.broker.handlers.rights.checks import (
    DENIED,
    after,
    by_field,
    check_rows,
    errors_of,
    itself,
    may,
    replaced,
    show_rows,
    split,
)
from oncelog.broker.handlers.rights.members import SOME_TOPIC_HIDDEN, assigned_topics, check_member, show_groups
from oncelog.broker.handlers.shared.asked_topics import asked_topic
from oncelog.broker.handlers.shared.error_places import response_with
from oncelog.broker.requests.context import Handler, RequestContext
from oncelog.broker.turns.slices import Sliced
from oncelog.protocol.acls import AclOperation, ResourceType

_DESCRIBE = AclOperation.DESCRIBE
_GROUP, _TOPIC = ResourceType.GROUP, ResourceType.TOPIC
_NO_OFFSET: dict[str, Any] = {"committed_offset": -1, "metadata": ""}
_GROUP_KEY, _TRANSACTION_KEY, _SHARE_KEY = 0, 1, 2
_SHARE_SINCE = 6


def enabled_group(context: RequestContext, group_id: str) -> str | None:
    """Return the name of a group to check; None while consumer groups are switched off: the handler says so, whatever
    the rights."""
    return group_id if context.broker.groups.consumers.is_enabled else None


class Offsets:
    """OffsetFetch: Describe on the group, and on each topic."""

    def run(self, context: RequestContext, request: Any, handle: Handler) -> Sliced[Any]:
        if context.api_version >= 8:
            return (yield from _of_groups(context, request, handle))
        if not may(context, _DESCRIBE, _GROUP, request.group_id):
            place = errors_of(context).of_whole
            said = {"error_code": DENIED[_GROUP], **(_NO_OFFSET if place else {})}
            return (yield from response_with(context.api_key, request, place, **said))
        if request.topics is None:
            visible = Visible(_DESCRIBE, _TOPIC, "topics", "name")
            return (yield from show_rows(visible, context, request, handle))
        each = EachRow(_DESCRIBE, _TOPIC, said=_NO_OFFSET, needs_rows=False)
        return (yield from check_rows(each, by_field("name"), context, request, handle))


def _of_groups(context: RequestContext, request: Any, handle: Handler) -> Sliced[Any]:
    from oncelog.protocol.generated.offset_fetch_response import OffsetFetchResponse, OffsetFetchResponseGroup

    asked, denied = [], []
    topics_denied: dict[str, list[Any]] = {}
    for group in request.groups:
        yield 1
        if not may(context, _DESCRIBE, _GROUP, group.group_id):
            denied.append(OffsetFetchResponseGroup(group_id=group.group_id, error_code=DENIED[_GROUP], topics=()))
            continue
        allowed, forbidden = yield from split(context, group.topics or (), Right(_DESCRIBE, _TOPIC), asked_topic)
        topics_denied[group.group_id] = forbidden
        asked.append(group if group.topics is None else replaced(group, topics=allowed))
    if not asked:
        return OffsetFetchResponse(groups=denied)
    everything = {group.group_id for group in asked if group.topics is None}

    def completed(response: Any) -> Sliced[Any]:
        groups = []
        for group in response.groups:
            topics = group.topics
            if group.group_id in everything:
                topics = [topic for topic in topics if may(context, _DESCRIBE, _TOPIC, topic.name, quietly=True)]
            elif not group.error_code:
                topics = [*topics, *map(_forbidden_topic, topics_denied[group.group_id])]
            yield 1 + len(topics)
            groups.append(replaced(group, topics=topics))
        return replaced(response, groups=[*denied, *groups])

    outcome = handle(context, replaced(request, groups=asked))
    return after(outcome, lambda response: context.run(completed(response)))


def _forbidden_topic(topic: Any) -> Any:
    from oncelog.protocol.generated.offset_fetch_response import (
        OffsetFetchResponsePartitions,
        OffsetFetchResponseTopics,
    )

    return OffsetFetchResponseTopics(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetFetchResponsePartitions(partition_index=index, error_code=DENIED[_TOPIC], **_NO_OFFSET)
            for index in topic.partition_indexes
        ],
    )


class Coordinators:
    """FindCoordinator: Describe on the group or the transactional id; ClusterAction for share-partitions, all of them
    refused without it."""

    def run(self, context: RequestContext, request: Any, handle: Handler) -> Sliced[Any]:
        if request.key_type == _SHARE_KEY and context.api_version >= _SHARE_SINCE:
            if may(context, AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER):
                return handle(context, request)
            error = DENIED[ResourceType.CLUSTER]
            said = {"error_code": error, "error_message": error.text, "node_id": -1, "port": -1}
            return (yield from response_with(context.api_key, request, errors_of(context).rows, **said))
        kind = {_GROUP_KEY: _GROUP, _TRANSACTION_KEY: ResourceType.TRANSACTIONAL_ID}.get(request.key_type)
        if kind is None:
            return handle(context, request)
        if context.api_version >= 4:
            each = EachRow(_DESCRIBE, kind, said={"node_id": -1, "port": -1})
            return (yield from check_rows(each, itself, context, request, handle))
        if may(context, _DESCRIBE, kind, request.key):
            return handle(context, request)
        error = DENIED[kind]
        said = {"error_message": error.text, "node_id": -1, "port": -1}
        return (yield from response_with(context.api_key, request, (), error_code=error, **said))


class Subscription:
    """ConsumerGroupHeartbeat: Read on the group, Describe on each topic that the member names."""

    def run(self, context: RequestContext, request: Any, handle: Handler) -> Sliced[Any]:
        if not context.broker.groups.consumers.is_enabled:
            return handle(context, request)
        topics = dict.fromkeys(request.subscribed_topic_names or ())
        return (yield from check_member(context, request, handle, topics))


class Assignments:
    """ConsumerGroupDescribe: a group shows its members only with Describe on every topic that they read."""

    def run(self, context: RequestContext, request: Any, handle: Handler) -> Sliced[Any]:
        return (yield from show_groups(context, request, handle, _assigned, SOME_TOPIC_HIDDEN))


def _assigned(group: Any) -> Sliced[Iterable[str]]:
    return assigned_topics(group, "assignment", "target_assignment")
