"""From the topics of a commit request to the coordinator's input, and from its result back: shared by both commits."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from oncelog.broker.cluster.topics import Topics
from oncelog.broker.coordinator.group.engine.kind import CommitErrors, OffsetToCommit
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.slices import Sliced
from oncelog.protocol.errors import ErrorCode, KafkaError


class PartitionToCommit(Protocol):
    """One partition of OffsetCommit or TxnOffsetCommit."""

    @property
    def partition_index(self) -> int: ...

    @property
    def committed_offset(self) -> int: ...

    @property
    def committed_leader_epoch(self) -> int: ...

    @property
    def committed_metadata(self) -> str | None: ...


class TopicToCommit(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def partitions(self) -> Sequence[PartitionToCommit]: ...


class _SomePartitions(NamedTuple):
    """The part of a topic that holds some partitions of OffsetCommit or TxnOffsetCommit."""

    name: str
    partitions: Sequence[PartitionToCommit]


_OFFSETS_A_COMMIT = 250


def offsets_to_commit(
    topics: Topics, wanted: Sequence[TopicToCommit], *, by_id: bool = False
) -> tuple[list[OffsetToCommit], CommitErrors]:
    """Return offsets for partitions that exist, and UNKNOWN_TOPIC_OR_PARTITION, or UNKNOWN_TOPIC_ID, for the others."""
    offsets: list[OffsetToCommit] = []
    unknown: CommitErrors = {}
    for entry in wanted:
        topic = topics.get(entry.name)
        for data in entry.partitions:
            partition = (entry.name, data.partition_index)
            if topic is None and by_id:
                unknown[partition] = ErrorCode.UNKNOWN_TOPIC_ID
                continue
            if topic is None or not 0 <= data.partition_index < topic.partition_count:
                unknown[partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                continue
            offsets.append(
                OffsetToCommit(
                    partition,
                    data.committed_offset,
                    data.committed_leader_epoch,
                    data.committed_metadata or "",
                    topic.topic_id,
                )
            )
    return offsets, unknown


def commit_in_slices(
    topics: Topics,
    wanted: Sequence[TopicToCommit],
    commit: Callable[[Sequence[OffsetToCommit]], Completion[CommitErrors]],
    to_client_error: Callable[[ErrorCode], ErrorCode],
    *,
    by_id: bool = False,
) -> Sliced[CommitErrors]:
    """Return an error for each partition of a large request. It is split so that each commit takes one turn, and each
    is decided separately: a member that is fenced meanwhile is rejected from then on."""
    errors: CommitErrors = {}
    started: list[Completion[CommitErrors]] = []
    for entry in wanted:
        for start in range(0, len(entry.partitions), _OFFSETS_A_COMMIT):
            some = _SomePartitions(entry.name, entry.partitions[start : start + _OFFSETS_A_COMMIT])
            offsets, unknown = offsets_to_commit(topics, [some], by_id=by_id)
            started.append(settle_errors(commit(offsets), offsets, unknown, to_client_error))
            yield 4 * len(some.partitions)
        yield 8
    for settled in started:
        yield settled
        errors.update(settled.result())
        yield 1
    return errors


def settle_errors(
    committed: Completion[CommitErrors],
    offsets: Sequence[OffsetToCommit],
    unknown: CommitErrors,
    to_client_error: Callable[[ErrorCode], ErrorCode],
) -> Completion[CommitErrors]:
    """Return an error for each partition of the request; one for the whole group, mapped by `shown`, applies to all of
    them."""

    def refused(error: KafkaError) -> CommitErrors:
        return {**unknown, **dict.fromkeys((offset.partition for offset in offsets), to_client_error(error.code))}

    return committed.map(lambda errors: {**unknown, **errors}, refused)
