"""One partition of `__consumer_offsets` while this node coordinates it: its groups, and how long it waits for members.

Owns: what a restart or the loss of the partition may forget: classic groups with their waiting requests, sessions of
members of the other types, which groups have checked their topics. Does not own: durable state (`shard`), the checks of
requests (`coordinator`, and that of each type).
Invariants
- Every classic group that has a logged generation is here; one that has only offsets has no members and is not. No
  group is both a classic group and a consumer group.
- Once it has resigned, no timer runs and no request waits.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol
from uuid import UUID

from oncelog.broker.coordinator.group.consumer.member import ConsumerMember
from oncelog.broker.coordinator.group.consumer.ports import ConsumerGroupSettings
from oncelog.broker.coordinator.group.consumer.sessions import Sessions, Wait
from oncelog.broker.coordinator.group.membership import Group, restore_group
from oncelog.broker.coordinator.group.rebalance import Rebalancer
from oncelog.broker.coordinator.group.shard import GroupShard
from oncelog.broker.turns.ports import Clock, Scheduler
from oncelog.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from oncelog.broker.coordinator.group.streams.life import StreamsGroupLife


class GroupTypeCoordinator(Protocol):
    """What a life asks of the coordinator of a type of groups."""

    def on_active(self, life: "GroupShardLife", group: Any, /) -> None:
        """Give the members of a replayed group new sessions, and resume what its log left unfinished."""

    def on_expired(self, life: "GroupShardLife", group_id: str, member_id: str, /) -> None:
        """Remove a member that was silent, or exceeded a timeout."""


class GroupShardLife:
    def __init__(
        self,
        partition: int,
        rebalancer: Rebalancer,
        clock: Clock,
        scheduler: Scheduler,
        settings: ConsumerGroupSettings,
        classic_max_size: int,
        coordinator_of: "Callable[[str], GroupTypeCoordinator]",
    ) -> None:
        """`coordinator_of(group_type)` returns the coordinator of a type of groups, the classic one excepted."""
        shard = self.shard = GroupShard(partition)
        self.replay = shard.replay
        self.replay_end_transaction_marker = shard.replay_end_transaction_marker
        self.classic: dict[str, Group] = {}
        self.sessions = Sessions(clock, scheduler, self._on_expired)
        self.checked: set[str] = set()
        """The groups whose topics have not changed since they last checked them."""
        self.initializing: dict[str, dict[UUID, int]] = {}
        """By share group and topic: when the states of share-partitions began to be made, on the monotonic clock."""
        self.streams: dict[str, StreamsGroupLife] = {}
        """What is not logged of streams groups with members."""
        self._coordinator_of = coordinator_of
        self._rebalancer = rebalancer
        self._settings = settings
        self._classic_max_size = classic_max_size

    # --- its begin and end --------------------------------------------------------------------------------------------

    def on_active(self) -> None:
        """Let members continue where they were, with a new session."""
        for group_id, stored in self.shard.groups().items():
            group = restore_group(group_id, stored)
            # max.size may have been lowered while it was down: the first members to rejoin stay.
            self.adopt(group, must_rebalance=len(group.members) > self._classic_max_size)
        for modern_group in self.shard.modern_groups().values():
            self._coordinator_of(modern_group.group_type).on_active(self, modern_group)

    def on_resigned(self) -> None:
        """Fail the waiters with NOT_COORDINATOR: they look for the new coordinator."""
        for group in self.classic.values():
            self._rebalancer.release(group, ErrorCode.NOT_COORDINATOR)
        self.sessions.forget_all()
        for streams_group in self.streams.values():
            streams_group.end()

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
        """Make the waiting members of a group that has become a consumer group rejoin."""
        group = self.classic.pop(group_id, None)
        if group is not None:
            self._rebalancer.release(group)

    def remember(self, group_id: str) -> None:
        """Keep a group of which nothing is logged from its first request to the next clean-up, as in Kafka."""
        if not self.shard.knows(group_id) and group_id not in self.classic:
            self.classic[group_id] = Group(group_id)

    def adopt(self, group: Group, *, must_rebalance: bool) -> None:
        """Start the sessions of a classic group that was logged, or that was a consumer group until now."""
        self.classic[group.group_id] = group
        for member in group.members.values():
            self._rebalancer.on_alive(group, member)
        if must_rebalance:
            self._rebalancer.prepare(group)
