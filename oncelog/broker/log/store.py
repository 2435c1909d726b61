"""The storage port: how a partition's log stores and reads its records.

Owns: the interfaces only. `broker.storage.local` stores records in files, `broker.storage.memory` in memory,
`broker.storage.shared` in tables; all pass the same tests (`tests/unit/storage`). A `PartitionLog` decides offsets,
sequences and read bounds, and knows no files; a store keeps batches in offset order and makes them durable.

Contract
- A log appends in the turn of its decision, and gives the store all that it needs for it: the store never asks the log.
  An append that raises has changed nothing.
- `LogStore.commit` makes everything appended before it durable, in all logs, or says which of them it could not. A
  crash may lose uncommitted records; it never loses committed ones without an error when the log is opened.
- A log without records keeps its end, its producers and its epochs.
- File positions are internal to the store: its callers use offsets, which are always batch boundaries.
- Records that are not cached are fetched: `read` and the lookups return a Completion of their result instead. Records
  that are deleted meanwhile may be missing from it; its caller checks the log start first.
- A store that can no longer be trusted as a whole reports that itself, and acknowledges nothing more.
"""

from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from types import MappingProxyType
from typing import NamedTuple, Protocol
from uuid import UUID

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


class Trouble(NamedTuple):
    """Why a store accepts no appends."""

    error: "OSError"  # unquoted, mypyc looks it up among the module's names
    is_final: bool
    """Nothing is acknowledged any more, and the broker must end. Otherwise the store lacks space, for a while."""


class Outlives(IntEnum):
    """The failures that the records of a committed round outlive, from the least to the most."""

    NOTHING = 0
    """They end with the process."""
    KILL = 1
    """They outlive the end of the process."""
    POWER_CUT = 2
    """They outlive the end of the operating system, too."""
    MACHINE = 3
    """They outlive the loss of the machine: they are elsewhere."""


class Verdict(Enum):
    """The outcome of the part of a round that is not durable."""

    NOT_LEADER = "another node leads this partition"
    """Records that were not committed before are not part of the log."""
    FAILED = "outcome unknown"
    """The records are not acknowledged, and the store refuses all that follow."""


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


class LogView(Protocol):
    """A PartitionLog, as the store's work in the background sees it (`LogStore.step`)."""

    topic: str
    partition: int
    config: LogConfig
    producer_state: ProducerStateManager
    stored: "StoredLog"
    log_start_offset: int
    last_stable_offset: int
    high_watermark: int
    log_end_offset: int
    is_closed: bool
    offline_error: str | None

    @property
    def name(self) -> str: ...


class GrowingLog(Protocol):
    """A PartitionLog, as a round needs it."""

    stored: "StoredLog"
    is_closed: bool
    log_end_offset: int

    def advance_high_watermark(self, next_offset: int) -> None: ...

    def notify_high_watermark(self) -> None: ...

    def on_lost(self) -> None:
        """Another node leads the partition."""


RoundEnds = list[tuple[GrowingLog, int]]
"""The logs of a round, and up to which offset it makes each durable."""
Verdicts = Mapping["StoredLog", Verdict]
"""The logs of a round whose part is not durable; that of all others is."""
ALL_DURABLE: Verdicts = MappingProxyType({})


