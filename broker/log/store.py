"""The storage port: what a partition's log asks of the place where its records lie.

Owns: the shapes alone. `broker.storage.local` keeps records in files, `broker.storage.memory` in memory; both pass one
suite of tests (`tests/unit/storage`). A `PartitionLog` decides offsets, sequences and who may read how far, and knows
no file; a store keeps batches in offset order and makes them durable.

Contract
- A log appends in the turn of its decision. An append that raises has changed nothing.
- `LogStore.commit` makes all that was appended before it durable, whatever logs it lies in. Records above what is
  committed may be lost by a crash; records below it never are, or the log says so when it is opened.
- Positions are the store's affair: it is asked for offsets, which are always boundaries of batches.
- What is not at hand is fetched: `read` and the look-ups answer with a Completion instead, and are asked again once it
  has ended. Bytes that were fetched stay at hand for that second call.
- When a store cannot be trusted any more it says so once, through `Failure`: nothing is acknowledged from then on.
"""

from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol
from uuid import UUID

from oncelog.broker.completion import Completion
from oncelog.broker.log.leader_epochs import EpochStart, LeaderEpochs
from oncelog.broker.log.log_config import LogConfig
from oncelog.broker.log.producer_state import ProducerStateManager
from oncelog.broker.log.values import AbortedTransaction
from oncelog.broker.ports import Buffer, WallMs
from oncelog.broker.slices import Sliced
from oncelog.protocol.records.batch import BatchHeader

PLENTY_BYTES = 2**62
"""More than any reader asks for: a count that would need a read to be exact."""

Fetching = Completion[None]
"""Not at hand: ask again once it has ended. It fails with StoreError or StoreDamagedError."""
Batches = list[tuple[BatchHeader, memoryview]]
PartitionKey = tuple[str, int]
"""Topic name and partition number."""


class StoreError(Exception):
    """The store cannot do this now, for want of room or of file descriptors; nothing has changed, try again later."""


class StoreDamagedError(Exception):
    """What was durable is damaged or cannot be read: the log must go offline rather than serve fewer records."""


class Failure:
    """Whether the store of this node can still be trusted. Once it cannot, nothing more is acknowledged: after a failed
    fsync the kernel may have dropped the pages, and a second fsync that succeeds would prove nothing."""

    __slots__ = ("_on_failure", "failed")

    def __init__(self, on_failure: Callable[[OSError], None]) -> None:
        """`on_failure` is called once, with the first error."""
        self.failed = False
        self._on_failure = on_failure

    def fail(self, error: OSError) -> None:
        if not self.failed:
            self.failed = True
            self._on_failure(error)


@dataclass(frozen=True, slots=True)
class AbortedEntry:
    """An aborted transaction, as Kafka's transaction index has it."""

    producer_id: int
    first_offset: int
    last_offset: int  # the ABORT marker
    last_stable_offset: int  # as it became with this marker


ReadResult = tuple[memoryview, int]
"""Batches, the last one possibly cut short, and an offset at or past their end."""


class LogOwner(Protocol):
    """The PartitionLog of a stored log, as background work of the store sees it (compaction, retention, checks)."""

    topic: str
    partition: int
    config: LogConfig
    producer_state: ProducerStateManager
    log_start_offset: int
    last_stable_offset: int
    high_watermark: int
    log_end_offset: int
    is_deleted: bool
    offline_error: str | None

    @property
    def name(self) -> str: ...

    def take_offline(self, problem: str) -> None:
        """Durable data is damaged: readers and writers are refused from now on."""


class StoredLog(Protocol):
    """The records of one partition. Its PartitionLog calls it, from the event loop alone."""

    def attach(self, owner: LogOwner) -> None:
        """The log that these records belong to; called once, before anything else."""

    @property
    def size_bytes(self) -> int: ...

    def append(self, parts: tuple[Buffer, ...], size_bytes: int, next_offset: int, timestamp: int) -> None:
        """Add one batch of `size_bytes`, whose last offset is `next_offset - 1` and greatest timestamp `timestamp`.
        Raises StoreError."""

    def keep_epochs(self, epochs: Sequence[EpochStart]) -> None:
        """The batch that comes next is the first of a leader epoch; these are all that have batches, and where each
        began: for `OpenedLog.epochs`, once the next commit is over."""

    def note_aborted(self, entry: AbortedEntry) -> None:
        """The batch just appended is the ABORT marker of this transaction."""

    def read(self, from_offset: int, to_offset: int, max_bytes: int, *, at_least_one: bool) -> ReadResult | Fetching:
        """Batches from the one that holds `from_offset`, none of them at or past `to_offset`. The first one comes whole
        if `at_least_one`, however large. Raises StoreError, StoreDamagedError."""

    def readable_bytes(self, from_offset: int, to_offset: int) -> int:
        """The size of the batches between two offsets, the lower one first, from the indexes alone; PLENTY_BYTES where
        these do not say. Raises StoreError, StoreDamagedError."""

    def read_at_most(self, from_offset: int) -> int:
        """At least as many bytes as one `read` from there can give, by the indexes alone."""

    def aborted_between(self, from_offset: int, to_offset: int) -> tuple[AbortedTransaction, ...]:
        """The aborted transactions with records in [from_offset, to_offset), in the order of their markers."""

    def find_timestamp(self, timestamp_ms: int, from_offset: int, to_offset: int) -> tuple[int, int] | Fetching | None:
        """(offset, timestamp) of the first record in [from_offset, to_offset) that is as late as `timestamp_ms`.
        Raises StoreError, StoreDamagedError."""

    def find_max_timestamp(self, from_offset: int, to_offset: int) -> tuple[int, int] | Fetching | None:
        """(offset, timestamp) of the first record with the greatest timestamp. Raises as `find_timestamp`."""

    def replay(self, from_offset: int, to_offset: int) -> Iterator[Batches | Fetching]:
        """Every batch that reaches into [from_offset, to_offset), in pieces; a Fetching comes before a piece that is
        not at hand. Raises StoreError, and StoreDamagedError where a batch is damaged or missing: a replay without it
        would give another state."""

    def retention_start(self, high_watermark: int, wall_ms: WallMs) -> int | None:
        """Where the log may begin by age and size (retention.ms, retention.bytes); None: nothing may go."""

    def drop_below(self, offset: int) -> bool:
        """The log begins at `offset` now, durably (`LogStore.move_starts`): records wholly below may go, as soon as
        nothing uses them. Whether a commit must come before that."""

    def abandon(self) -> None:
        """The partition is deleted; nothing of it is read or written any more."""


