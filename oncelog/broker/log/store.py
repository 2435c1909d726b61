"""The storage port: how a partition's log stores and reads its records.

Owns: the interfaces only. `broker.storage.local` stores records in files, `broker.storage.memory` in memory; both pass
the same tests (`tests/unit/storage`). A `PartitionLog` decides offsets, sequences and read bounds, and knows no files;
a store keeps batches in offset order and makes them durable.

Contract
- A log appends in the turn of its decision, and gives the store all that it needs for it: the store never asks the log.
  An append that raises has changed nothing.
- `LogStore.commit` makes everything appended before it durable, in all logs, or says which of them it could not. A
  crash may lose uncommitted records; it never loses committed ones without an error when the log is opened.
- A log without records keeps its end, its producers and its epochs.
- File positions are internal to the store: its callers use offsets, which are always batch boundaries.
- What is not cached is fetched: `read` and the lookups return a Completion of their result instead. Records that are
  deleted meanwhile may be missing from it; whoever uses it looks at the log start first.
- A store that can no longer be trusted as a whole says so itself to whoever runs it, and acknowledges nothing more.
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
    """What the records of a committed round outlive, from the least to the most."""

    NOTHING = 0
    """They end with the process."""
    KILL = 1
    """The end of the process."""
    POWER_CUT = 2
    """The end of the operating system, too."""
    MACHINE = 3
    """The loss of the machine: they are elsewhere."""


class Verdict(Enum):
    """What has become of the part of a round that is not durable."""

    NOT_LEADER = "another node leads this partition"
    """What was not committed before is not part of the log."""
    FAILED = "nobody knows"
    """It is not acknowledged, and the store refuses what follows."""


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
"""Those logs of a round whose part is not durable; that of all others is."""
ALL_DURABLE: Verdicts = MappingProxyType({})


class StoredLog(Protocol):
    """The records of one partition. Called by its PartitionLog only, on the event loop."""

    def attach(self, on_damage: Callable[[str], None]) -> None:
        """Called once, before anything else. The store calls `on_damage` with the reason when it finds durable data
        damaged that nobody reads; not for a log that was closed, which is freed at once then."""

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
        """What is appended from now on is stored apart from what is there, which is to be deleted, or `is_kept` and to
        be compacted. Without space it is not, and `drop_below` keeps what it would have to delete with it."""

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
    """What records outlive once they are appended, answered and committed."""

    @property
    def outlives(self) -> Outlives:
        """What a committed record outlives; it never changes. Where that is no power cut, a commit adds nothing: what
        was appended is as durable as it gets."""

    @property
    def rounds_are_whole(self) -> bool:
        """True if a crash leaves all of a round or nothing, over all logs. If False, an append that must not outlive
        another waits until the other is durable."""

    def answer_ahead(self) -> bool:
        """Let everything appended so far outlive a kill of the process, which the next commit makes durable. False: it
        must wait for that, as it cannot be done now, or the next run would not know that a power cut has undone it."""

    @property
    def may_be_lost(self) -> bool:
        """True until `settle` if what an earlier run has answered ahead may have been lost."""

    def settle(self) -> None:
        """Whatever may lack it is aborted, durably. Raises OSError: noted later, or the next start aborts again."""

    @property
    def may_be_older(self) -> bool:
        """True until `keep_place` if the store may have been put back to an earlier state than it was in, by a restored
        backup or its like: what was acknowledged may be gone, and numbers that were given out may be free again."""

    def keep_place(self) -> None:
        """New epochs and ids are above all that may have been given out, durably. Raises OSError."""


class Blobs(Protocol):
    """Small values beside the logs that a start needs, by path: snapshots of the metadata log in its folder, and
    `LOGIN_SECRET`. A `Disk` is one. Who gets an OSError reports it to `LogStore.on_background_error`."""

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
        """Delete the records of what was withdrawn; returns whether all are gone. What cannot be deleted is reported,
        and the next start retries."""


class TopicStorage(Protocol):
    """The life of the storage of topics, from before their creation to after their removal."""

    def partitions(self) -> Collection[PartitionKey]:
        """Everything named like a partition, known or not."""

    def make_way(self, topic: str, partitions: range) -> None:
        """Before partitions are created: rename what occupies their names, and report it. Raises OSError."""

    def begin_removal(self, topic: str, topic_id: UUID) -> Removal:
        """Before the removal of a topic is logged: once it is, a start deletes what is left of it."""

    def finish_removals(self, removed: Mapping[UUID, str], live: Container[UUID]) -> list[str]:
        """At a start: delete what is left of removed topics (id and name); returns a line for each."""

    def unknown_entries(self, known: Container[PartitionKey]) -> list[str]:
        """The names of entries that belong to none of these partitions."""


class HeldLease(Protocol):
    """The right to be the one broker of a store that others reach, too."""

    @property
    def is_ours(self) -> bool:
        """Whether nobody else can have it in this moment, by our own clock."""

    def when_confirmed(self) -> Completion[None]:
        """Completes once it is known that nobody else has had it until now; never, if somebody has."""


class LogStore(Protocol):
    """All records of one node."""

    @property
    def topics(self) -> TopicStorage: ...

    @property
    def blobs(self) -> Blobs: ...

    def on_background_error(self, error: OSError) -> None:
        """What nobody waits for has failed, such as a write to `blobs` or the start that retention moves: the store
        decides whether it can still be trusted."""

    # -- the logs

    def open(self, topic: str, partition: int, topic_id: UUID, config: LogConfig) -> OpenedLog | Completion[OpenedLog]:
        """Recover a partition that this node leads now, at once or later; an empty one if the store has none. At a
        start, before `begin_serving`, it may block."""

    def release(self, topic: str, partition: int, producers: ProducerStateManager) -> Completion[None]:
        """This node no longer leads an open partition, whose log appends and reads nothing more. What was committed
        stays; once it completes, the partition can be opened again. Of what was not committed nothing need stay."""

    def begin_serving(self, *, is_recovered: bool) -> None:
        """Every partition that the store holds is open, and if `is_recovered` none of them is offline. From now on the
        event loop must not block; before, nothing is served and a replay may block on reads."""

    # -- durability

    @property
    def durability(self) -> Durability: ...

    @property
    def lease(self) -> HeldLease | None:
        """None where no other broker can take over while this one is alive."""

    @property
    def trouble(self) -> Trouble | None: ...

    def watch_failure(self, on_failed: Callable[[], None]) -> None:
        """Call `on_failed` at the moment at which final trouble begins."""

    def commit(self, ends: RoundEnds, append_count: int) -> Completion[Verdicts] | None:
        """Make everything appended so far durable: `append_count` batches, of these logs. None: it is already, all of
        it. It never fails."""

    def commit_now(self) -> None:
        """The same at once, whatever `Durability.outlives`; at a start and a clean stop. Raises OSError."""

    @property
    def is_busy(self) -> bool:
        """Durability work besides commits is in flight; a clean stop waits for it."""

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