class StoredLog(Protocol):
    """The records of one partition. Called by its PartitionLog only, on the event loop."""

    def attach(self, on_damage: Callable[[str], None]) -> None:
        """Called once, before anything else. The store calls `on_damage` with the reason when it finds durable data
        damaged outside of a read; not for a log that was closed, which is freed at once then."""

    def on_offline(self) -> None:
        """The log is neither read nor written any more, nor compacted; what is stored stays as it is."""

    @property
    def size_bytes(self) -> int: ...

    def append(
        self,
        parts: tuple[Buffer, ...],
        size_bytes: int,
        next_offset: int,
        timestamp: int,
        config: LogConfig,
        producers: ProducerStateManager,
    ) -> None:
        """Add one batch of `size_bytes`, whose last offset is `next_offset - 1` and greatest timestamp `timestamp`.
        `config` says when a new segment begins, `producers` are those before this batch. Raises StoreError."""

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

    def retention_start(self, config: LogConfig, high_watermark: int, wall_ms: WallMs) -> int | None:
        """The log start offset that age and size allow (retention.ms, retention.bytes); None: delete nothing."""

    def maybe_roll(self, producers: ProducerStateManager, *, is_kept: bool) -> None:
        """Store later records apart from those so far, which are to be deleted, or compacted if `is_kept`. If there is
        no space for that, nothing changes, and `drop_below` keeps records that it could only delete with later ones."""

    def drop_below(self, offset: int) -> bool:
        """The log start is `offset`, durably (`LogStore.move_starts`): delete records entirely below it, once unused.
        Returns whether that needs a commit first."""

    def abandon(self) -> None:
        """The partition is deleted: it is neither read nor written any more."""


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


class Durability(Protocol):
    """The failures that records outlive once they are appended, answered and committed."""

    @property
    def outlives(self) -> Outlives:
        """The failures that a committed record outlives; constant. If a power cut is not among them, a commit adds
        nothing: an appended record is as durable as it gets."""

    @property
    def rounds_are_whole(self) -> bool:
        """True if a crash leaves all of a round or nothing, over all logs. If False, an append that must not outlive
        another waits until the other is durable."""

    def answer_ahead(self) -> bool:
        """Let everything appended so far outlive a kill of the process, which the next commit makes durable. False if
        answers must wait for that commit: it cannot be done now, or the next run could not see that a power cut has
        undone it."""

    @property
    def may_be_lost(self) -> bool:
        """True until `settle` if records that an earlier run has answered ahead may have been lost."""

    def settle(self) -> None:
        """Note that all transactions that may lack such records are aborted, durably. Raises OSError, which does no
        harm: it is noted later, or the next start aborts again."""

    @property
    def may_be_older(self) -> bool:
        """True until `keep_place` if the store may have been put back to an earlier state than it was in, by a restored
        backup or its like: what was acknowledged may be gone, and numbers that were given out may be free again."""

    def keep_place(self) -> None:
        """Note that new epochs and ids are above all that may have been given out, durably. Raises OSError."""


class Blobs(Protocol):
    """Small values beside the logs that a start needs, by path: snapshots of the metadata log in its folder, and
    `LOGIN_SECRET`. A `Disk` is one. A caller reports an OSError to `LogStore.on_background_error`."""

    def exists(self, path: str) -> bool: ...

    def list_dir(self, path: str) -> list[str]:
        """Names in a folder, sorted."""

    def read_bytes(self, path: str) -> bytes:
        """Raises OSError."""

    def write_atomically(self, path: str, data: Buffer) -> None:
        """Replace it as a whole, durably. Callable from another thread. Raises OSError."""

    def delete(self, path: str) -> None:
        """Missing is fine. Raises OSError."""


class Removal(Protocol):
    """The end of one topic's storage: begun before its removal is logged; once that is durable, the partitions are
    withdrawn, and then deleted. After a stop in between, `TopicStorage.finish_removals` does the rest."""

    def withdraw(self, partitions: Sequence[int]) -> Sliced[None]:
        """Free the names of these partitions, whose logs were abandoned."""

    def delete(self) -> Sliced[bool]:
        """Delete the records of the withdrawn partitions. Returns whether all are gone; failures are reported, and the
        next start retries."""


