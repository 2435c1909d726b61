"""What a change does to a group of any type, and the changes that end one.

Owns: the effect of the changes that all types have. Does not own: what a type derives from them (its `group`).
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from oncelog.broker.coordinator.group.engine.changes import (
    Change,
    CurrentChanged,
    GroupChanged,
    GroupEpoch,
    MemberChanged,
    TargetChanged,
    TargetEpoch,
    TargetEpochChanged,
)

K = TypeVar("K")
T = TypeVar("T")

FIRST_GROUP_EPOCH = GroupEpoch(1, 0)
_NO_TARGET_EPOCH = TargetEpoch(-1, 0)


class Group(Protocol):
    """The state that all types of groups have, as changes find it."""

    group_epoch: GroupEpoch
    target_epoch: TargetEpoch
    members: dict[str, Any]
    """Members by id, each a dataclass of `metadata` and `current`."""
    targets: dict[str, Any]

    def last_changes(self) -> Sequence[Change]:
        """Return the changes that end the group once its members are gone, in Kafka's order."""


def apply(group: Group, change: Change) -> None:
    """Apply a change of the epochs or of a target."""
    match change:
        case GroupChanged(group_epoch):
            group.group_epoch = group_epoch or FIRST_GROUP_EPOCH
        case TargetEpochChanged(target_epoch):
            group.target_epoch = target_epoch or _NO_TARGET_EPOCH
        case TargetChanged(member_id, target):
            put(group.targets, member_id, target)


def apply_to_member(members: dict[str, T], change: MemberChanged | CurrentChanged, new: Any, left: object) -> T | None:
    """Apply a change of one member, and return it; None if it is no longer, or not yet, there. `new` is a member of
    which nothing is known, `left` the assignment of one whose assignment was deleted."""
    before: Any = members.get(change.member_id)
    after: T | None = None
    if isinstance(change, MemberChanged):
        if change.metadata is not None:
            after = replace(before or new, metadata=change.metadata)
    elif before is not None or change.current is not None:
        after = replace(before or new, current=change.current or left)
    put(members, change.member_id, after)
    return after


def end_of(group: Group) -> list[Change]:
    """Return the changes that end a group, in Kafka's order."""
    return [
        *(CurrentChanged(member_id, None) for member_id in group.members),
        *(TargetChanged(member_id, None) for member_id in group.targets),
        TargetEpochChanged(None),
        *(MemberChanged(member_id, None) for member_id in group.members),
        *group.last_changes(),
    ]


def put(table: dict[K, T], key: K, value: T | None) -> None:
    """Set the value of a key; None deletes it."""
    if value is None:
        table.pop(key, None)
    else:
        table[key] = value
