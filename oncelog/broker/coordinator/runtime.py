"""Runs coordinators as replayed shards: one shard for each partition of an internal topic that this node leads.

Owns: the lives of its partitions (`life`), and the order "decide, append, replay, respond when durable". Does not own
what a record means (the shard), where records are stored (`log`), when a log is replayed (`loading`), leadership (the
caller of `gain` and `lose`).
Invariants
- A shard changes only by replaying a record, live and while loading alike, so a restart rebuilds the same shard.
- A response is sent only once all state that it depends on is durable: the high watermark has passed the log end
  offset of the turn of the decision.
- Partitions are independent: losing, replaying or failing to read one affects only its own life.

Shaped by Kafka's CoordinatorRuntime, without its threads: the event loop is the lock.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from oncelog.broker.coordinator.life import Life, LifeState
from oncelog.broker.coordinator.loading import CoordinatorLoading
from oncelog.broker.log.values import NO_TRANSACTION, AppendResult, EndMarker, Writer
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.ports import Clock, WallMs
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.partitioning import coordinator_partition
from oncelog.protocol.records.record import Record, decode_records

if TYPE_CHECKING:
    from oncelog.broker.coordinator.log import CoordinatorLog

T = TypeVar("T")

NO_EPOCH = -1
_NO_PRODUCER = -1
_REPLAYED = 3
"""The cost of replaying a record; reading one to find the newest costs 1."""
_CACHED_KEYS = 1_000
_CACHED_KEY_LENGTH = 64
"""The longest key that is cached. Longer ones are rare, and clients choose them: 32 kB each would be 32 MB."""

_APPEND_ERRORS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
}
"""The errors for a failed append, as in Kafka: clients look up the coordinator and retry; the log's own mislead."""


class CoordinatorRecord:
    """A key and its new value in the internal topic; None is a tombstone.

    `decoded` is what a decoder would read from the two, if the writer has it at hand: its own replay then need not
    decode what was just encoded. A record read from a log has none.
    """

    __slots__ = ("decoded", "key", "value")

    def __init__(self, key: bytes, value: bytes | None, decoded: object = None) -> None:
        self.key: Final = key
        self.value: Final = value
        self.decoded: Final = decoded

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CoordinatorRecord) and (self.key, self.value) == (other.key, other.value)

    def __hash__(self) -> int:
        return hash((self.key, self.value))

    def __repr__(self) -> str:
        return f"CoordinatorRecord({self.key!r}, {self.value!r})"


class WriteResult(Generic[T]):
    """The outcome of a write operation: the records to log, and the response once they are durable."""

    __slots__ = ("records", "response")

    def __init__(self, records: Sequence[CoordinatorRecord], response: T) -> None:
        self.records: Final = records
        self.response: Final = response


class Replayed(Protocol):
    """The durable state of a partition, which changes in these two methods only."""

    def replay(self, record: CoordinatorRecord, *, offset: int, producer_id: int) -> None:
        """Apply one record; `producer_id` is −1 unless the record is part of a transaction."""

    def replay_end_transaction_marker(self, marker: EndMarker, offset: int, /) -> None:
        """Apply the end of a transaction that wrote to this partition."""


class Shard(Replayed, Protocol):
    """All state of one coordinator partition, durable or not; created for one life and dropped with it."""

    def on_active(self) -> None:
        """Resume what the replayed log left unfinished."""

    def on_resigned(self) -> None:
        """Stop the timers, and fail the waiters with NOT_COORDINATOR: the shard is no longer active."""


ShardT = TypeVar("ShardT", bound=Shard)


class InternalTopic(Protocol):
    """How the runtime finds the logs of its topic (`broker.cluster.topics`)."""

    def partition_count(self) -> int: ...

    def partition(self, index: int) -> "CoordinatorLog":
        """Raises KafkaError(NOT_COORDINATOR) until the topic exists."""

    def partitions_with_data(self) -> Iterable[int]: ...


