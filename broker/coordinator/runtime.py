"""Runs coordinators as replayed shards: one shard for each partition of an internal topic.

Owns: the shards, their loading, and the order "decide, append, replay, answer when durable". Does not own what a
record means (the shard) or what is on disk (`PartitionLog`).
Invariants
- A shard changes only by replaying a record, live and while loading alike, so that a restart gives the same shard.
- A response leaves once everything that it was decided from is durable: the high watermark has passed the log's end
  as it was in the turn of the decision.
- While logs are replayed nothing is decided from any shard: every key is COORDINATOR_LOAD_IN_PROGRESS.

Shaped by Kafka's CoordinatorRuntime, without its threads: the event loop is the lock.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from oncelog.broker.completion import Completion
from oncelog.broker.log.partition_log import AppendOrigin, PartitionLog
from oncelog.broker.ports import Clock, WallMs
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.partitioning import coordinator_partition
from oncelog.protocol.records.batch import BatchHeader, encode_batch
from oncelog.protocol.records.control import ControlRecordType, decode_end_txn_marker
from oncelog.protocol.records.record import Record, decode_records

T = TypeVar("T")

_APPEND_ERRORS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
}
"""As Kafka translates them: clients look the coordinator up again and retry, the log's own codes would puzzle them."""


@dataclass(frozen=True, slots=True)
class CoordinatorRecord:
    """A key and its new value in the internal topic; None is a tombstone."""

    key: bytes
    value: bytes | None


@dataclass(frozen=True, slots=True)
class WriteResult(Generic[T]):
    """What a write operation decided: the records to log and the answer to give once they are durable."""

    records: Sequence[CoordinatorRecord]
    response: T


class Shard(Protocol):
    """The state behind one partition; durable state changes in these two methods alone."""

    def replay(self, record: CoordinatorRecord, *, offset: int, producer_id: int) -> None:
        """Apply one record; `producer_id` is −1 unless the record is part of a transaction."""

    def replay_end_transaction_marker(
        self, *, producer_id: int, producer_epoch: int, committed: bool, offset: int
    ) -> None:
        """A transaction that wrote to this partition has ended."""


ShardT = TypeVar("ShardT", bound=Shard)


class InternalTopic(Protocol):
    """How the runtime finds the logs of its topic (`broker.cluster.topics`)."""

    def partition_count(self) -> int: ...

    def partition(self, index: int) -> PartitionLog:
        """Raises KafkaError(NOT_COORDINATOR) until the topic exists."""

    def partitions_with_data(self) -> Iterable[int]: ...


