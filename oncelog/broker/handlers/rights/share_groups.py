"""Steps of requests about share groups: as Kafka checks them, once it has checked that share groups are served.

Owns: what a client without a right on a topic sees and changes of a group that reads it. Does not own: the handlers.
While share groups are not served no right is checked: the handler says so, whatever the rights.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from oncelog.broker.apis.descriptor import Right
from oncelog.broker.handlers.rights.checks import DENIED, after, may, replaced, split
from oncelog.broker.handlers.rights.members import SOME_TOPIC_HIDDEN, assigned_topics, check_member, show_groups
from oncelog.broker.handlers.shared.error_places import response_module, response_with
from oncelog.broker.handlers.shared.share_groups import is_member_id, serves_share_groups
from oncelog.broker.requests.context import Handler, RequestContext
from oncelog.broker.turns.slices import Sliced
from oncelog.protocol.acls import AclOperation, ResourceType

_READ, _DESCRIBE, _DELETE = AclOperation.READ, AclOperation.DESCRIBE, AclOperation.DELETE
_GROUP, _TOPIC = ResourceType.GROUP, ResourceType.TOPIC
_NO_TOPIC: dict[str, Any] = {"error_code": DENIED[_TOPIC], "error_message": DENIED[_TOPIC].text}


def served_group(context: RequestContext, group_id: str) -> str | None:
    """Return the name of a group to check; None while share groups are not served."""
    return group_id if serves_share_groups(context) else None


def served_group_of(context: RequestContext, row: Any) -> str | None:
    return served_group(context, row.group_id)


def topic_name(_: RequestContext, topic: Any) -> str:
    name: str = topic.topic_name
    return name


class Subscription:
    """ShareGroupHeartbeat: Read on the group, Describe on each topic that the member names."""

    def run(self, context: RequestContext, request: Any, handle: Handler) -> Sliced[Any]:
        if not serves_share_groups(context):
            return handle(context, request)
        # Another member id is refused first, by the handler.
        topics = dict.fromkeys(request.subscribed_topic_names or ()) if is_member_id(request.member_id) else ()
        return (yield from check_member(context, request, handle, topics))


class Assignments:
    """ShareGroupDescribe: a group shows its members only with Describe on every topic that they read."""

    def run(self, context: RequestContext, request: Any, handle: Handler) -> Sliced[Any]:
        return (yield from show_groups(context, request, handle, _assigned, SOME_TOPIC_HIDDEN))


def _assigned(group: Any) -> Sliced[Iterable[str]]:
    return assigned_topics(group, "assignment")


class DescribedOffsets:
    """DescribeShareGroupOffsets: Describe on each topic. Of all topics those are shown that the client may know of."""

    def run(self, context: RequestContext, request: Any, handle: Handler) -> Sliced[Any]:
        if not serves_share_groups(context):
            return handle(context, request)
        asked = []
        forbidden: list[Sequence[Any]] = []
        for group in request.groups:
            yield 1
            allowed, denied = yield from split(context, group.topics or (), Right(_DESCRIBE, _TOPIC), topic_name)
            forbidden.append(denied)
            asked.append(group if group.topics is None else replaced(group, topics=allowed))
        everything = [group.topics is None for group in request.groups]

        def completed(response: Any) -> Sliced[Any]:
            groups = []
            for group, is_everything, denied in zip(response.groups, everything, forbidden, strict=True):
                topics = list(group.topics)
                if is_everything:
                    topics = [each for each in topics if may(context, _DESCRIBE, _TOPIC, each.topic_name, quietly=True)]
                elif not group.error_code:
                    topics += map(_forbidden_topic, denied)
                yield 1 + len(topics)
                groups.append(replaced(group, topics=topics))
            return replaced(response, groups=groups)

        outcome = handle(context, replaced(request, groups=asked))
        return after(outcome, lambda response: context.run(completed(response)))


def _forbidden_topic(topic: Any) -> Any:
    from oncelog.protocol.generated.describe_share_group_offsets_response import (
        DescribeShareGroupOffsetsResponsePartition,
        DescribeShareGroupOffsetsResponseTopic,
    )

    rows = [
        DescribeShareGroupOffsetsResponsePartition(partition_index=index, start_offset=-1, **_NO_TOPIC)
        for index in topic.partitions
    ]
    return DescribeShareGroupOffsetsResponseTopic(topic_name=topic.topic_name, partitions=rows)


class AlteredOffsets:
    """AlterShareGroupOffsets: Read on the group, and on each topic."""

    def run(self, context: RequestContext, request: Any, handle: Handler) -> Sliced[Any]:
        return (yield from _of_topics(_READ, context, request, handle, _unaltered_topic))


class DeletedOffsets:
    """DeleteShareGroupOffsets: Delete on the group, Read on each topic."""

    def run(self, context: RequestContext, request: Any, handle: Handler) -> Sliced[Any]:
        return (yield from _of_topics(_DELETE, context, request, handle, _undeleted_topic))


def _of_topics(
    operation: AclOperation, context: RequestContext, request: Any, handle: Handler, row: Any
) -> Sliced[Any]:
    """Check an operation on the group and Read on each topic; `row(module, topic)` is the row of a forbidden one."""
    if not serves_share_groups(context):
        return handle(context, request)
    if not may(context, operation, _GROUP, request.group_id):
        error = DENIED[_GROUP]
        return (yield from response_with(context.api_key, request, (), error_code=error, error_message=error.text))
    allowed, denied = yield from split(context, request.topics, Right(_READ, _TOPIC), topic_name)
    module = response_module(context.api_key)
    refused = [row(module, topic) for topic in denied]

    def completed(response: Any) -> Any:
        return response if response.error_code else replaced(response, responses=[*refused, *response.responses])

    return after(handle(context, replaced(request, topics=allowed)), completed)


def _unaltered_topic(module: Any, topic: Any) -> Any:
    partition = module.AlterShareGroupOffsetsResponsePartition
    rows = [partition(partition_index=each.partition_index, **_NO_TOPIC) for each in topic.partitions]
    return module.AlterShareGroupOffsetsResponseTopic(topic_name=topic.topic_name, partitions=rows)


def _undeleted_topic(module: Any, topic: Any) -> Any:
    return module.DeleteShareGroupOffsetsResponseTopic(topic_name=topic.topic_name, **_NO_TOPIC)
