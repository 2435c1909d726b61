"""The storage port: how a partition's log stores and reads its records.

Owns: the interfaces only. `broker.storage.local` stores records in files, `broker.storage.memory` in memory; both pass
the same tests (`tests/unit/storage`). A `PartitionLog` decides offsets, sequences and read bounds, and knows no files;
a store keeps batches in offset order and makes them durable.

Contract
- A log appends in the turn of its decision. An append that raises has changed nothing.
- `LogStore.commit` makes everything appended before it durable, in all logs. A crash may lose uncommitted records; it
  never loses committed ones without an error when the log is opened.
- File positions are internal to the store: its callers use offsets, which are always batch boundaries.
- What is not cached is fetched: `read` and the lookups return a Completion of their result instead. Records that are
  deleted meanwhile may be missing from it; whoever uses it looks at the log start first.
- When a store can no longer be trusted it reports that once, through `Failure`: nothing is acknowledged afterwards.
"""

from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol
from uuid import UUID

from oncelog.broker.log.disk_space import DiskSpace
from oncelog.broker.log.leader_epochs import EpochStart, LeaderEpochs
from oncelog.broker.log.log_config import LogConfig
from oncelog.broker.log.producer_state import ProducerStateManager
from oncelog.broker.log.values import AbortedTransaction
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.ports import Buffer, WallMs
from oncelog.broker.turns.slices import Sliced
from oncelog.protocol.records.batch import BatchHeader

PLENTY_BYTES = 2**62
"""More than any reader requests: stands for a count that would need a read to be exact."""

Batches = list[tuple[BatchHeader, memoryview]]
LOGIN_SECRET = "login-secret"
"""The secret from which salts of unknown users are derived (`security.login_secret`)."""
PartitionKey = tuple[str, int]
"""Topic name and partition number."""


class StoreError(Exception):
    """The store lacks disk space or file descriptors; nothing has changed, retry later."""


class StoreDamagedError(Exception):
    """Durable data is damaged or unreadable: the log must go offline rather than serve fewer records."""


class Failure:
    """Whether the store of this node can still be trusted. If not, nothing more is acknowledged: after a failed fsync
    the kernel may have dropped the pages, and a second fsync that succeeds would prove nothing."""

    __slots__ = ("_on_failure", "_watchers", "failed", "space")

    def __init__(self, on_failure: Callable[[OSError], None]) -> None:
        """`on_failure` is called once, with the first error."""
        self.failed = False
        self.space = DiskSpace()
        """Without it, writes are refused and nothing has failed."""
        self._on_failure = on_failure
        self._watchers: list[Callable[[], None]] = []

    def watch(self, watcher: Callable[[], None]) -> None:
        """Call `watcher` at that moment."""
        self._watchers.append(watcher)

    def fail(self, error: OSError) -> None:
        if not self.failed:
            self.failed = True
            for watcher in self._watchers:
                watcher()
            self._on_failure(error)

    def end(self) -> None:
        """The store was closed: nothing more is acknowledged either, and nothing is written behind a clean stop."""
        self.failed = True


class AbortedEntry(NamedTuple):
    """An aborted transaction, as in Kafka's transaction index."""

    producer_id: int
    first_offset: int
    last_offset: int  # the ABORT marker
    last_stable_offset: int  # after this marker


ReadResult = tuple[memoryview, int]
"""Whole batches, and an offset at or past their end."""
FoundRecord = tuple[int, int]
"""The offset of a record, and its timestamp."""


class LogOwner(Protocol):
    """The PartitionLog of a stored log, as the store's background work sees it (compaction, retention, checks)."""

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
        """Durable data is damaged: reads and writes are rejected from now on."""


