"""Offset lookups in partitions (ListOffsets) and in groups (OffsetFetch), with the retries they need."""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from oncelog.client.values.arguments import milliseconds_of
from oncelog.client.values.errors import ConfigError, ConnectionLost, KafkaError, RequestTimedOut, error_for
from oncelog.client.values.records import (
    ConsumerGroupMetadata,
    IsolationLevel,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    TopicPartition,
)
from oncelog.client.values.waiting import Deadline
from oncelog.client.wire.cluster import LEADER_MOVED, Cluster, CoordinatorKind
from oncelog.client.wire.metadata import NO_LEADER
from oncelog.client.wire.reader_apis import LIST_OFFSETS, OFFSET_FETCH
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from oncelog.protocol.generated.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from oncelog.protocol.generated.offset_fetch_response import OffsetFetchResponse, OffsetFetchResponseGroup

if TYPE_CHECKING:
    from datetime import datetime

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
_SPECS = {"latest": LATEST, "earliest": EARLIEST, "max_timestamp": MAX_TIMESTAMP, "log_end": LATEST}
CONSUMER = -1
DEBUGGING_REPLICA = -2
"""The replica id that has this name in Kafka's ListOffsetsRequest: with it LATEST is the log end."""


def timestamp_of(at: "str | datetime | int") -> int:
    """Return the timestamp by which ListOffsets asks for that place. Raises ConfigError."""
    if not isinstance(at, str):
        return milliseconds_of("at", at)
    if at not in _SPECS:
        hint = f"it is one of {', '.join(map(repr, _SPECS))}, a datetime, or milliseconds since the epoch"
        raise ConfigError(f"at={at!r}", hint=hint)
    return _SPECS[at]


async def list_offsets(
    cluster: Cluster,
    timestamps: Mapping[TopicPartition, int],
    isolation: IsolationLevel,
    deadline: Deadline,
    replica_id: int = CONSUMER,
) -> dict[TopicPartition, OffsetAndTimestamp]:
    """Return the first offset at or after each timestamp, or that of LATEST, EARLIEST, MAX_TIMESTAMP; -1 for none.

    LATEST at read_committed is the last stable offset, otherwise the high watermark; for DEBUGGING_REPLICA the log end.
    """
    found: dict[TopicPartition, OffsetAndTimestamp] = {}
    while True:
        left = {each: when for each, when in timestamps.items() if each not in found}
        if not left:
            return found
        cause: KafkaError = ConnectionLost("no leader responded")
        by_node: dict[int, dict[TopicPartition, int]] = {}
        await cluster.topics_of((each.topic for each in left), deadline)
        for topic_partition, when in left.items():
            by_node.setdefault(cluster.metadata.checked_leader(topic_partition), {})[topic_partition] = when
        leaderless = by_node.pop(NO_LEADER, {})
        if leaderless:
            cause = error_for(
                ErrorCode.LEADER_NOT_AVAILABLE, ", ".join(f"{each.topic}-{each.partition}" for each in leaderless)
            )
        for node_id, asked in by_node.items():
            try:
                failed = await _list_offsets_of(cluster, node_id, asked, isolation, deadline, replica_id, found)
            except (ConnectionLost, RequestTimedOut) as error:
                cluster.metadata.forget_leaders({each.topic for each in asked})
                failed = error
            if failed is not None:
                cause = failed
        if len(found) < len(timestamps):
            await deadline.pause(cluster.retry_backoff_ms, "LIST_OFFSETS", cause)
        if leaderless and not deadline.expired:
            # Not forgotten, as when leaders move: others read the rest of the topic meanwhile.
            await cluster.refresh({each.topic for each in leaderless}, deadline)


async def _list_offsets_of(
    cluster: Cluster,
    node_id: int,
    asked: Mapping[TopicPartition, int],
    isolation: IsolationLevel,
    deadline: Deadline,
    replica_id: int,
    found: dict[TopicPartition, OffsetAndTimestamp],
) -> KafkaError | None:
    """Send to one node; adds its results to `found`, returns a transient error, raises any other."""
    topics: dict[str, list[ListOffsetsPartition]] = {}
    for (topic, partition), when in asked.items():
        topics.setdefault(topic, []).append(ListOffsetsPartition(partition_index=partition, timestamp=when))
    request = ListOffsetsRequest(
        replica_id=replica_id,
        isolation_level=1 if isolation == "read_committed" else 0,
        topics=[ListOffsetsTopic(name, parts) for name, parts in topics.items()],
    )
    response = await cluster.call_node(node_id, LIST_OFFSETS, request, deadline)
    passing: KafkaError | None = None
    for each in response.topics:
        for answer in each.partitions:
            if not answer.error_code:
                key = TopicPartition(each.name, answer.partition_index)
                found[key] = OffsetAndTimestamp(answer.offset, answer.timestamp)
                continue
            error = error_for(answer.error_code, f"{each.name}-{answer.partition_index}")
            if not error.retriable:
                raise error
            passing = error
            if answer.error_code in LEADER_MOVED:
                cluster.metadata.forget_leaders((each.name,))
    return passing


async def fetch_committed(
    cluster: Cluster,
    group_id: str,
    partitions: Iterable[TopicPartition] | None,
    deadline: Deadline,
    *,
    require_stable: bool = True,
    member: ConsumerGroupMetadata | None = None,
) -> dict[TopicPartition, OffsetAndMetadata]:
    """The group's committed offsets of these partitions, or of all (None); those without one are left out.

    With `require_stable` it waits for open transactions that hold offsets of these partitions (KIP-447). As a `member`
    of a consumer group (KIP-848) it raises CommitFailed if that is not a member or not of the current epoch.
    """
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions or ():
        topics.setdefault(topic, []).append(partition)
    named = [OffsetFetchRequestTopic(name, parts) for name, parts in topics.items()]
    grouped = [OffsetFetchRequestTopics(name, partition_indexes=parts) for name, parts in topics.items()]
    asked = OffsetFetchRequestGroup(
        group_id=group_id,
        member_id=None if member is None else member.member_id,
        member_epoch=-1 if member is None else member.generation_id,
        topics=None if partitions is None else grouped,
    )
    request = OffsetFetchRequest(
        group_id=group_id,
        topics=None if partitions is None else named,
        groups=[asked],
        require_stable=require_stable,
    )
    error_of: Callable[[OffsetFetchResponse], int] = _offset_fetch_error
    while True:
        response = await cluster.call_coordinator(
            CoordinatorKind.GROUP, group_id, OFFSET_FETCH, request, deadline, error_of
        )
        code = error_of(response)
        if not code:
            break
        error = error_for(code, f"group {group_id!r}")
        if not error.retriable:
            raise error
        await deadline.pause(cluster.retry_backoff_ms, "OFFSET_FETCH", error)
    return {
        TopicPartition(topic.name, each.partition_index): OffsetAndMetadata(
            each.committed_offset, each.metadata or "", each.committed_leader_epoch
        )
        for topic in _answered(response).topics
        for each in topic.partitions
        if each.committed_offset >= 0
    }


def _answered(response: OffsetFetchResponse) -> OffsetFetchResponse | OffsetFetchResponseGroup:
    """Return the part of the response with the offsets: from version 8 on a group, here the only one."""
    return response.groups[0] if response.groups else response


def _offset_fetch_error(response: OffsetFetchResponse) -> int:
    answered = _answered(response)
    if answered.error_code:
        return answered.error_code
    codes = [each.error_code for topic in answered.topics for each in topic.partitions]
    return next((code for code in codes if code), 0)
