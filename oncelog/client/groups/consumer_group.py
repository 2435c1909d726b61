"""Membership in a consumer group of KIP-848: heartbeats say what this member wants and has, the coordinator assigns.

Owns: the member id, what its heartbeats say, the assignment last received. Does not own: when they are sent
(`heartbeating`), which offsets, the effect of an assignment (`reading`). Invariants
- A partition is reported as owned until the consumer has given it up, inside a poll: so no other member gets it before.
- A fenced member gives up everything before it joins again.
"""

import uuid
from collections.abc import Callable, Collection, Mapping, Sequence

from oncelog.client.groups.heartbeating import (
    LEAVING_EPOCH,
    Heartbeats,
    HeartbeatSettings,
    Report,
)
from oncelog.client.groups.membership import GroupSettings, Rebalance, send_commit
from oncelog.client.values.errors import CommitFailed, error_for
from oncelog.client.values.records import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from oncelog.client.values.waiting import Deadline
from oncelog.client.wire.apis import api_of
from oncelog.client.wire.cluster import Cluster
from oncelog.client.wire.offsets import fetch_committed
from oncelog.protocol.generated import consumer_group_heartbeat_request, consumer_group_heartbeat_response
from oncelog.protocol.generated.consumer_group_heartbeat_request import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)

_HEARTBEAT = api_of(consumer_group_heartbeat_request, consumer_group_heartbeat_response, 1, 1)
"""The heartbeat API; in version 0 the coordinator makes the member's id, so that a lost response leaves a member
behind."""
_STATIC_LEAVING_EPOCH = -2
"""The epoch with which a static member leaves to come back: its partitions wait for it until its session times out."""


