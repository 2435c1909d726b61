"""One decision about a group: its changes, applied to a copy step by step, and logged as one batch.

Owns: the steps that all types share, and the rule for when the target assignment may be computed again. Does not own:
the order of the steps, and those of one type (its `update`).
Invariant: `group` is the group as it will be once `records` are replayed; nothing else has changed.

KIPs: 848, 1101 (metadata hash), 1263 (the target assignment is computed at most once per interval).
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Generic, TypeVar

from oncelog.broker.coordinator.group.engine.changes import (
    Change,
    CurrentChanged,
    GroupChanged,
    MemberChanged,
    TargetChanged,
    TargetEpoch,
    TargetEpochChanged,
)
from oncelog.broker.coordinator.group.engine.group import end_of
from oncelog.broker.coordinator.group.engine.kind import GroupKind
from oncelog.broker.coordinator.runtime import CoordinatorRecord
from oncelog.broker.turns.ports import WallMs

GroupT = TypeVar("GroupT", bound=Any)


class Update(Generic[GroupT]):
    def __init__(self, kind: GroupKind, base: GroupT, wall_ms: WallMs) -> None:
        self.group = base
        self.records: list[CoordinatorRecord] = []
        self.touched: dict[str, None] = {}
        """Members whose assignment was written, in order."""
        self.is_checked = False
        """True if its topics have been checked."""
        self.is_copy = False
        """True once something has changed."""
        self.wall_ms = wall_ms
        self._kind = kind

    def change(self, *changes: Change) -> None:
        if not self.is_copy:
            self.group = self.group.copy()
            self.is_copy = True
        for change in changes:
            self.group.apply(change)
            self.records.append(self._kind.encode(self.group.group_id, change))
            if isinstance(change, CurrentChanged):
                self.touched[change.member_id] = None

    def remove(self, member_id: str) -> None:
        """Remove a member, in Kafka's order: the current assignment, the target, the member itself."""
        self.change(CurrentChanged(member_id, None), TargetChanged(member_id, None), MemberChanged(member_id, None))

    def begin_epoch(self, metadata_hash: int) -> None:
        """Begin a new group epoch, with the hash of the topics as of now."""
        known = self.group.group_epoch
        self.change(GroupChanged(replace(known, epoch=known.epoch + 1, metadata_hash=metadata_hash)))

    def maybe_assign(self, interval_ms: int, targets: Callable[[], Mapping[str, Any]], nothing: object) -> bool:
        """Compute the `targets` of the group epoch by member, unless the last ones are too recent: False if they are.
        A member that they do not name gets `nothing`."""
        group = self.group
        if group.target_epoch.epoch >= group.group_epoch.epoch:
            return True
        made_ms = group.target_epoch.timestamp_ms
        # In the future if the clock was set back since: do not wait then, as members need what they are assigned.
        if made_ms and 0 <= self.wall_ms - made_ms < interval_ms:
            return False
        found = targets()
        for member_id in list(group.members):
            target = found.get(member_id, nothing)
            if target != group.targets.get(member_id):
                self.change(TargetChanged(member_id, target))
        self.change(TargetEpochChanged(TargetEpoch(group.epoch, self.wall_ms)))
        return True

    def move(self, member_id: str, current: object) -> Any:
        """Give the member this assignment, and return the member."""
        if current != self.group.members[member_id].current:
            self.change(CurrentChanged(member_id, current))
        return self.group.members[member_id]

    def dissolve(self) -> None:
        """End the group."""
        self.change(*end_of(self.group))
