"""Changes of a group, as its records say them: each names its subject, and None is a tombstone.

Owns: the changes that all types of groups have. Does not own: what only one type has (its `records`), the effect of a
change (`group`), its bytes (`kind`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple


@dataclass(frozen=True, slots=True)
class GroupEpoch:
    """The group's epoch, and what it holds for."""

    epoch: int
    metadata_hash: int
    """The hash of the subscribed topics' metadata at that epoch."""
    validated_topology_epoch: int = -1
    """Streams groups: the topology whose topics all exist; −1 if some do not."""
    assignment_configs: Mapping[str, str] = field(default_factory=dict)
    """Streams groups: the settings of the assignor."""


@dataclass(frozen=True, slots=True)
class TargetEpoch:
    """The group epoch of the target assignment, and when it was computed."""

    epoch: int
    timestamp_ms: int


class GroupChanged(NamedTuple):
    """The record whose tombstone ends a group."""

    group_epoch: GroupEpoch | None


class TargetEpochChanged(NamedTuple):
    target_epoch: TargetEpoch | None


class MemberChanged(NamedTuple):
    member_id: str
    metadata: Any | None


class TargetChanged(NamedTuple):
    member_id: str
    target: Any | None


class CurrentChanged(NamedTuple):
    member_id: str
    current: Any | None


Change = tuple[Any, ...]
"""One of these, or of those that only a type has: the subject, if it is not the group, and the value."""
