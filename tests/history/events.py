"""What a history is made of: operations of clients from question to answer, and observations of the broker.

Times are ticks of one counter that all clients share: two operations are ordered only if one was answered before the
other was asked. Values are unique within a partition, so that a record that is read identifies its writer.
"""

from dataclasses import dataclass, field
from enum import Enum

Partition = tuple[str, int]
Identity = tuple[int, int]
"""Producer id and epoch."""
NEVER = 2**62
NOT_SAID = -1
"""A bound that an answer does not give."""
FINAL = "final"
"""The reader that reads everything from the start of each log, once all is quiet."""


class Outcome(Enum):
    OK = "ok"
    FAILED = "fail"
    """It was refused: it had no effect."""
    UNKNOWN = "unknown"
    """No answer, or one that says nothing about an earlier try: it had its effect or it had not, or will have it."""


@dataclass(frozen=True, slots=True)
class Span:
    invoked_at: int
    completed_at: int = NEVER
    outcome: Outcome = Outcome.UNKNOWN

    @property
    def is_ok(self) -> bool:
        return self.outcome is Outcome.OK

    def precedes(self, other: "Span") -> bool:
        return self.completed_at < other.invoked_at


@dataclass(frozen=True, slots=True)
class Init:
    """InitProducerId: a session gets its producer id and epoch, and fences those before it."""

    span: Span
    session: str
    transactional_id: str
    identity: Identity
    timeout_ms: int = 60_000


@dataclass(frozen=True, slots=True)
class Send:
    """One record, from the first try to the answer."""

    span: Span
    session: str
    transaction: str | None
    partition: Partition
    value: bytes
    identity: Identity = (-1, -1)
    sequence: int = -1
    offset: int = -1
    at_ms: int = 0
    source: tuple[Partition, int] | None = None
    """The record that it was made of."""


@dataclass(frozen=True, slots=True)
class SendOffset:
    """TxnOffsetCommit: a group's next offset, in a transaction."""

    span: Span
    session: str
    transaction: str
    group: str
    partition: Partition
    offset: int
    identity: Identity = (-1, -1)
    generation: int = -1


@dataclass(frozen=True, slots=True)
class End:
    span: Span
    session: str
    transaction: str
    is_commit: bool
    identity: Identity = (-1, -1)
    next_identity: Identity | None = None
    """The identity in the answer, for the producer's next transaction."""


@dataclass(frozen=True, slots=True)
class Poll:
    """A read of a partition, from one position to the next."""

    span: Span
    reader: str
    is_committed: bool
    """Whether the reader is read_committed."""
    partition: Partition
    from_offset: int
    next_offset: int
    records: tuple[tuple[int, bytes], ...]
    transaction: str | None = None
    """The transaction in which it was read, if any."""
    error: str = ""


@dataclass(frozen=True, slots=True)
class OffsetFetch:
    span: Span
    group: str
    partition: Partition
    offset: int
    """-1: none."""


@dataclass(frozen=True, slots=True)
class GroupCommit:
    span: Span
    group: str
    partition: Partition
    offset: int
    member: str = ""
    generation: int = -1


@dataclass(frozen=True, slots=True)
class Generation:
    """A member has learnt what it owns in a generation of its group."""

    at: int
    group: str
    generation: int
    member: str
    owns: tuple[Partition, ...]


@dataclass(frozen=True, slots=True)
class Bounds:
    """Offsets in an answer to ListOffsets, Fetch or DeleteRecords, or seen inside; NOT_SAID where the answer leaves one
    out.
    """

    span: Span
    partition: Partition
    log_start_offset: int
    last_stable_offset: int
    high_watermark: int


@dataclass(frozen=True, slots=True)
class Look:
    """The high watermarks that one Fetch shows, or that were seen inside in one moment."""

    high_watermarks: tuple[tuple[Partition, int], ...]


@dataclass(frozen=True, slots=True)
class Leading:
    """The leader epoch of a partition that an answer shows, or that was seen inside."""

    span: Span
    partition: Partition
    epoch: int
    start: int | None = None
    """Seen inside: of which start of the broker."""


@dataclass(frozen=True, slots=True)
class Restart:
    at: int
    kind: str


@dataclass(frozen=True, slots=True)
class States:
    """State that should be equal: of a broker before and after a restart, or of two starts on the same disk."""

    at: int
    one: str
    other: str
    is_second_recovery: bool = False


@dataclass(frozen=True, slots=True)
class Damage:
    """Records that were destroyed on disk."""

    at: int
    partition: Partition
    first_offset: int
    last_offset: int


@dataclass(frozen=True, slots=True)
class LogBatch:
    """A batch as it lies in the log at the end."""

    base_offset: int
    last_offset: int
    identity: Identity
    base_sequence: int
    is_transactional: bool
    values: tuple[bytes, ...] = ()
    marker: bool | None = None
    """A control batch: true commits."""
    timestamp_ms: int = 0
    is_intact: bool = True
    leader_epoch: int = 0


@dataclass(frozen=True, slots=True)
class Step:
    """A state of a transactional id that the coordinator has logged, in the order of its log."""

    transactional_id: str
    state: str
    identity: Identity


@dataclass
class History:
    inits: list[Init] = field(default_factory=list)
    sends: list[Send] = field(default_factory=list)
    send_offsets: list[SendOffset] = field(default_factory=list)
    ends: list[End] = field(default_factory=list)
    polls: list[Poll] = field(default_factory=list)
    offset_fetches: list[OffsetFetch] = field(default_factory=list)
    group_commits: list[GroupCommit] = field(default_factory=list)
    generations: list[Generation] = field(default_factory=list)
    bounds: list[Bounds] = field(default_factory=list)
    looks: list[Look] = field(default_factory=list)
    leading: list[Leading] = field(default_factory=list)
    restarts: list[Restart] = field(default_factory=list)
    power_cuts: list[int] = field(default_factory=list)
    """When what was written and not synced may have been lost."""
    states: list[States] = field(default_factory=list)
    damages: list[Damage] = field(default_factory=list)
    logs: dict[Partition, list[LogBatch]] = field(default_factory=dict)
    pipelines: list[tuple[str, Partition, Partition]] = field(default_factory=list)
    """Groups that make each record of an input into one of an output."""
    steps: list[Step] = field(default_factory=list)
    open_at_the_end: list[str] = field(default_factory=list)
    """Transactions that the broker lists as open once all is quiet."""
    at_work_at_the_end: list[str] = field(default_factory=list)
    """Clients that had not finished, long after the last fault."""
    slack_ms: int = NEVER
    """How long after its timeout a transaction may still be open."""
