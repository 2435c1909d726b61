"""What the responses about consumer, share and streams groups have in common (KIP-848, KIP-932, KIP-1071).

Owns: how a Describe request goes through its groups, the response to a heartbeat that assigns topics, the rows of
assigned topics, how long a message may be. Does not own: what is shown of a group, which differs by its type (the
handlers).
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, TypeVar
from uuid import UUID

from oncelog.broker.cluster.topics import Topics
from oncelog.broker.coordinator.group.engine.requests import HeartbeatResult
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.slices import Sliced
from oncelog.protocol.errors import ErrorCode, KafkaError

GroupT = TypeVar("GroupT")
RowT = TypeVar("RowT")
ResponseT = TypeVar("ResponseT")
_MESSAGE_CHARACTERS = 4_000


class Groups(Protocol[GroupT]):
    """The coordinator of a type of group."""

    @property
    def is_enabled(self) -> bool: ...

    def describe(self, group_id: str, /) -> Completion[GroupT]:
        """Return the group, once everything shown is durable. Fails with GROUP_ID_NOT_FOUND."""


def describe_each(
    group_ids: Iterable[str], groups: Groups[GroupT], show: Callable[[GroupT], Sliced[RowT]], row: Callable[..., RowT]
) -> Sliced[list[RowT]]:
    """Return a row for each group, once also for one that is named several times; `row` is the class of the rows."""
    rows = []
    for group_id in dict.fromkeys(group_ids):
        yield 1
        if not groups.is_enabled:
            rows.append(row(error_code=ErrorCode.UNSUPPORTED_VERSION, group_id=group_id))
            continue
        if not group_id:
            rows.append(row(error_code=ErrorCode.INVALID_GROUP_ID, group_id=group_id))
            continue
        described = groups.describe(group_id)
        yield described
        if isinstance(described.error, KafkaError):
            message = shortened(described.error.message) or None
            rows.append(row(error_code=described.error.code, error_message=message, group_id=group_id))
        else:
            rows.append((yield from show(described.result())))
    return rows


def shortened(message: str) -> str:
    """Return a message that repeats names as one that fits into a string of the protocol."""
    return message[:_MESSAGE_CHARACTERS]


def existing_topics(topics: Topics, partitions: Mapping[UUID, Iterable[int]], row: Callable[..., RowT]) -> list[RowT]:
    """Return a row for each topic that still exists; `row` is the class of the rows."""
    found = [(topics.by_id(topic_id), sorted(numbers)) for topic_id, numbers in partitions.items()]
    return [
        row(topic_id=topic.topic_id, topic_name=topic.name, partitions=numbers)
        for topic, numbers in found
        if topic is not None
    ]


def heartbeat_response(
    response: Callable[..., ResponseT], assignment: Callable[..., Any], topic: Callable[..., Any]
) -> tuple[Callable[[HeartbeatResult], ResponseT], Callable[[KafkaError], ResponseT]]:
    """Return what makes the response to a heartbeat of a result, and of an error: of messages of these classes."""

    def respond(result: HeartbeatResult) -> ResponseT:
        assigned = result.assignment
        topics = [] if assigned is None else [topic(topic_id, sorted(assigned[topic_id])) for topic_id in assigned]
        return response(
            member_id=result.member_id,
            member_epoch=result.member_epoch,
            heartbeat_interval_ms=result.heartbeat_interval_ms,
            assignment=None if assigned is None else assignment(topics),
        )

    def refuse(error: KafkaError) -> ResponseT:
        return response(error_code=error.code, error_message=shortened(error.message) or None)

    return respond, refuse