class CoordinatorRuntime(Generic[ShardT]):
    def __init__(self, topic: str, source: InternalTopic, shard_factory: Callable[[int], ShardT], clock: Clock) -> None:
        self.topic = topic
        self._source = source
        self._shard_factory = shard_factory
        self._clock = clock
        self._shards: dict[int, ShardT] = {}
        self._is_loading = False

    @property
    def partition_count(self) -> int:
        return self._source.partition_count()

    def partition_for(self, key: str) -> int:
        """The partition that holds a group or transactional id (Java's String.hashCode, not murmur2)."""
        return coordinator_partition(key, self.partition_count)

    def shard(self, key: str) -> ShardT:
        return self._shard_of(self.partition_for(key))

    def shards(self) -> Iterator[ShardT]:
        """Every loaded shard, by partition; none while logs are replayed."""
        if self._is_loading:
            return
        for partition in sorted(self._shards):
            yield self._shards[partition]

    @property
    def is_available(self) -> bool:
        """The topic exists."""
        try:
            return self._source.partition_count() > 0
        except KafkaError:
            return False

    def check_loaded(self) -> None:
        """Asked by those who tell of all shards. Raises KafkaError(COORDINATOR_LOAD_IN_PROGRESS)."""
        if self._is_loading:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"{self.topic} is being replayed.")

    def unload(self) -> None:
        """The topic was deleted, and all that was replayed from it with it."""
        self._is_loading = False
        self._shards.clear()

    def begin_loading(self) -> Iterator[int | Completion[None]]:
        """Replay each partition that holds records, a batch a step, which tells how many records that was."""
        self._is_loading = True
        return self._load_all()

    def _load_all(self) -> Iterator[int | Completion[None]]:
        """Nobody changes the logs meanwhile: who writes asks a shard first. Raises KafkaError for a damaged log: then
        no shard is ever told of."""
        for partition in list(self._source.partitions_with_data()):
            try:
                yield from self._load(partition)
            except KafkaError as error:
                raise KafkaError(error.code, f"{self.topic} cannot be replayed: {error}") from error
            if not self._is_loading:
                return  # its topic was deleted
        self._is_loading = False

    def write(self, key: str, operation: Callable[[ShardT], WriteResult[T]]) -> Completion[T]:
        """Decide, append, replay in this turn; the response comes once durable, or the KafkaError raised on the way."""
        return self._run(key, operation)

    def write_transactional(
        self,
        key: str,
        producer_id: int,
        producer_epoch: int,
        operation: Callable[[ShardT], WriteResult[T]],
        *,
        transaction_version: int = 0,
    ) -> Completion[T]:
        """Like `write`, as part of a producer's transaction: the partition checks the producer, the marker decides."""
        return self._run(key, operation, producer_id, producer_epoch, transaction_version)

    def read(self, key: str, operation: Callable[[ShardT], T]) -> Completion[T]:
        """Decided now, answered once all that it may have seen is durable."""
        return self._run(key, lambda shard: WriteResult((), operation(shard)))

    def write_marker(
        self,
        partition: int,
        *,
        producer_id: int,
        producer_epoch: int,
        committed: bool,
        coordinator_epoch: int,
        transaction_version: int,
        wall_ms: WallMs,
    ) -> Completion[None]:
        """End a producer's transaction in one partition of this topic."""
        try:
            log = self._source.partition(partition)
            shard = self._shard_of(partition)
            appended = log.append_end_txn_marker(
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                committed=committed,
                coordinator_epoch=coordinator_epoch,
                wall_ms=wall_ms,
                transaction_version=transaction_version,
            )
        except KafkaError as error:
            return Completion.failed(error)
        shard.replay_end_transaction_marker(
            producer_id=producer_id, producer_epoch=producer_epoch, committed=committed, offset=appended.base_offset
        )
        return log.when_durable(appended.last_offset + 1)

    def _run(
        self,
        key: str,
        operation: Callable[[ShardT], WriteResult[T]],
        producer_id: int = -1,
        producer_epoch: int = -1,
        transaction_version: int = 0,
    ) -> Completion[T]:
        try:
            partition = self.partition_for(key)
            log = self._source.partition(partition)
            shard = self._shard_of(partition)
            result = operation(shard)
            if result.records:
                self._append(log, shard, result.records, producer_id, producer_epoch, transaction_version)
        except KafkaError as error:
            return Completion.failed(error)
        return _released(log, result.response)

    def _append(
        self,
        log: PartitionLog,
        shard: ShardT,
        records: Sequence[CoordinatorRecord],
        producer_id: int,
        producer_epoch: int,
        transaction_version: int,
    ) -> None:
        wall_ms = self._clock.wall_ms()
        batch = encode_batch(
            [Record(index, wall_ms, record.key, record.value, ()) for index, record in enumerate(records)],
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            transactional=producer_id >= 0,
        )
        try:
            appended = log.append(
                memoryview(batch),
                wall_ms=wall_ms,
                origin=AppendOrigin.COORDINATOR,
                transaction_version=transaction_version,
            )
        except KafkaError as error:
            raise KafkaError(_APPEND_ERRORS.get(error.code, error.code), error.message) from error
        for index, record in enumerate(records):
            shard.replay(record, offset=appended.base_offset + index, producer_id=producer_id)

    def _shard_of(self, partition: int) -> ShardT:
        self.check_loaded()
        shard = self._shards.get(partition)
        if shard is None:  # it had no records when the others were loaded
            for _ in self._load(partition):
                pass
            shard = self._shards[partition]
        return shard

    def _load(self, partition: int) -> Iterator[int | Completion[None]]:
        log = self._source.partition(partition)
        shard = self._shard_factory(partition)
        for piece in log.replay():
            if isinstance(piece, Completion):
                yield piece
                continue
            for header, batch in piece:
                _replay_batch(shard, header, batch)
                yield header.record_count
                if log.is_deleted:
                    self.unload()
                    return
        self._shards[partition] = shard


def _replay_batch(shard: Shard, header: BatchHeader, batch: memoryview) -> None:
    if header.record_count == 0:
        return  # emptied by compaction
    if header.is_control:
        marker, _ = decode_end_txn_marker(batch)
        shard.replay_end_transaction_marker(
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            committed=marker is ControlRecordType.COMMIT,
            offset=header.base_offset,
        )
        return
    producer_id = header.producer_id if header.is_transactional else -1
    for record in decode_records(batch):
        if record.key is None:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"a record without a key at offset {record.offset}")
        shard.replay(CoordinatorRecord(record.key, record.value), offset=record.offset, producer_id=producer_id)


def _released(log: PartitionLog, response: T) -> Completion[T]:
    released: Completion[T] = Completion()

    def on_durable(done: Completion[None]) -> None:
        if done.error is None:
            released.complete(response)
        elif log.is_deleted:  # nobody has asked for this topic: look the coordinator up again
            released.fail(KafkaError(ErrorCode.NOT_COORDINATOR, str(done.error)))
        else:
            released.fail(done.error)

    log.when_durable(log.log_end_offset).then(on_durable)
    return released
