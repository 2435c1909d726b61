"""The share coordinator: answers for the durable state of share-partitions, and keeps its log short.

Owns: the order of a request (the topic of the records exists, decide, log, respond when durable), snapshots of what has
not changed for long, the deletion of records that say nothing more. Does not own: what is decided (`decisions`), the
state (`shard`), partitions of `__share_group_state` and their loading (`broker.coordinator.runtime`).
Invariants
- A refused request has changed nothing; an accepted one takes effect in its turn, unless the topic must first be made.
- Who uses a share-partition is notified in the turn in which it begins again or is deleted: its writer would be fenced
  only if the state epoch is higher, and a group that is made again begins with a low one.
- Records are deleted only once what makes them redundant is durable.
- The state of a topic's share-partitions is deleted once the topic's removal is durable: before that a crash could
  bring the topic back without it.

Shaped by Kafka's ShareCoordinatorService and DefaultStatePersister: who asks within the broker needs not look for the
coordinator.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar
from uuid import UUID

from oncelog.broker.coordinator.runtime import CoordinatorRecord, CoordinatorRuntime, WriteResult
from oncelog.broker.coordinator.share import decisions
from oncelog.broker.coordinator.share.decisions import Written
from oncelog.broker.coordinator.share.shard import ShareShard, StoredShare
from oncelog.broker.coordinator.share.values import SharePartitionKey, ShareState, StateBatch
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.ports import Clock
from oncelog.broker.turns.schedule import Schedule
from oncelog.broker.turns.slices import Sliced
from oncelog.protocol.errors import KafkaError

T = TypeVar("T")

_BATCH_BYTES = 512 * 1024
_RECORD_OVERHEAD_BYTES = 24
_KEYS_AT_ONCE = 100
_LOOKS_AN_ELEMENT = 4
_RECORD_ELEMENTS = 4
"""The elements of logging a record, as for a group's tombstone."""

Decide = Callable[[ShareShard, SharePartitionKey], list[CoordinatorRecord]]


@dataclass(frozen=True, slots=True)
class ShareStateLimits:
    """The settings of the coordinator, named as Kafka's ShareCoordinatorConfig."""

    snapshot_update_records_per_snapshot: int
    prune_interval_ms: int
    cold_partition_snapshot_interval_ms: int


class ShareTopics(Protocol):
    """The topics, as the share coordinator sees them."""

    def ensure_state_topic(self) -> Completion[None]:
        """Complete once `__share_group_state` exists. Raises KafkaError."""

    def partition_count(self, topic_id: UUID) -> int:
        """Return 0 if there is no such topic."""

    def removed(self, name: str) -> Set[UUID]:
        """Return the ids of the removed topics of a name whose records are not deleted yet."""

    def is_over(self, topic_id: UUID) -> bool:
        """Whether there is no such topic, and none that is being deleted."""

    def delete_records(self, partition: int, before_offset: int) -> Completion[None]:
        """Delete the records of a partition of `__share_group_state` below an offset."""