@dataclass(slots=True)
class OpenedLog:
    """A log as its store has recovered it: all of it is durable."""

    stored: StoredLog
    producer_state: ProducerStateManager
    log_start_offset: int
    log_end_offset: int
    offline_error: str | None = None
    """Why it can be neither read nor written."""
    epochs: LeaderEpochs = field(default_factory=LeaderEpochs)


@dataclass(slots=True)
class Withdrawn:
    """A topic that is gone, and those of its partitions whose records still take up room."""

    topic: str
    topic_id: UUID
    partitions: list[int]
    all_gone: bool = True
    """No deletion has failed so far."""


class LogStore(Protocol):
    """All records of one node."""

    @property
    def problems(self) -> Sequence[str]:
        """What is wrong with the store as a whole, a line each; logs are recovered without it."""

    # -- opening

    def holds(self, topic: str, partition: int, topic_id: UUID) -> bool:
        """Whether there was anything of a partition when the store was opened, or should have been."""

    def open(self, topic: str, partition: int, topic_id: UUID, config: LogConfig) -> OpenedLog | Completion[OpenedLog]:
        """A partition with all that is left of it, now or later. At a start, before anything is served."""

    def create(self, topic: str, partition: int, topic_id: UUID, config: LogConfig) -> OpenedLog:
        """A partition that the store did not hold when it was opened: empty."""

    def complete_recovery(self) -> None:
        """Every partition is open, and none of them offline."""

    def begin_serving(self) -> None:
        """From now on the event loop must not wait: until here nothing is served, and a replay may read as it likes."""

    def partitions(self) -> Collection[PartitionKey]:
        """Everything that looks like a partition, known or not."""

    def unknown_entries(self, known: Container[PartitionKey]) -> list[str]:
        """The names of what is there and belongs to none of these."""

    # -- durability

    def commit(self, append_count: int) -> Fetching | None:
        """Make durable what was appended so far, in `append_count` calls; None: it is already. Never ends, or fails,
        after a failure of the store."""

    def commit_now(self) -> None:
        """The same, at once and for every log, whatever the flush policy. Raises OSError."""

    @property
    def is_busy(self) -> bool:
        """Something is being made durable behind what was committed; a clean stop waits for it."""

    def move_starts(self, starts: Mapping[PartitionKey, int]) -> Completion[None]:
        """Make new starts of logs durable, before readers see them. Fails with StoreError for want of room, or OSError;
        nothing has moved then."""

    # -- topics

    def make_way(self, topic: str, partitions: range) -> None:
        """Before partitions are created: set aside what stands in their places, and report it. Raises OSError."""

    def prepare_removal(self, topic_id: UUID) -> None:
        """Before the removal of a topic is logged: from then on a start deletes what is left of it."""

    def withdraw(self, withdrawn: Withdrawn, partitions: Sequence[int]) -> Sliced[None]:
        """Free the names of abandoned partitions; those with records are noted in `withdrawn`."""

    def delete(self, withdrawn: Withdrawn) -> Sliced[None]:
        """Delete the records of withdrawn partitions; what cannot be deleted is reported and left to the next start."""

    def finish_removals(self, removed: Mapping[UUID, str], live: Container[UUID]) -> list[str]:
        """At a start: delete what is left of removed topics (id and name); a line for each."""

    # -- the rest

    def volume_bytes(self) -> tuple[int, int]:
        """Size of the volume, and room on it."""

    def step(self) -> None:
        """One background turn: compaction and whatever else may wait."""

    def set_up_compaction(self, memory_bytes: int, backoff_ms: int) -> None:
        """Settings of the cleaner have changed."""

    def stop_background(self) -> None:
        """Before a clean stop: end compaction and checks."""

    def close(self, *, cleanly: bool) -> OSError | None:
        """The last call. `cleanly`: write what spares the next start a scan; what kept it from that."""
