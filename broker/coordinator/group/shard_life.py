"""One partition of `__consumer_offsets` while this node coordinates it: its groups, and how long it waits for members.

Owns: what a restart or the loss of the partition may forget: classic groups with their waiting requests, sessions of
members of consumer groups, which groups know their topics. Durable state is the shard's. Does not own: which request
may do what (`coordinator`, `consumer`).
Invariants
- Every classic group that has a logged generation is here; one that has only offsets has no members and is not. No
  group is classic and a consumer group at once.
- Once it has resigned, none of its clocks ticks, and nobody waits for it.
"""

from collections.abc import Callable, Iterable

from oncelog.broker.coordinator.group.consumer.member import ConsumerMember
from oncelog.broker.coordinator.group.consumer.ports import ConsumerGroupSettings
from oncelog.broker.coordinator.group.consumer.sessions import Sessions, Wait
from oncelog.broker.coordinator.group.membership import Group, restored
from oncelog.broker.coordinator.group.rebalance import Rebalancer
from oncelog.broker.coordinator.group.shard import GroupShard
from oncelog.broker.ports import Clock, Scheduler
from oncelog.protocol.errors import ErrorCode


class GroupShardLife:
    def __init__(
        self,
        partition: int,
        rebalancer: Rebalancer,
        clock: Clock,
        scheduler: Scheduler,
        settings: ConsumerGroupSettings,
        classic_max_size: int,
        on_expired: "Callable[[GroupShardLife, str, str], None]",
    ) -> None:
        """`on_expired(life, group_id, member_id)` is called when a member of a consumer group was not there in time."""
        shard = self.shard = GroupShard(partition)
        self.replay = shard.replay
        self.replay_end_transaction_marker = shard.replay_end_transaction_marker
        self.classic: dict[str, Group] = {}
        self.sessions = Sessions(clock, scheduler, lambda group_id, member_id: on_expired(self, group_id, member_id))
        self.checked: set[str] = set()
        """Consumer groups to whose topics nothing has happened since they last looked."""
        self._rebalancer = rebalancer
        self._settings = settings
        self._classic_max_size = classic_max_size

    # --- its begin and end --------------------------------------------------------------------------------------------

    def on_active(self) -> None:
        """Members go on where they were, with a fresh session."""
        for group_id, stored in self.shard.groups().items():
            group = restored(group_id, stored)
            # It may have shrunk its limit while it was down: whoever joins again first, stays.
            self.adopt(group, must_rebalance=len(group.members) > self._classic_max_size)
        for group_id, consumer_group in self.shard.consumer_groups().items():
            self.start_sessions(group_id, consumer_group.members.values())
            for member in consumer_group.members.values():
                if member.is_revoking:
                    timeout_ms = member.metadata.rebalance_timeout_ms
                    self.sessions.expect(group_id, member.member_id, Wait.REVOCATION, timeout_ms)

    def on_resigned(self) -> None:
        """Whoever waits looks for the coordinator elsewhere."""
        for group in self.classic.values():
            self._rebalancer.release(group, ErrorCode.NOT_COORDINATOR)
        self.sessions.forget_all()

    # --- sessions of consumer groups ----------------------------------------------------------------------------------

    def start_sessions(self, group_id: str, members: Iterable[ConsumerMember]) -> None:
        for member in members:
            self.start_session(group_id, member)

    def start_session(self, group_id: str, member: ConsumerMember) -> None:
        classic = member.metadata.classic
        timeout_ms = self._settings.session_timeout_ms(group_id) if classic is None else classic.session_timeout_ms
        self.sessions.expect(group_id, member.member_id, Wait.SESSION, timeout_ms)

    # --- classic groups -----------------------------------------------------------------------------------------------

    def release(self, group_id: str) -> None:
        """The group has become a consumer group: who waits here is told to join again."""
        group = self.classic.pop(group_id, None)
        if group is not None:
            self._rebalancer.release(group)

    def adopt(self, group: Group, *, must_rebalance: bool) -> None:
        """A classic group that was logged, or that was a consumer group until now: its sessions start."""
        self.classic[group.group_id] = group
        for member in group.members.values():
            self._rebalancer.on_alive(group, member)
        if must_rebalance:
            self._rebalancer.prepare(group)
