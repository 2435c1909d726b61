"""What sets one type of groups apart from another, for the parts that serve all types.

Owns: the port of a group that is what its records add up to, and the shape of the entry of its type. Does not own: the
entries (`kinds`), classic groups, whose members wait for each other (`membership`).

A type is listed, deleted, expired and replayed by its entry. Requests of its own go to its own coordinator.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from oncelog.broker.coordinator.group.records import TopicPartition
from oncelog.broker.coordinator.runtime import CoordinatorRecord
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.topics import ZERO_UUID


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
    """Who may commit and read the offsets of a group of this type. All raise KafkaError for the request as a whole."""

    check_commit: CheckCommit
    """Return the errors of the partitions that the committer may not commit."""
    check_transactional: CheckCommit
    check_reader: Callable[[Any, str | None, int], None]
    """Called with the member id and epoch of a reader."""


@dataclass(frozen=True, slots=True)
class GroupKind:
    group_type: str
    protocol_type: str
    """As ListGroups names it."""
    end_type: int
    """The type of the record whose tombstone ends a group."""
    create: Callable[[str], ModernGroup]
    decode: Callable[[CoordinatorRecord], tuple[str, Any]]
    """Return the group of a record, and the change to apply. Raises ProtocolError."""
    tombstones: Callable[[Any], list[CoordinatorRecord]]
    """Return tombstones for everything that the log has of a group."""
    offsets: OffsetRules | None
    """None for a type that commits no offsets: requests for them fail with GROUP_ID_NOT_FOUND, and its groups never
    expire."""
