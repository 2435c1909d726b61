"""The values in the interface of a share-partition.

Owns: their fields only. KIPs: 932, 1206 (acquire modes), 1222 (renewal).
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from oncelog.broker.coordinator.share.values import StateBatch
from oncelog.broker.turns.ports import MonotonicMs

AVAILABLE: Final = 0
ACQUIRED: Final = 1
ACKNOWLEDGED: Final = 2
ARCHIVED: Final = 4
"""The states of a record, with the numbers of Kafka's RecordState. The last two are terminal."""

GAP: Final = 0
ACCEPT: Final = 1
RELEASE: Final = 2
REJECT: Final = 3
RENEW: Final = 4
"""The types of an acknowledgement, with the numbers of Kafka's AcknowledgeType. A gap is an offset that the member has
found to have no record."""

BATCH_OPTIMIZED: Final = 0
RECORD_LIMIT: Final = 1
"""The acquire modes: whole batches, with `max_records` as a soft limit, or never more than `max_records` (KIP-1206)."""

NO_MEMBER: Final = ""
NO_LOCK: Final = MonotonicMs(-1)


class ShareLimits(NamedTuple):
    """A group's settings at the time of a decision, named as in Kafka's GroupConfig (`share.*`)."""

    record_lock_duration_ms: int
    delivery_count_limit: int
    partition_max_record_locks: int
    renew_acknowledge_enable: bool


class Acquisition(NamedTuple):
    """The records that a ShareFetch wants of one share-partition."""

    max_records: int
    batch_size: int
    """An acquired range of new records is cut at the first batch of the log that begins this many offsets behind its
    own beginning."""
    acquire_mode: int
    limits: ShareLimits
    monotonic_ms: MonotonicMs


class AcquiredRecords(NamedTuple):
    first_offset: int
    last_offset: int
    delivery_count: int

    @property
    def record_count(self) -> int:
        return self.last_offset - self.first_offset + 1


class AcknowledgementBatch(NamedTuple):
    first_offset: int
    last_offset: int
    acknowledge_types: Sequence[int]
    """One for all offsets, or one for each."""


class Run(NamedTuple):
    """Neighbouring offsets that have everything in common."""

    first_offset: int
    last_offset: int
    state: int
    delivery_count: int
    member_id: str = NO_MEMBER
    """The member that has acquired them."""
    locked_until_ms: MonotonicMs = NO_LOCK


class StateChange(NamedTuple):
    """The changes of a decision, and the part of them that the share coordinator writes before they are applied."""

    batches: tuple[StateBatch, ...]
    """To write, in order of their offsets. None if there is nothing to write: a renewal, a moved log start."""
    start_offset: int
    """To write. As in Kafka it is not yet moved over `batches`: the reader of the batches moves it."""
    delivery_complete_count: int
    """To write: the records from `start_offset` on that are terminal, `batches` included."""
    runs: tuple[Run, ...]
    """The changed offsets, as they will be."""
    revision: int
    """The revision of the state on which it was decided: it applies to no other."""
    log_start_offset: int = -1
    """The offset to which the log's start has moved; −1: it has not."""