class StoredLog(Protocol):
    """The records of one partition. Called by its PartitionLog only, on the event loop."""

    def attach(self, owner: LogOwner) -> None:
        """Set the log that owns these records; called once, before anything else. A log that the store has
        withdrawn has none, so that a deleted log is freed at once."""

    @property
    def size_bytes(self) -> int: ...

    def append(self, parts: tuple[Buffer, ...], size_bytes: int, next_offset: int, timestamp: int) -> None:
        """Add one batch of `size_bytes`, whose last offset is `next_offset - 1` and greatest timestamp `timestamp`.
        Raises StoreError."""

    def keep_epochs(self, epochs: Sequence[EpochStart]) -> None:
        """The next batch is the first of a leader epoch; store all epochs that have batches, with their start offsets,
        for `OpenedLog.epochs`. Durable with the next commit."""

    def note_aborted(self, entry: AbortedEntry) -> None:
        """The batch just appended is the ABORT marker of this transaction."""

    def read(
        self, from_offset: int, to_offset: int, max_bytes: int, *, at_least_one: bool
    ) -> ReadResult | Completion[ReadResult]:
        """Batches from the one that holds `from_offset`, none at or past `to_offset`, of at most `max_bytes` together.
        With `at_least_one` the first one is returned, however large. Raises, or fails with, StoreError and
        StoreDamagedError."""

    def readable_bytes(self, from_offset: int, to_offset: int) -> int:
        """The size of the batches between two offsets, the lower one first, from the indexes alone; PLENTY_BYTES if
        these are not enough. Raises StoreError, StoreDamagedError."""

    def read_at_most(self, from_offset: int) -> int:
        """An upper bound of the bytes that one `read` from there can return, from the indexes alone."""

    def aborted_between(self, from_offset: int, to_offset: int) -> tuple[AbortedTransaction, ...]:
        """The aborted transactions with records in [from_offset, to_offset), in the order of their markers."""

    def find_timestamp(
        self, timestamp_ms: int, from_offset: int, to_offset: int
    ) -> FoundRecord | Completion[FoundRecord | None] | None:
        """The first record in [from_offset, to_offset) with at least `timestamp_ms`. Raises, or fails with, StoreError
        and StoreDamagedError."""

    def find_max_timestamp(
        self, from_offset: int, to_offset: int
    ) -> FoundRecord | Completion[FoundRecord | None] | None:
        """The first record with the greatest timestamp. Raises as `find_timestamp`."""

    def replay(self, from_offset: int, to_offset: int) -> Iterator[Batches | Completion[Batches]]:
        """Every batch that overlaps [from_offset, to_offset), in pieces; the next may be requested once a piece that
        comes later has come. Raises, or fails with, StoreError, and StoreDamagedError if a batch is damaged or missing:
        replay without it would give a different state."""

    def retention_start(self, high_watermark: int, wall_ms: WallMs) -> int | None:
        """The log start offset that age and size allow (retention.ms, retention.bytes); None: delete nothing."""

    def maybe_roll(self) -> None:
        """Everything is to be deleted: what is appended from now on is stored apart from it. Without space for that it
        is not, and `drop_below` keeps what it would have to delete with it."""

    def drop_below(self, offset: int) -> bool:
        """The log start is `offset`, durably (`LogStore.move_starts`): delete records entirely below it, once unused.
        Returns whether that needs a commit first."""

    def abandon(self) -> None:
        """The partition is deleted: no more reads or writes."""


@dataclass(slots=True)
class OpenedLog:
    """A recovered log: everything in it is durable."""

    stored: StoredLog
    producer_state: ProducerStateManager
    log_start_offset: int
    log_end_offset: int
    offline_error: str | None = None
    """Why it can be neither read nor written."""
    epochs: LeaderEpochs = field(default_factory=LeaderEpochs)


@dataclass(slots=True)
class Withdrawn:
    """A deleted topic, and those of its partitions whose records still use disk space."""

    topic: str
    topic_id: UUID
    partitions: list[int]
    all_gone: bool = True
    """No deletion has failed so far."""


class AnswersAhead(Protocol):
    """What becomes of answers to what is not durable yet, if the power is cut."""

    @property
    def are_possible(self) -> bool:
        """True if the next run will know that such answers may have been undone."""

    @property
    def may_be_lost(self) -> bool:
        """True until `settle` if answers of an earlier run may have been lost."""

    def settle(self) -> None:
        """Whatever may lack them is aborted, durably. Raises OSError: noted later, or the next start aborts again."""


class Blobs(Protocol):
    """Small values beside the logs that a start needs, by path: snapshots of the metadata log in its folder, and
    `LOGIN_SECRET`. A `Disk` is one."""

    def exists(self, path: str) -> bool: ...

    def list_dir(self, path: str) -> list[str]:
        """Names in a folder, sorted."""

    def read_bytes(self, path: str) -> bytes:
        """Raises OSError."""

    def write_atomically(self, path: str, data: Buffer) -> None:
        """Replace it as a whole, durably. Callable from another thread. Raises OSError."""

    def delete(self, path: str) -> None:
        """Missing is fine. Raises OSError."""


