"""The classic groups of a partition: restored at its begin, released at its end.

Owns: how a classic group enters and leaves the life of its partition. Does not own: the life (`engine.shard_life`), a
rebalance (`rebalance`).
Invariant: every classic group that has a logged generation is in the life; one that has only offsets has no members and
is not.
"""

from oncelog.broker.coordinator.group.classic.membership import Group, restore_group
from oncelog.broker.coordinator.group.classic.rebalance import Rebalancer
from oncelog.broker.coordinator.group.engine.shard_life import GroupShardLife
from oncelog.protocol.errors import ErrorCode


class ClassicGroups:
    def __init__(self, rebalancer: Rebalancer, max_size: int) -> None:
        self._rebalancer = rebalancer
        self._max_size = max_size

    def on_active(self, life: GroupShardLife) -> None:
        """Let members continue where they were, with a new session."""
        for group_id, stored in life.shard.groups().items():
            group = restore_group(group_id, stored)
            # max.size may have been lowered while it was down: the first members to rejoin stay.
            self.adopt(life, group, must_rebalance=len(group.members) > self._max_size)

    def on_resigned(self, life: GroupShardLife) -> None:
        """Fail the waiters with NOT_COORDINATOR: they look for the new coordinator."""
        for group in life.classic.values():
            self._rebalancer.release(group, ErrorCode.NOT_COORDINATOR)

    def release(self, life: GroupShardLife, group_id: str) -> None:
        """Make the waiting members of a group that is now of another type rejoin."""
        group = life.classic.pop(group_id, None)
        if group is not None:
            self._rebalancer.release(group)

    def adopt(self, life: GroupShardLife, group: Group, *, must_rebalance: bool) -> None:
        """Start the sessions of a classic group that was logged, or that was a consumer group until now."""
        life.classic[group.group_id] = group
        for member in group.members.values():
            self._rebalancer.on_alive(group, member)
        if must_rebalance:
            self._rebalancer.prepare(group)
