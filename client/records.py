"""The values that callers see: records, where they are, and offsets. Nothing here knows the wire or the loop."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

Headers = Sequence[tuple[str, bytes | None]]


class TopicPartition(NamedTuple):
    topic: str
    partition: int


class Record(NamedTuple):
    """One record as a consumer reads it."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class RecordMetadata(NamedTuple):
    """Where a produced record is. `offset` is -1 with acks=0, and for a duplicate whose offset is not known."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


class OffsetAndMetadata(NamedTuple):
    """The next offset to read, with the group's own words about it."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


class OffsetAndTimestamp(NamedTuple):
    offset: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class ConsumerGroupMetadata:
    """Who commits the offsets (KIP-447). With only a group id, the commit is not checked against the membership."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


Offsets = Mapping[TopicPartition, "int | OffsetAndMetadata"]


def as_offset(value: "int | OffsetAndMetadata") -> OffsetAndMetadata:
    return value if isinstance(value, OffsetAndMetadata) else OffsetAndMetadata(value)