class CoordinatorRuntime(Generic[ShardT]):
    def __init__(
        self,
        topic: str,
        source: InternalTopic,
        make_shard: Callable[[int, int], ShardT],
        clock: Clock,
        loading: CoordinatorLoading,
        epoch_of: Callable[[str, int], int | None],
        on_failed: Callable[[KafkaError], None],
        needs_every_record: bool = False,
    ) -> None:
        """`make_shard(partition, epoch)` makes the shard of a life; `epoch_of(topic, partition)` is the leader epoch in
        which this node leads a partition, None if it does not; `on_failed` is called for a log that cannot be replayed.
        With `needs_every_record` the newest record of a key does not stand for those before it.
        """
        self.topic = topic
        self._source = source
        self._make_shard = make_shard
        self._clock = clock
        self._loading = loading
        self._epoch_of = epoch_of
        self._on_failed = on_failed
        self._needs_every_record = needs_every_record
        self._lives: dict[int, Life[ShardT]] = {}
        # Each operation asks for it, and hashing takes 1 µs.
        self._find_partition = lru_cache(_CACHED_KEYS)(coordinator_partition)

    @property
    def partition_count(self) -> int:
        return self._source.partition_count()

    def partition_for(self, key: str) -> int:
        """Return the partition that holds a group or transactional id (Java's String.hashCode, not murmur2)."""
        find = self._find_partition if len(key) <= _CACHED_KEY_LENGTH else coordinator_partition
        return find(key, self.partition_count)

    def shard(self, key: str) -> ShardT:
        """Raises KafkaError while its partition is not ACTIVE."""
        return self._active(self.partition_for(key)).shard

    def shards(self) -> Iterator[ShardT]:
        """Yield every active shard, by partition."""
        for partition in sorted(self._lives):
            life = self._lives.get(partition)
            if life is not None and life.state is LifeState.ACTIVE:
                yield life.shard

    @property
    def is_available(self) -> bool:
        """Whether the topic exists."""
        try:
            return self._source.partition_count() > 0
        except KafkaError:
            return False

    def check_loaded(self) -> None:
        """Raise KafkaError(COORDINATOR_LOAD_IN_PROGRESS) while a log is being replayed: for operations that list all
        shards."""
        for life in self._lives.values():
            if life.is_loading:
                raise life.refusal()

    def check_complete(self) -> None:
        """Raise KafkaError if a shard is not active on this node: for operations that need every one."""
        for life in self._lives.values():
            if life.state is not LifeState.ACTIVE:
                raise life.refusal()

    # --- lives --------------------------------------------------------------------------------------------------------

    def gain_all(self) -> None:
        """Gain every partition of this node that has records, at a start. The others are gained on first use."""
        for partition in list(self._source.partitions_with_data()):
            epoch = self._epoch_of(self.topic, partition)
            if epoch is not None:
                self.gain(partition, epoch)

    def gain(self, partition: int, epoch: int) -> None:
        """Replay the log of a partition that this node now leads, then serve it. Does nothing for an epoch that is over
        or already served, or if the topic is deleted."""
        if not self.is_available:
            return
        previous = self._lives.get(partition)
        if previous is not None:
            is_over = previous.state in (LifeState.RESIGNED, LifeState.FAILED)
            if epoch < previous.epoch or (epoch == previous.epoch and not is_over):
                return
            self._resign(previous)
        life = self._lives[partition] = Life[ShardT](self.topic, partition, epoch)
        life.move_to(LifeState.LOADING)
        try:
            life.log = self._source.partition(partition)
        except KafkaError as error:
            self._fail(life, error)
            return
        if life.log.log_end_offset:
            self._loading.add(self._load(life))
        else:
            self._begin(life, self._make_shard(partition, epoch))

    def lose(self, partition: int) -> None:
        """Refuse requests and waiters with NOT_COORDINATOR: this node no longer leads the partition."""
        if not self.is_available:
            return
        life = self._lives.get(partition)
        if life is None:
            life = self._lives[partition] = Life[ShardT](self.topic, partition, NO_EPOCH)
        self._resign(life)

    def on_topic_changed(self, name: str) -> None:
        """Drop everything if the topic was deleted: a new one of that name inherits nothing."""
        if name == self.topic and not self.is_available:
            lives, self._lives = self._lives, {}
            for life in lives.values():
                self._resign(life)

    def _load(self, life: Life[ShardT]) -> Iterator[int | Completion[Any]]:
        """Replay what counts of the log, which does not change meanwhile: writers need the shard first."""
        if not life.is_loading:
            return
        shard = self._make_shard(life.partition, life.epoch)
        try:
            yield from (_replay_all if self._needs_every_record else _replay_newest)(life, shard)
            # The previous life may have logged records that are not durable yet; send no marker for such a PREPARE.
            durable = life.log.when_durable(life.log.log_end_offset)
            if not durable.done:
                yield durable
        except KafkaError as error:
            is_damaged = error.code is not ErrorCode.KAFKA_STORAGE_ERROR or life.log.offline_error is not None
            if is_damaged or not self._loading.caught_up.done:
                self._fail(life, error)
            else:  # perhaps too many open files: at a start this is fatal, a running broker retries
                self._loading.add_later(self._load(life))
            return
        if life.is_loading:
            self._begin(life, shard)

    def _begin(self, life: Life[ShardT], shard: ShardT) -> None:
        life.shard = shard
        life.move_to(LifeState.ACTIVE)
        shard.on_active()

    def _fail(self, life: Life[ShardT], error: KafkaError) -> None:
        if life.is_loading:
            life.problem = f"{self.topic} cannot be replayed: {error}"
            life.move_to(LifeState.FAILED)
            self._on_failed(KafkaError(error.code, life.problem))

    def _resign(self, life: Life[ShardT]) -> None:
        if life.state is LifeState.RESIGNED:
            return
        was_active = life.state is LifeState.ACTIVE
        life.move_to(LifeState.RESIGNED)
        if was_active:
            life.shard.on_resigned()
            del life.shard
        life.fail_waiting()

    def _active(self, partition: int) -> Life[ShardT]:
        life = self._lives.get(partition)
        if life is None:
            life = self._gain_on_first_use(partition)
        if life.state is not LifeState.ACTIVE:
            raise life.refusal()
        return life

    def _gain_on_first_use(self, partition: int) -> Life[ShardT]:
        """Gain a partition that had no records at the start, and so needs no replay."""
        self._source.partition(partition)  # raises if the topic or partition is unusable
        epoch = self._epoch_of(self.topic, partition)
        if epoch is None:
            self.lose(partition)
        else:
            self.gain(partition, epoch)
        return self._lives[partition]

    # --- operations ---------------------------------------------------------------------------------------------------

    def write(self, key: str, operation: Callable[[ShardT], WriteResult[T]]) -> Completion[T]:
        """Decide, append and replay in this turn; respond once durable, or with the KafkaError raised on the way."""
        return self._run(key, operation)

    def write_transactional(
        self,
        key: str,
        producer_id: int,
        producer_epoch: int,
        operation: Callable[[ShardT], WriteResult[T]],
        *,
        transaction_version: int = 0,
        may_answer_ahead: Callable[[], bool] | None = None,
    ) -> Completion[T]:
        """Do as `write` in a producer's transaction: the partition checks the producer, the marker decides. Responds at
        once if `may_answer_ahead()` after an append."""
        return self._run(key, operation, Writer(producer_id, producer_epoch, transaction_version), may_answer_ahead)

    def read(self, key: str, operation: Callable[[ShardT], T]) -> Completion[T]:
        """Decide now, and respond once everything it may have read is durable."""
        return self._run(key, lambda shard: WriteResult((), operation(shard)))

    def append(self, partition: int, records: Sequence[CoordinatorRecord]) -> Completion[None]:
        """Log and replay records that need no further decision: for a shard that writes on its own."""
        try:
            life = self._writable(partition)
            self._append(life, records, NO_TRANSACTION)
        except KafkaError as error:
            return Completion.failed(error)
        return _respond_when_durable(life, None)

    def append_marker(self, partition: int, marker: EndMarker, wall_ms: WallMs) -> AppendResult:
        """End a producer's transaction in one partition of this topic. Raises KafkaError."""
        life = self._writable(partition)
        appended = life.log.append_end_txn_marker(marker, wall_ms)
        life.shard.replay_end_transaction_marker(marker, appended.base_offset)
        return appended

    def when_durable(self, partition: int) -> Completion[None]:
        """Complete when everything now in the log of this partition is durable."""
        try:
            life = self._writable(partition)
            life.log.start_round()
            return _respond_when_durable(life, None)
        except KafkaError as error:
            return Completion.failed(error)

    def _run(
        self,
        key: str,
        operation: Callable[[ShardT], WriteResult[T]],
        writer: Writer = NO_TRANSACTION,
        may_answer_ahead: Callable[[], bool] | None = None,
    ) -> Completion[T]:
        try:
            life = self._writable(self.partition_for(key))
            result = operation(life.shard)
            if result.records:
                self._append(life, result.records, writer)
            else:
                life.log.start_round()
        except KafkaError as error:
            return Completion.failed(error)
        if may_answer_ahead is not None and result.records and may_answer_ahead():
            return Completion.of(result.response)
        return _respond_when_durable(life, result.response)

    def _writable(self, partition: int) -> Life[ShardT]:
        life = self._active(partition)
        if life.log.offline_error is not None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, life.log.offline_error)
        return life

    def _append(self, life: Life[ShardT], records: Sequence[CoordinatorRecord], writer: Writer) -> None:
        wall_ms = self._clock.wall_ms()
        entries = [Record(index, wall_ms, record.key, record.value) for index, record in enumerate(records)]
        try:
            offset = life.log.append_own(entries, wall_ms, writer).base_offset
        except KafkaError as error:
            raise KafkaError(_APPEND_ERRORS.get(error.code, error.code), error.message) from error
        shard = life.shard
        for record in records:
            shard.replay(record, offset=offset, producer_id=writer.producer_id)
            offset += 1


