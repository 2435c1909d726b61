"""The values in the public API: records, their positions, and offsets. Nothing here depends on the protocol or the
loop."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Literal, NamedTuple, TypedDict

if TYPE_CHECKING:
    # Keys and values are bytes unless a serializer says otherwise (PEP 696): `Producer` is `Producer[bytes, bytes]`.
    from typing_extensions import TypeVar

    K = TypeVar("K", default=bytes)
    V = TypeVar("V", default=bytes)
    OutK = TypeVar("OutK", default=bytes)
    OutV = TypeVar("OutV", default=bytes)
else:
    # Python has defaults from 3.13 only.
    from typing import TypeVar

    K = TypeVar("K")
    V = TypeVar("V")
    OutK = TypeVar("OutK")
    OutV = TypeVar("OutV")

IsolationLevel = Literal["read_committed", "read_uncommitted"]
"""Which records a reader sees: those of committed transactions only, or all."""
AcknowledgeType = Literal["accept", "release", "reject", "renew"]
"""What becomes of a delivered record: it is done, comes again, never comes again, or is kept for longer."""
Header = tuple[str, bytes | None]
"""One record header: a name and a value."""
Headers = Sequence[Header]
"""Record headers: `[("name", b"value")]`; names may repeat."""


class TopicPartition(NamedTuple):
    """A topic's name and a partition's index, from 0: `TopicPartition("topic", 0)`."""

    topic: str
    partition: int


class Record(NamedTuple, Generic[K, V]):
    """One record as a consumer returns it; `timestamp_ms` is milliseconds since the epoch. Key and value are bytes
    unless the consumer has deserializers."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: K | None
    value: V | None
    headers: Headers = ()

    @property
    def topic_partition(self) -> TopicPartition:
        """`TopicPartition(record.topic, record.partition)`, as offsets are keyed."""
        return TopicPartition(self.topic, self.partition)


class ShareRecord(NamedTuple, Generic[K, V]):
    """One record as a member of a share group gets it: a `Record`, and how often the group has delivered it, this time
    included."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: K | None
    value: V | None
    headers: Headers
    delivery_count: int

    @property
    def topic_partition(self) -> TopicPartition:
        """`TopicPartition(record.topic, record.partition)`, as the outcomes of a commit are keyed."""
        return TopicPartition(self.topic, self.partition)


class ProducerRecord(NamedTuple, Generic[K, V]):
    """The arguments of `send` and `send_soon` as one value, for hooks: `record._replace(headers=...)`."""

    topic: str
    value: V | None = None
    key: K | None = None
    partition: int | None = None
    headers: Headers = ()
    timestamp_ms: int | None = None


class RecordOptions(TypedDict, Generic[K], total=False):
    """The keyword arguments of every `send` and `send_soon`."""

    key: K | None
    """Records of one key stay in order: its hash selects the partition, as Java's producer does."""
    partition: int | None
    """The partition, instead of the one that the key selects; without either, whole batches are sent to each in
    turn."""
    headers: Headers
    timestamp_ms: int | None
    """The time in milliseconds since the epoch, by default now."""


class RecordMetadata(NamedTuple):
    """Where a produced record was written. `offset` is -1 with acks=0, and for a duplicate whose offset is not
    known."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


class OffsetAndMetadata(NamedTuple):
    """A committed offset, the next one to read, with the group's own metadata."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


class OffsetAndTimestamp(NamedTuple):
    """An offset and the timestamp of its record in milliseconds since the epoch; -1 where there is none."""

    offset: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class ConsumerGroupMetadata:
    """The member that commits offsets (KIP-447). With a group id alone, the commit is not checked against the
    membership."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class Lag:
    """What a consumer has not returned yet of a partition: `record_count` records of those that it may read now.

    `is_exact` if all of them are fetched. Beyond what is fetched each offset counts as a record, so the count is an
    upper bound there: markers and aborted records take offsets, and compaction leaves gaps.
    """

    position: int
    last_stable_offset: int
    high_watermark: int
    record_count: int
    is_exact: bool


Offsets = Mapping[TopicPartition, "int | OffsetAndMetadata"]
"""Offsets to commit: `{TopicPartition("topic", 0): 42}`, each the next offset to read."""


class ConsumerRecords(list[Record[K, V]]):
    """Records of one poll, in offset order per partition. `next_offsets` are the positions after them, past markers and
    aborted records: what to commit once they are processed, so that the lag reaches 0 (KIP-1094)."""

    def __init__(self, records: Iterable[Record[K, V]], next_offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
        super().__init__(records)
        self.next_offsets = next_offsets


def as_offset(value: "int | OffsetAndMetadata") -> OffsetAndMetadata:
    return value if isinstance(value, OffsetAndMetadata) else OffsetAndMetadata(value)