class TopicStorage(Protocol):
    """The life of the storage of topics, from before their creation to after their removal."""

    def partitions(self) -> Collection[PartitionKey]:
        """Everything named like a partition, known or not."""

    def make_way(self, topic: str, partitions: range) -> None:
        """Rename anything that occupies the names of new partitions, and report it. Called before they are created.
        Raises OSError."""

    def begin_removal(self, topic: str, topic_id: UUID) -> Removal:
        """Begin a removal. Called before it is logged: once it is, a start deletes what is left of the topic."""

    def finish_removals(self, removed: Mapping[UUID, str], live: Container[UUID]) -> list[str]:
        """Delete what is left of removed topics (id and name), at a start. Returns a line for each."""

    def unknown_entries(self, known: Container[PartitionKey]) -> list[str]:
        """The names of entries that belong to none of these partitions."""


class HeldLease(Protocol):
    """The right to be the one broker of a store that others reach, too."""

    @property
    def is_ours(self) -> bool:
        """Whether no other broker can have the lease at this moment, by our own clock."""

    def when_confirmed(self) -> Completion[None]:
        """Completes once it is proven that no other broker has had the lease until now; never, if one has."""


class LogStore(Protocol):
    """All records of one node."""

    @property
    def topics(self) -> TopicStorage: ...

    @property
    def blobs(self) -> Blobs: ...

    def on_background_error(self, error: OSError) -> None:
        """Report a failure in the background, such as of a write to `blobs` or of a start that retention moves: the
        store decides whether it can still be trusted."""

    # -- the logs

    def open(self, topic: str, partition: int, topic_id: UUID, config: LogConfig) -> OpenedLog | Completion[OpenedLog]:
        """Recover a partition that this node leads now, at once or later; an empty one if the store has none. At a
        start, before `begin_serving`, it may block."""

    def release(self, topic: str, partition: int, producers: ProducerStateManager) -> Completion[None]:
        """Release an open partition that this node no longer leads; its log appends and reads nothing more. Committed
        records stay, others may be dropped. Once this completes, the partition can be opened again."""

    def begin_serving(self, *, is_recovered: bool) -> None:
        """Called once every partition that the store holds is open, and if `is_recovered` none of them is offline. From
        now on the event loop must not block; before, nothing is served and a replay may block on reads."""

    # -- durability

    @property
    def durability(self) -> Durability: ...

    @property
    def lease(self) -> HeldLease | None:
        """The lease; None where no other broker can take over while this one is alive."""

    @property
    def trouble(self) -> Trouble | None: ...

    def watch_failure(self, on_failed: Callable[[], None]) -> None:
        """Call `on_failed` at the moment at which final trouble begins."""

    def commit(self, ends: RoundEnds, append_count: int) -> Completion[Verdicts] | None:
        """Make everything appended so far durable: `append_count` batches, of these logs. None: it is already, all of
        it. It never fails."""

    def commit_now(self) -> None:
        """Commit at once, blocking, whatever `Durability.outlives`; at a start and a clean stop. Raises OSError."""

    @property
    def is_busy(self) -> bool:
        """Whether durability work besides commits is in flight; a clean stop waits for it."""

    def when_idle(self) -> Completion[None]:
        """Completes when that work has ended; more may begin in the same turn."""

    def move_starts(self, starts: Mapping[PartitionKey, int]) -> Completion[None]:
        """Make new log start offsets durable, before readers see them. Fails with StoreError on a full disk, or
        OSError; then nothing has changed."""

    # -- the rest

    def volume_bytes(self) -> tuple[int, int]:
        """The size of the volume, and its free space."""

    def figures(self) -> Mapping[str, float]:
        """Numbers of its own, for the metrics of these names."""

    def step(self, logs: Collection[LogView]) -> None:
        """One background turn, with the open logs: compaction and other deferred work."""

    def set_up_compaction(self, memory_bytes: int, backoff_ms: int) -> None:
        """Settings of the cleaner have changed."""

    def close(self, producers: Mapping[PartitionKey, ProducerStateManager], *, cleanly: bool) -> OSError | None:
        """The last call: end compaction and checks. `cleanly`: write what saves the next start a scan, with the
        producers of each log that is not offline; returns the error that prevented it."""
