"""Steps of requests about topics that are more than a right for each row.

Owns: which names are looked at, and what a client without a right sees of a topic. Does not own: the handlers.
Invariant: a client without Describe learns nothing of a topic, not even whether it exists.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from oncelog.broker.apis.descriptor import Right
from oncelog.broker.cluster.topic_rules import check_topic_name
from oncelog.broker.handlers.rights.checks import (
    after,
    allowed_operations,
    by_field,
    errors_of,
    joined,
    may,
    may_create_topic,
    replaced,
    split,
)
from oncelog.broker.handlers.shared.asked_topics import asked_ids
from oncelog.broker.handlers.shared.authorized_operations import NOT_ASKED
from oncelog.broker.handlers.shared.error_places import response_with
from oncelog.broker.requests.context import Handler, RequestContext
from oncelog.broker.turns.slices import Sliced
from oncelog.protocol.acls import CLUSTER_NAME, AclOperation, ResourceType
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.topics import INTERNAL_TOPICS, ZERO_UUID

_TOPIC, _CLUSTER = ResourceType.TOPIC, ResourceType.CLUSTER
_BY_ID_SINCE = 12
_OPERATIONS_ELEMENTS = 16
"""The work of a decision on all operations of a topic, in elements. Measured: it takes 60 µs."""
_FORBIDDEN = ErrorCode.TOPIC_AUTHORIZATION_FAILED
by_name = by_field("name")


def valid_name(_: RequestContext, row: Any) -> str | None:
    """Return the topic's name; None for a name that no topic can have: it needs no right, and the handler reports
    it."""
    try:
        check_topic_name(row.name)
    except KafkaError:
        return None
    name: str = row.name
    return name


class CreatedConfigs:
    """CreateTopics: what the new topic's settings are, only with DescribeConfigs."""

    def run(self, context: RequestContext, request: Any, handle: Handler) -> Sliced[Any]:
        yield 1
        return after(handle(context, request), lambda response: context.run(_hide_configs(context, response)))


def _hide_configs(context: RequestContext, response: Any) -> Sliced[Any]:
    topics = []
    for row in response.topics:
        if not row.error_code and not may(context, AclOperation.DESCRIBE_CONFIGS, _TOPIC, row.name, quietly=True):
            hidden = {"num_partitions": -1, "replication_factor": -1, "configs": ()}
            row = replaced(row, topic_config_error_code=_FORBIDDEN, **hidden)
        topics.append(row)
        yield 1
    return replaced(response, topics=topics)


class Deletion:
    """DeleteTopics: Delete; a topic that was named by its id is named in the error only with Describe."""

    def run(self, context: RequestContext, request: Any, handle: Handler) -> Sliced[Any]:
        is_off = not context.broker.config.get_bool("delete.topic.enable")
        if is_off or may(context, AclOperation.DELETE, _CLUSTER, CLUSTER_NAME, quietly=True):
            return handle(context, request)
        rows = "topics" if context.api_version >= 6 else "topic_names"
        counts = Counter((_key(row)) for row in getattr(request, rows))
        allowed, denied = [], []
        for row in getattr(request, rows):
            yield 1
            refusal = self._refusal(context, row) if counts[_key(row)] == 1 else None
            if refusal is None:
                allowed.append(row)
            else:
                denied.append(refusal)
        if not denied:
            return handle(context, request)
        from oncelog.protocol.generated.delete_topics_response import DeletableTopicResult, DeleteTopicsResponse

        refused = DeleteTopicsResponse(
            responses=[
                DeletableTopicResult(name=name, topic_id=topic_id, error_code=error, error_message=error.text)
                for name, topic_id, error in denied
            ]
        )
        if not allowed:
            return refused
        return after(
            handle(context, replaced(request, **{rows: allowed})), lambda done: joined(done, refused, "responses")
        )

    def _refusal(self, context: RequestContext, row: Any) -> tuple[str | None, Any, ErrorCode] | None:
        """Return what the error names, and the error; None if the handler is to have the row."""
        asked_name, topic_id = _key(row)
        if (asked_name is None) == (topic_id == ZERO_UUID):
            return None
        topic = context.broker.topics.by_id(topic_id) if asked_name is None else None
        name = asked_name or (None if topic is None else topic.name)
        if name is None:
            return None
        may_describe = may(context, AclOperation.DESCRIBE, _TOPIC, name)
        if may(context, AclOperation.DELETE, _TOPIC, name):
            return None
        # Answered here: by the time that the handler looks, it may have been created.
        is_missing = may_describe and context.broker.topics.get(name) is None
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_missing else _FORBIDDEN
        return (name if asked_name is not None or may_describe else None), topic_id, error


def _key(row: Any) -> tuple[str | None, Any]:
    return (row, ZERO_UUID) if isinstance(row, str) else (row.name, row.topic_id)