class ShareCoordinator:
    def __init__(
        self,
        runtime: CoordinatorRuntime[ShareShard],
        topics: ShareTopics,
        clock: Clock,
        limits: ShareStateLimits,
        run_own: Callable[[Sliced[None]], object],
    ) -> None:
        """`run_own` runs background work in slices."""
        self._runtime = runtime
        self._topics = topics
        self._clock = clock
        self._limits = limits
        self._run_own = run_own
        self._pruning = Schedule(clock, first_in_ms=limits.prune_interval_ms)
        self._snapshots = Schedule(clock, first_in_ms=limits.cold_partition_snapshot_interval_ms)
        self._on_reset: Callable[[SharePartitionKey], None] = _ignore

    def make_shard(self, partition: int, _: int) -> ShareShard:
        """Make the shard of one life of a partition (`CoordinatorRuntime`); its records carry no coordinator epoch."""
        return ShareShard(partition)

    def watch_resets(self, on_reset: Callable[[SharePartitionKey], None]) -> None:
        """Have the user of share-partitions notified of each one that has begun again or is deleted."""
        self._on_reset = on_reset

    @property
    def is_available(self) -> bool:
        """Whether `__share_group_state` exists."""
        return self._runtime.is_available

    def shards(self) -> Iterator[ShareShard]:
        """Yield every active shard, for observers: what is in it may not be durable."""
        return self._runtime.shards()

    # --- requests -----------------------------------------------------------------------------------------------------

    def initialize(self, key: SharePartitionKey, state_epoch: int, start_offset: int) -> Completion[None]:
        """Begin a share-partition, or begin it again with a higher state epoch: what was in flight is forgotten."""

        def operation(shard: ShareShard) -> WriteResult[None]:
            wall_ms, count_partitions = self._clock.wall_ms(), self._topics.partition_count
            records = decisions.initialize(shard, key, state_epoch, start_offset, count_partitions, wall_ms)
            return WriteResult(records, None)

        return self._reset(key, operation)

    def read(self, key: SharePartitionKey, leader_epoch: int) -> Completion[ShareState]:
        """Return the state to the leader of the partition, and fence the leaders before it."""

        def operation(shard: ShareShard) -> WriteResult[ShareState]:
            wall_ms, limits = self._clock.wall_ms(), self._limits
            records, state = decisions.read(
                *(shard, key, leader_epoch, self._topics.partition_count, wall_ms),
                limits.snapshot_update_records_per_snapshot,
            )
            return WriteResult(records, state)

        return self._run(key, operation)

    def write(
        self,
        key: SharePartitionKey,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: Iterable[StateBatch],
    ) -> Completion[None]:
        """Change a share-partition: the start offset if it is not −1, and the state of the offsets in `batches`."""
        written = Written(state_epoch, leader_epoch, start_offset, delivery_complete_count, tuple(batches))

        def operation(shard: ShareShard) -> WriteResult[None]:
            wall_ms, limits = self._clock.wall_ms(), self._limits
            records = decisions.write(
                *(shard, key, written, self._topics.partition_count, wall_ms),
                limits.snapshot_update_records_per_snapshot,
            )
            return WriteResult(records, None)

        return self._run(key, operation)

    def delete(self, key: SharePartitionKey) -> Completion[None]:
        """End a share-partition; one that was never initialized is no error."""

        def operation(shard: ShareShard) -> WriteResult[None]:
            return WriteResult(decisions.delete(shard, key, self._topics.partition_count), None)

        return self._reset(key, operation)

    def summary(self, key: SharePartitionKey, leader_epoch: int) -> Completion[ShareState]:
        """Return the state without its batches. Kafka does not check the epoch, and this neither."""

        def operation(shard: ShareShard) -> WriteResult[ShareState]:
            return WriteResult((), decisions.summary(shard, key, self._topics.partition_count))

        return self._run(key, operation)

    def _reset(self, key: SharePartitionKey, operation: Callable[[ShareShard], WriteResult[None]]) -> Completion[None]:
        done = self._run(key, operation)
        if done.error is None:
            self._on_reset(key)
        return done

    def _run(self, key: SharePartitionKey, operation: Callable[[ShareShard], WriteResult[T]]) -> Completion[T]:
        try:
            made = self._topics.ensure_state_topic()
        except KafkaError as error:
            return Completion.failed(error)
        if made.done:
            return self._runtime.write(str(key), operation)
        return made.flat_map(lambda _: self._runtime.write(str(key), operation))

    # --- background work ----------------------------------------------------------------------------------------------

    def on_topic_removed(self, name: str) -> Sliced[None]:
        """Delete the state of a topic whose removal is durable."""
        topic_ids = self._topics.removed(name)
        for shard in self._runtime.shards():
            ended = yield from _keys(shard, lambda key, _: key.topic_id in topic_ids)
            yield from self._log(shard, ended, decisions.ended)

    def step(self) -> None:
        """Write the snapshots that are due, and delete the records that say nothing more."""
        if self._snapshots.take(self._limits.cold_partition_snapshot_interval_ms):
            for shard in self._runtime.shards():
                self._run_own(self._renew(shard))
        if self._pruning.take(self._limits.prune_interval_ms):
            for shard in self._runtime.shards():
                self._prune(shard)

    def _renew(self, shard: ShareShard) -> Sliced[None]:
        # A crash may have come between the removal of a topic and the end of its state.
        over = yield from _keys(shard, lambda key, _: self._topics.is_over(key.topic_id))
        yield from self._log(shard, over, decisions.ended)
        if not (yield from _keys(shard, lambda _, share: decisions.is_first(share))):
            return
        wall_ms, interval_ms = self._clock.wall_ms(), self._limits.cold_partition_snapshot_interval_ms
        cold = yield from _keys(shard, lambda _, share: decisions.is_cold(share, wall_ms, interval_ms))
        yield from self._log(shard, cold, lambda shard, key: decisions.renewed(shard, key, wall_ms))

    def _log(self, shard: ShareShard, keys: Sequence[SharePartitionKey], decide: Decide) -> Sliced[None]:
        """Log what is decided of each, in as many batches as needed: decided, logged and replayed in one turn."""
        for start in range(0, len(keys), _KEYS_AT_ONCE):
            if shard.has_resigned:
                return
            records = [record for key in keys[start : start + _KEYS_AT_ONCE] for record in decide(shard, key)]
            for batch in _batches(records):
                self._runtime.append(shard.partition, batch)
            yield len(records) * _RECORD_ELEMENTS

    def _prune(self, shard: ShareShard) -> None:
        before_offset = shard.redundant_before
        if before_offset <= shard.pruned_before:
            return
        durable = self._runtime.when_durable(shard.partition)
        pruned = durable.flat_map(lambda _: self._topics.delete_records(shard.partition, before_offset))
        pruned.then(partial(_on_pruned, shard, before_offset))


def _keys(
    shard: ShareShard, is_wanted: Callable[[SharePartitionKey, StoredShare], bool]
) -> Sliced[list[SharePartitionKey]]:
    """Return some of the share-partitions, of which there may be a hundred thousand."""
    found = []
    for number, (key, share) in enumerate(tuple(shard.all()), 1):
        if is_wanted(key, share):
            found.append(key)
        if not number % _LOOKS_AN_ELEMENT:
            yield 1
    return found


def _ignore(_: SharePartitionKey) -> None:
    return None


def _on_pruned(shard: ShareShard, before_offset: int, pruned: Completion[None]) -> None:
    if pruned.error is None:  # otherwise the next turn tries again
        shard.pruned_before = max(shard.pruned_before, before_offset)


def _batches(records: Sequence[CoordinatorRecord]) -> Iterator[list[CoordinatorRecord]]:
    batch: list[CoordinatorRecord] = []
    size_bytes = 0
    for record in records:
        record_bytes = len(record.key) + len(record.value or b"") + _RECORD_OVERHEAD_BYTES
        if batch and size_bytes + record_bytes > _BATCH_BYTES:
            yield batch
            batch, size_bytes = [], 0
        batch.append(record)
        size_bytes += record_bytes
    if batch:
        yield batch
