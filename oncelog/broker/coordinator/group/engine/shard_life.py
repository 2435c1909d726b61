"""One partition of `__consumer_offsets` while this node coordinates it: its groups, and how long it waits for members.

Owns: what a restart or the loss of the partition may forget: classic groups with their waiting requests, sessions of
members of the other types, which groups have checked their topics. Does not own: durable state (`shard`), the checks of
requests (the coordinator of each type).
Invariants
- No group is both a classic group and one of another type.
- Once it has resigned, no timer runs and no request waits.
"""

from collections.abc import Callable
from typing import Any, Protocol
from uuid import UUID

from oncelog.broker.coordinator.group.engine.kind import GroupKind
from oncelog.broker.coordinator.group.engine.sessions import Sessions
from oncelog.broker.coordinator.group.engine.shard import GroupShard
from oncelog.broker.turns.ports import Clock, Scheduler
from oncelog.protocol.errors import ErrorCode, KafkaError


class GroupTypeCoordinator(Protocol):
    """The coordinator of a type of groups, as a life calls it."""

    def on_active(self, life: "GroupShardLife", group: Any, /) -> None:
        """Give the members of a replayed group new sessions, and resume what its log left unfinished."""

    def on_expired(self, life: "GroupShardLife", group_id: str, member_id: str, /) -> None:
        """Remove a member that was silent, or exceeded a timeout."""


class ClassicGroups(Protocol):
    """The classic groups (`classic.groups`), as a life calls them."""

    def on_active(self, life: "GroupShardLife", /) -> None:
        """Restore the groups whose generations were logged."""

    def on_resigned(self, life: "GroupShardLife", /) -> None: ...

    def release(self, life: "GroupShardLife", group_id: str, /) -> None:
        """Make the waiting members of a group that is now of another type rejoin."""


class Volatile(Protocol):
    """The state of a group that its type does not log."""

    def end(self) -> None:
        """Stop its timers."""


class GroupShardLife:
    def __init__(
        self,
        partition: int,
        clock: Clock,
        scheduler: Scheduler,
        kind_of_record: Callable[[int], GroupKind | None],
        coordinator_of: "Callable[[str], GroupTypeCoordinator]",
        classic_groups: ClassicGroups,
    ) -> None:
        """`coordinator_of(group_type)` returns the coordinator of a type of groups, the classic one excepted."""
        shard = self.shard = GroupShard(partition, kind_of_record)
        self.replay = shard.replay
        self.replay_end_transaction_marker = shard.replay_end_transaction_marker
        self.classic: dict[str, Any] = {}
        """The classic groups (`classic.membership.Group`). Other types ask only whether one `is_empty`."""
        self.sessions = Sessions(clock, scheduler, self._on_expired)
        self.checked: set[str] = set()
        """The groups whose topics have not changed since they last checked them."""
        self.initializing: dict[str, dict[UUID, int]] = {}
        """The monotonic time at which the states of share-partitions began to be made, by share group and topic."""
        self.volatile: dict[str, Volatile] = {}
        """The state that is not logged of groups with members, where their type has some."""
        self._coordinator_of = coordinator_of
        self._classic_groups = classic_groups

    # --- its begin and end --------------------------------------------------------------------------------------------

    def on_active(self) -> None:
        """Let members continue where they were, with a new session."""
        self._classic_groups.on_active(self)
        for group in self.shard.modern_groups().values():
            self._coordinator_of(group.group_type).on_active(self, group)

    def on_resigned(self) -> None:
        """Fail the waiters with NOT_COORDINATOR: they look for the new coordinator."""
        self._classic_groups.on_resigned(self)
        self.sessions.forget_all()
        for volatile in self.volatile.values():
            volatile.end()

    def on_topic_changed(self, name: str) -> None:
        """Let each group that reads the topic check it again at its next heartbeat."""
        for group_id in list(self.checked):
            group = self.shard.modern_group(group_id)
            if group is None or group.may_read(name):
                self.checked.discard(group_id)

    def _on_expired(self, group_id: str, member_id: str) -> None:
        group = self.shard.modern_group(group_id)
        if group is not None:
            self._coordinator_of(group.group_type).on_expired(self, group_id, member_id)

    # --- ids ----------------------------------------------------------------------------------------------------------

    def knows(self, group_id: str) -> bool:
        """Whether the id belongs to a group of any type, or has offsets."""
        return group_id in self.classic or self.shard.knows(group_id)

    def not_found(self, kind: GroupKind, group_id: str, what: str) -> KafkaError:
        """Return the error for a request to a group that is not there, or is of another type."""
        is_there = self.knows(group_id)
        problem = f"Group {group_id} is not a {kind.group_type} group." if is_there else f"{what} {group_id} not found."
        return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, problem)

    def release_classic(self, group_id: str) -> None:
        """Make the waiting members of a classic group that is now of another type rejoin."""
        self._classic_groups.release(self, group_id)