class ConsumerGroupMembership:
    def __init__(
        self, cluster: Cluster, settings: GroupSettings, topics: Sequence[str], on_change: Callable[[], None]
    ) -> None:
        self.subscribes = bool(topics) or settings.pattern is not None
        self._cluster = cluster
        self._settings = settings
        self._on_change = on_change
        self._topics = tuple(sorted(topics))
        self._member_id = uuid.uuid4().hex
        self._was_member = False
        self._ids: dict[str, uuid.UUID] = {}
        """The ids of the topics that have been assigned, by name."""
        self._pending: tuple[TopicPartition, ...] | None = None
        """The assignment received, until it is applied or lost."""
        self._owned: tuple[TopicPartition, ...] = ()
        self._is_lost = False
        """True if other members may own by now what this one owned."""
        is_static = settings.group_instance_id is not None
        heartbeats = HeartbeatSettings(
            _HEARTBEAT,
            settings.group_id,
            settings.max_poll_interval_ms,
            settings.api_timeout_ms,
            _STATIC_LEAVING_EPOCH if is_static else LEAVING_EPOCH,
        )
        # What a pattern matches, the coordinator alone knows: it evaluates it (RE2).
        wanted = self._topics if settings.pattern is None else None
        self._heartbeats = Heartbeats(cluster, heartbeats, self, wanted)
        self.polling = self._heartbeats.polling

    def metadata(self) -> ConsumerGroupMetadata:
        settings, epoch = self._settings, self._heartbeats.epoch
        if not self._was_member:
            return ConsumerGroupMetadata(settings.group_id, group_instance_id=settings.group_instance_id)
        return ConsumerGroupMetadata(settings.group_id, epoch, self._member_id, settings.group_instance_id)

    @property
    def is_member(self) -> bool:
        return self._heartbeats.is_member

    def follow(self, owned: Sequence[TopicPartition]) -> Rebalance | None:
        if not self.subscribes:
            return None
        if owned and self._is_lost:
            return Rebalance((), is_lost=True, is_assignment=False)
        self._is_lost = False
        self._heartbeats.follow()
        return None if self._pending is None else Rebalance(self._pending)

    def on_revoked(self, owned: Sequence[TopicPartition]) -> None:
        self._owned = tuple(sorted(owned))
        self._heartbeats.report(self._owned)

    def on_assigned(self, owned: Sequence[TopicPartition]) -> None:
        self._owned = tuple(sorted(owned))
        if self._pending == self._owned:
            self._pending = None
        self._heartbeats.report(self._owned)

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], deadline: Deadline) -> None:
        while True:
            member = self._current()
            code = await send_commit(self._cluster, member, offsets, deadline)
            if not code:
                return
            await self._after_error(code, member, deadline, "OFFSET_COMMIT")

    async def committed(
        self, partitions: Collection[TopicPartition], deadline: Deadline, *, require_stable: bool
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        while True:
            member = self._current()
            try:
                return await fetch_committed(
                    self._cluster,
                    self._settings.group_id,
                    partitions,
                    deadline,
                    require_stable=require_stable,
                    member=member if self.subscribes else None,
                )
            except CommitFailed as error:
                await self._after_error(error.code or 0, member, deadline, "OFFSET_FETCH")

    async def check_membership(self, deadline: Deadline) -> None:
        self._current()
        await self._heartbeats.beat(deadline)
        self._current()

    async def leave(self, deadline: Deadline) -> None:
        """Leave now; a static member says that it comes back."""
        await self._heartbeats.leave(deadline)

    async def close(self) -> None:
        await self._heartbeats.close()

    # --- commits ------------------------------------------------------------------------------------------------------

    def _current(self) -> ConsumerGroupMetadata:
        """Raises CommitFailed if this consumer, to which the group assigns, is no member now."""
        if self.subscribes and not self.is_member:
            raise CommitFailed(f"not a member of group {self._settings.group_id!r} now")
        return self.metadata()

    async def _after_error(self, code: int, member: ConsumerGroupMetadata, deadline: Deadline, what: str) -> None:
        """Return if the request may be sent again; else raise its error."""
        error = error_for(code, f"group {self._settings.group_id!r}")
        if self.subscribes and isinstance(error, CommitFailed):
            # A newer epoch is under way, or this member is fenced: the heartbeat knows.
            await self._heartbeats.beat(deadline)
            if self.is_member and self.metadata() != member:
                return
        if not error.retriable:
            raise error
        await deadline.pause(self._cluster.retry_backoff_ms, what, error)

    # --- heartbeats ---------------------------------------------------------------------------------------------------

    def request(self, epoch: int, report: Report | None, *, says_all: bool) -> ConsumerGroupHeartbeatRequest:
        settings = self._settings
        return ConsumerGroupHeartbeatRequest(
            group_id=settings.group_id,
            member_id=self._member_id,
            member_epoch=epoch,
            instance_id=settings.group_instance_id,
            rebalance_timeout_ms=settings.max_poll_interval_ms if says_all else -1,
            rack_id=settings.rack if says_all else None,
            subscribed_topic_names=self._topics if says_all else None,
            subscribed_topic_regex=settings.pattern if says_all else None,
            server_assignor=settings.remote_assignor if says_all else None,
            topic_partitions=None if report is None else self._by_id(report),
        )

    def _by_id(self, partitions: Sequence[TopicPartition]) -> list[TopicPartitions]:
        found: dict[uuid.UUID, list[int]] = {}
        for topic, partition in partitions:
            found.setdefault(self._ids[topic], []).append(partition)
        return [TopicPartitions(topic_id, numbers) for topic_id, numbers in found.items()]

    def on_assignment(self, assignment: Mapping[TopicPartition, uuid.UUID]) -> None:
        self._ids |= {place.topic: topic_id for place, topic_id in assignment.items()}
        target = tuple(sorted(assignment))
        if target == self._owned and self._was_member:
            self._pending = None
            return
        self._pending = target
        self._was_member = True
        self._on_change()

    def on_lost(self) -> bool:
        self._pending = None
        # A poll that begins now gives up what is owned.
        self._is_lost = bool(self._owned)
        return not self._is_lost

    def on_ended(self) -> None:
        self._on_change()