def _replay_newest(life: Life[Any], shard: Replayed) -> Generator[int | Completion[Any], None, None]:
    """Replay the newest record of each key, with the producer as in `NewestRecords.take`."""
    from oncelog.broker.coordinator.newest import NewestRecords  # a new broker has nothing to read

    newest = NewestRecords()
    for piece in life.log.replay():
        if isinstance(piece, Completion):
            yield piece
            piece = piece.result()
        for header, batch in piece:
            newest.add(header, batch)
            yield header.record_count
        if not life.is_loading:
            return
    for record, producer_id in newest.take():
        if not life.is_loading:
            return
        change = CoordinatorRecord(record.key or b"", record.value)
        shard.replay(change, offset=record.offset, producer_id=producer_id)
        yield _REPLAYED


def _replay_all(life: Life[Any], shard: Replayed) -> Generator[int | Completion[Any], None, None]:
    """Replay every record, none of which is part of a transaction."""
    for piece in life.log.replay():
        if isinstance(piece, Completion):
            yield piece
            piece = piece.result()
        for header, batch in piece:
            if not life.is_loading:
                return
            for record in () if header.is_control else decode_records(batch):
                change = CoordinatorRecord(record.key or b"", record.value)
                shard.replay(change, offset=record.offset, producer_id=_NO_PRODUCER)
            yield header.record_count * (1 + _REPLAYED)


def _respond_when_durable(life: Life[ShardT], response: T) -> Completion[T]:
    """Return the response once everything now in the log is durable; NOT_COORDINATOR if the life ends first."""
    released: Completion[T] = Completion()
    log = life.log
    log.complete_when_durable(released, response, log.log_end_offset)
    if not released.done:
        life.waiting[released] = None
        released.then(life.waiting.pop)
    return released