class LogStore(Protocol):
    """All records of one node."""

    @property
    def blobs(self) -> Blobs: ...

    @property
    def problems(self) -> Sequence[str]:
        """Problems of the store as a whole, a line each; logs are recovered nevertheless."""

    # -- opening

    def holds(self, topic: str, partition: int, topic_id: UUID) -> bool:
        """Whether the store had, or should have had, records of this partition when it was opened."""

    def open(self, topic: str, partition: int, topic_id: UUID, config: LogConfig) -> OpenedLog | Completion[OpenedLog]:
        """Recover a partition, at once or later; at startup, before anything is served."""

    def create(self, topic: str, partition: int, topic_id: UUID, config: LogConfig) -> OpenedLog:
        """An empty partition that the store did not hold when it was opened."""

    def complete_recovery(self) -> None:
        """Every partition is open, and none of them offline."""

    def begin_serving(self) -> None:
        """From now on the event loop must not block; before, nothing is served and a replay may block on reads."""

    def partitions(self) -> Collection[PartitionKey]:
        """Everything named like a partition, known or not."""

    def unknown_entries(self, known: Container[PartitionKey]) -> list[str]:
        """The names of entries that belong to none of these partitions."""

    # -- durability

    @property
    def commits_at_once(self) -> bool:
        """A commit costs nothing: nothing is gained by fewer of them."""

    def commit(self, append_count: int) -> Completion[None] | None:
        """Make everything appended so far durable, `append_count` batches; None: it is already. Never completes, or
        fails, after a failure of the store."""

    def write_ahead(self) -> bool:
        """Let everything appended so far outlive a kill of the process, which the next commit makes durable; False: it
        cannot be done now, wait for that."""

    @property
    def ahead(self) -> AnswersAhead:
        """Whether what was written ahead may be answered."""

    def commit_now(self) -> None:
        """The same, at once and for every log, whatever the flush policy. Raises OSError."""

    @property
    def rounds_are_whole(self) -> bool:
        """True if a crash leaves all of a round or nothing, over all logs. If False, an append that must not outlive
        another waits until the other is durable."""

    @property
    def is_busy(self) -> bool:
        """Durability work besides commits is in flight; a clean stop waits for it."""

    def when_idle(self) -> Completion[None]:
        """Completes when that work has ended; more may begin in the same turn."""

    def move_starts(self, starts: Mapping[PartitionKey, int]) -> Completion[None]:
        """Make new log start offsets durable, before readers see them. Fails with StoreError on a full disk, or
        OSError; then nothing has changed."""

    # -- topics

    def make_way(self, topic: str, partitions: range) -> None:
        """Before partitions are created: rename what occupies their names, and report it. Raises OSError."""

    def prepare_removal(self, topic_id: UUID) -> None:
        """Before the removal of a topic is logged: once it is, a start deletes what is left of it."""

    def withdraw(self, withdrawn: Withdrawn, partitions: Sequence[int]) -> Sliced[None]:
        """Free the names of abandoned partitions; those with records are added to `withdrawn`."""

    def delete(self, withdrawn: Withdrawn) -> Sliced[None]:
        """Delete the records of withdrawn partitions; what cannot be deleted is reported; the next start retries."""

    def finish_removals(self, removed: Mapping[UUID, str], live: Container[UUID]) -> list[str]:
        """At startup: delete what is left of removed topics (id and name); returns a line for each."""

    # -- the rest

    def volume_bytes(self) -> tuple[int, int]:
        """The size of the volume, and its free space."""

    def step(self) -> None:
        """One background turn: compaction and other deferred work."""

    def set_up_compaction(self, memory_bytes: int, backoff_ms: int) -> None:
        """Settings of the cleaner have changed."""

    def stop_background(self) -> None:
        """Before a clean stop: end compaction and checks."""

    def close(self, *, cleanly: bool) -> OSError | None:
        """The last call. `cleanly`: write what saves the next start a scan; returns the error that prevented it."""
