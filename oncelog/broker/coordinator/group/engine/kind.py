"""What sets one type of groups apart from another, for the parts that serve all types.

Owns: the port of a group that is what its records add up to, the shape of the entry of its type, and the bytes of a
record by the table in it. Does not own: the entries (`group.kinds`), classic groups, whose members wait for each other.
Invariant: what a record carries as `decoded` is what its bytes say.

A type is listed, deleted, expired and replayed by its entry. Requests of its own go to its own coordinator.
"""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, NamedTuple, Protocol
from uuid import UUID

from oncelog.broker.coordinator.group.engine.changes import (
    Change,
    GroupChanged,
    GroupEpoch,
    TargetEpoch,
    TargetEpochChanged,
)
from oncelog.broker.coordinator.group.engine.group import end_of
from oncelog.broker.coordinator.group.records import TopicPartition
from oncelog.broker.coordinator.runtime import CoordinatorRecord
from oncelog.protocol import state_record_codec
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.topics import ZERO_UUID

_VERSION = 0
"""The version of all values, the only one that Kafka has."""


class ModernGroup(Protocol):
    """A group that is changed by its records alone."""

    @property
    def group_id(self) -> str: ...

    @property
    def group_type(self) -> str:
        """The name of its type in ListGroups."""

    @property
    def members(self) -> Mapping[str, object]: ...

    @property
    def state(self) -> Enum: ...

    @property
    def topics(self) -> frozenset[str]:
        """The topics that it reads, whose offsets it keeps."""

    def may_read(self, topic: str) -> bool:
        """Whether a change of this topic may concern the group."""

    def apply(self, change: Any, /) -> None:
        """Apply what a record of its type says."""


@dataclass(frozen=True, slots=True)
class Committer:
    """The committer: a member of a generation, or an anonymous client (generation -1, no member id)."""

    group_id: str
    generation_id: int
    """The member epoch, in a consumer group."""
    member_id: str
    group_instance_id: str | None
    knows_member_epochs: bool = True
    """Whether the client sends OffsetCommit 9 or later."""

    @property
    def is_anonymous(self) -> bool:
        return self.generation_id < 0 and not self.member_id and self.group_instance_id is None


class OffsetToCommit(NamedTuple):
    partition: TopicPartition
    offset: int
    leader_epoch: int
    metadata: str
    topic_id: UUID = ZERO_UUID


CommitErrors = dict[TopicPartition, ErrorCode]
CheckCommit = Callable[[Any, Committer, Sequence[OffsetToCommit]], CommitErrors]


@dataclass(frozen=True, slots=True)
class OffsetRules:
    """Checks of those who commit or read offsets of this type of group; all raise KafkaError for a whole request."""

    check_commit: CheckCommit
    """Return the errors of the partitions that the committer may not commit."""
    check_transactional: CheckCommit
    check_reader: Callable[[Any, str | None, int], None]
    """Called with the member id and epoch of a reader."""


class RecordType(NamedTuple):
    """One type of record of a group, and the change that it says."""

    change: Any
    """The class; its fields are those of the key behind the group's id, and the value."""
    key: Any
    value: Any
    encode: Callable[[Any], Any]
    """Return the message of a value."""
    decode: Callable[[Any], Any]


def epoch_records(group_key: Any, group_value: Any, target_key: Any, target_value: Any) -> tuple[RecordType, ...]:
    """Return the entries of the two epochs, which differ from type to type by their names alone."""
    return (
        RecordType(
            GroupChanged,
            group_key,
            group_value,
            lambda epoch: group_value(epoch.epoch, epoch.metadata_hash),
            lambda value: GroupEpoch(value.epoch, value.metadata_hash),
        ),
        target_epoch_record(target_key, target_value),
    )


def target_epoch_record(key: Any, value: Any) -> RecordType:
    return RecordType(
        TargetEpochChanged,
        key,
        value,
        lambda target: value(target.epoch, target.timestamp_ms),
        lambda read: TargetEpoch(read.assignment_epoch, read.assignment_timestamp),
    )


class GroupKind:
    """The entry of a type."""

    def __init__(
        self,
        group_type: str,
        protocol_type: str,
        create: Callable[[str], Any],
        records: Iterable[RecordType],
        offsets: OffsetRules | None,
    ) -> None:
        """`protocol_type` is the name in ListGroups. `offsets` is None for a type that commits none: requests for them
        fail with GROUP_ID_NOT_FOUND, and its groups never expire."""
        self.group_type: Final = group_type
        self.protocol_type: Final = protocol_type
        self.create: Final = create
        self.offsets: Final = offsets
        self._by_change: Final[dict[Any, RecordType]] = {each.change: each for each in records}
        self._by_type: Final[dict[int, RecordType]] = {each.key.API_KEY: each for each in self._by_change.values()}

    @property
    def record_types(self) -> Iterable[int]:
        return self._by_type

    def encode(self, group_id: str, change: Change) -> CoordinatorRecord:
        entry = self._by_change[type(change)]
        *subject, value = change
        return CoordinatorRecord(
            state_record_codec.encode_key(entry.key(group_id, *subject)),
            None if value is None else state_record_codec.encode_value(entry.encode(value), _VERSION),
            GroupRecord(self, group_id, change),
        )

    def decode(self, record: CoordinatorRecord) -> "GroupRecord":
        """Return what a record of this type says. Raises ProtocolError."""
        entry = self._by_type[state_record_codec.prefix(record.key)]
        key = state_record_codec.decode(sys.modules[entry.key.__module__], record.key, 0)
        subject = [getattr(key, name) for name in key.FIELDS[1:]]
        value = None
        if record.value is not None:
            value = entry.decode(state_record_codec.decode(sys.modules[entry.value.__module__], record.value))
        return GroupRecord(self, key.group_id, entry.change(*subject, value))

    def tombstones(self, group: Any) -> list[CoordinatorRecord]:
        """Return tombstones for everything that the log has of a group."""
        return [self.encode(group.group_id, change) for change in end_of(group)]


class GroupRecord(NamedTuple):
    """The decoded record of a group."""

    kind: GroupKind
    group_id: str
    change: Change