class Metadata:
    """Metadata: Describe; Create, on the cluster or the topic, where asking for a topic creates it."""

    def run(self, context: RequestContext, request: Any, handle: Handler) -> Sliced[Any]:
        asked = request.topics
        if asked is None or (context.api_version == 0 and not asked):
            yield 1
            return after(handle(context, request), lambda response: context.run(_only_described(context, response)))
        ids = asked_ids(asked)
        if ids is None:
            allowed, denied = yield from self._by_name(context, request)
        elif context.api_version < _BY_ID_SINCE:
            return handle(context, request)  # which refuses it, whatever exists
        else:
            allowed, denied = yield from _by_id(context, ids)
        if ids is None and not denied:
            return after(
                handle(context, request), lambda response: context.run(_with_operations(context, response, ()))
            )
        outcome = handle(context, replaced(request, topics=allowed))
        if not allowed:  # in version 0 no topic means all of them
            outcome = after(outcome, lambda response: replaced(response, topics=()))
        return after(outcome, lambda response: context.run(_with_operations(context, response, denied)))

    def _by_name(self, context: RequestContext, request: Any) -> Sliced[tuple[list[Any], list[Any]]]:
        may_create = self._may_create(context, request)
        allowed, denied = [], []
        for name, row in {row.name: row for row in request.topics}.items():
            yield 1
            if not may(context, AclOperation.DESCRIBE, _TOPIC, name):
                denied.append(_forbidden_topic(name, ZERO_UUID))
            elif may_create and context.broker.topics.get(name) is None and not may_create_topic(context, name):
                denied.append(_forbidden_topic(name, ZERO_UUID, is_internal=name in INTERNAL_TOPICS))
            else:
                allowed.append(row)
        return allowed, denied

    def _may_create(self, context: RequestContext, request: Any) -> bool:
        asks = context.api_version < 4 or request.allow_auto_topic_creation
        return bool(asks and context.broker.config.get_bool("auto.create.topics.enable"))


def _by_id(context: RequestContext, ids: Sequence[UUID]) -> Sliced[tuple[list[Any], list[Any]]]:
    """Return allowed and denied rows of nothing but an id: a name beside it would be another's."""
    from oncelog.protocol.generated.metadata_request import MetadataRequestTopic

    allowed, denied = [], []
    for topic_id in ids:
        yield 1
        topic = context.broker.topics.by_id(topic_id)
        if topic is None or may(context, AclOperation.DESCRIBE, _TOPIC, topic.name):
            allowed.append(MetadataRequestTopic(topic_id=topic_id, name=None))
        else:
            denied.append(_forbidden_topic(None, topic_id))
    return allowed, denied


def _forbidden_topic(name: str | None, topic_id: Any, *, is_internal: bool = False) -> Any:
    from oncelog.protocol.generated.metadata_response import MetadataResponseTopic

    return MetadataResponseTopic(error_code=_FORBIDDEN, name=name, topic_id=topic_id, is_internal=is_internal)


def _only_described(context: RequestContext, response: Any) -> Sliced[Any]:
    right = Right(AclOperation.DESCRIBE, _TOPIC)
    shown, _ = yield from split(context, response.topics, right, by_name, quietly=True)
    return (yield from _with_operations(context, replaced(response, topics=shown), ()))


def _with_operations(context: RequestContext, response: Any, denied: Sequence[Any]) -> Sliced[Any]:
    """Return the response with the client's operations, where it has asked for them (KIP-430), and with the topics that
    it may not see."""
    topics = []
    for row in response.topics:
        is_asked = row.topic_authorized_operations > 0
        topics.append(_with_own(context, row) if is_asked else row)
        yield _OPERATIONS_ELEMENTS if is_asked else 1
    return replaced(cluster_operations(context, response), topics=[*topics, *denied])


def _with_own(context: RequestContext, row: Any) -> Any:
    return replaced(row, topic_authorized_operations=allowed_operations(context, _TOPIC, row.name))


def cluster_operations(context: RequestContext, response: Any) -> Any:
    """List the operations on the cluster with Describe, and none without it."""
    if response.cluster_authorized_operations == NOT_ASKED:
        return response
    operations = 0
    if may(context, AclOperation.DESCRIBE, _CLUSTER):
        operations = allowed_operations(context, _CLUSTER, CLUSTER_NAME)
    return replaced(response, cluster_authorized_operations=operations)


class ClusterOperations:
    """DescribeCluster: no right is needed; adds the operations that the client may do."""

    def run(self, context: RequestContext, request: Any, handle: Handler) -> Sliced[Any]:
        yield 1
        return after(handle(context, request), lambda response: cluster_operations(context, response))


class TopicPartitions:
    """DescribeTopicPartitions: Describe. Pages are made of what the client may see."""

    def run(self, context: RequestContext, request: Any, handle: Handler) -> Sliced[Any]:
        from oncelog.protocol.generated.describe_topic_partitions_request import TopicRequest

        named, cursor = request.topics, request.cursor
        first = "" if cursor is None else cursor.topic_name
        if cursor is not None and (cursor.partition_index < 0 or (named and first not in {row.name for row in named})):
            return handle(context, request)
        rows = named or [TopicRequest(name=topic.name) for topic in context.broker.topics.all()]
        rows = [row for row in rows if row.name >= first]
        right = Right(AclOperation.DESCRIBE, _TOPIC)
        allowed, denied = yield from split(context, rows, right, by_name, quietly=not named)
        asked = replaced(request, topics=denied if named else ())
        refused = yield from response_with(context.api_key, asked, errors_of(context).rows, error_code=_FORBIDDEN)
        if not allowed:
            return refused
        if cursor is not None and first not in {row.name for row in allowed}:
            cursor = None
        outcome = handle(context, replaced(request, topics=allowed, cursor=cursor))
        return after(outcome, lambda response: context.run(_own_operations(context, response, refused)))


def _own_operations(context: RequestContext, response: Any, refused: Any) -> Sliced[Any]:
    topics = []
    for row in response.topics:
        topics.append(_with_own(context, row))
        yield _OPERATIONS_ELEMENTS
    return joined(replaced(response, topics=topics), refused, "topics")
