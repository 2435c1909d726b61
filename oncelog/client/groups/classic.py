"""Membership in a classic consumer group: join, sync, heartbeat, leave, and offset commits of the member.

Owns: member id, generation, the tasks that join and that send heartbeats. Does not own: which offsets, the effect of an
assignment (`reading`). Invariants: the heartbeat task never joins by itself, it reports that a join is needed
(`on_change`), and a poll begins it; it sends heartbeats until then, also while the group rebalances, or the session of
a member that processes records would time out; an eager member gives up everything before it joins, a cooperative one
(KIP-429) only what the new assignment leaves out, and then it joins again; a member whose consumer has not polled for
max.poll.interval.ms leaves.

A join has a connection of its own, since it waits for the whole group: commits and the request to leave must not.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress

from oncelog.client.groups.assignors import ASSIGNORS
from oncelog.client.groups.membership import GroupSettings, Rebalance, send_commit
from oncelog.client.groups.polling import Polling
from oncelog.client.groups.subscriptions import NO_GENERATION, Subscription, decode_assignment, encode_assignment
from oncelog.client.values.errors import CommitFailed, FatalError, KafkaError, error_for, raise_for
from oncelog.client.values.records import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from oncelog.client.values.waiting import Deadline
from oncelog.client.wire.cluster import Cluster, CoordinatorKind
from oncelog.client.wire.connections import Purpose
from oncelog.client.wire.group_apis import HEARTBEAT, JOIN_GROUP, LEAVE_GROUP, SYNC_GROUP
from oncelog.client.wire.offsets import fetch_committed
from oncelog.protocol.errors import ErrorCode, ProtocolError
from oncelog.protocol.generated.heartbeat_request import HeartbeatRequest
from oncelog.protocol.generated.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from oncelog.protocol.generated.join_group_response import JoinGroupResponse
from oncelog.protocol.generated.leave_group_request import LeaveGroupRequest, MemberIdentity
from oncelog.protocol.generated.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment

PROTOCOL_TYPE = "consumer"
_LOST_MEMBERSHIP = frozenset((ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION))
_MISSING_TOPIC_POLL_S = 1.0
_JOIN_MARGIN_MS = 5_000
"""How much longer than max.poll.interval.ms a join waits for the other members, which may work for that long."""


class GroupMembership:
    def __init__(
        self, cluster: Cluster, settings: GroupSettings, topics: Sequence[str], on_change: Callable[[], None]
    ) -> None:
        self.subscribes = bool(topics) or settings.pattern is not None
        """True if the group assigns the partitions."""
        self.polling = Polling(settings.max_poll_interval_ms)
        self._topics = tuple(topics)
        self._cluster = cluster
        self._settings = settings
        self._on_change = on_change
        self._member_id = ""
        self._generation_id = NO_GENERATION
        self._lost: ConsumerGroupMetadata | None = None
        """This member's metadata in the generation that it lost."""
        self._needs_join = self.subscribes
        self._was_member = False
        """True once it has joined."""
        self._is_cooperative = all(ASSIGNORS[name].is_cooperative for name in settings.assignors)
        self._joining: asyncio.Task[None] | None = None
        self._pending: tuple[TopicPartition, ...] | None = None
        """The assignment received, until it is applied or lost."""
        self._last = Subscription(())
        """The last assignment, for assignors that build on it."""
        self._heartbeats: asyncio.Task[None] | None = None
        self._leaving: asyncio.Task[None] | None = None
        """The heartbeat task of the last membership, which was silent for too long."""
        self._partition_counts: dict[str, int] = {}
        """On the leader, the partition counts the assignment was computed from; empty on the others."""
        self._is_leader = False
        self._joining_since_s = 0.0

    def metadata(self) -> ConsumerGroupMetadata:
        settings = self._settings
        if self._lost is not None and not self.is_member:
            # An empty group accepts any commit without a generation.
            return self._lost
        return ConsumerGroupMetadata(
            settings.group_id, self._generation_id, self._member_id, settings.group_instance_id
        )

    @property
    def is_member(self) -> bool:
        return self._generation_id != NO_GENERATION

    def follow(self, owned: Sequence[TopicPartition]) -> Rebalance | None:
        if self._joining is not None:
            if not self._joining.done():
                return None
            task, self._joining = self._joining, None
            task.result()
        if self._pending is not None:
            return Rebalance(self._pending)
        if not self._needs_join:
            return None
        if owned and not (self._is_cooperative and self.is_member):
            return Rebalance((), is_lost=not self.is_member, is_assignment=False)
        self._joining = asyncio.ensure_future(self._join(owned))
        self._joining.add_done_callback(lambda _: self._on_change())
        return None

    def on_revoked(self, owned: Sequence[TopicPartition]) -> None:
        if self._is_cooperative and self.is_member:
            # Only then can the leader give away what this member had.
            self._ask_for_join()

    def on_assigned(self, owned: Sequence[TopicPartition]) -> None:
        self._pending = None

    async def _join(self, owned: Sequence[TopicPartition]) -> None:
        """Join (again) and receive this member's assignment; repeats until the group is stable, or until the membership
        is lost while something is `owned`, which must be given up first."""
        deadline = Deadline.after(self._settings.max_poll_interval_ms + _JOIN_MARGIN_MS)
        self._joining_since_s = asyncio.get_running_loop().time()
        if not self._was_member:
            # A mistyped name would be waited for without a word. A topic that is deleted later may come back.
            await self._cluster.topics_of(self._topics, deadline.capped(self._settings.api_timeout_ms))
        try:
            assigned = await self._join_until_stable(owned, deadline)
        finally:
            self._cluster.connections.disconnect(Purpose.JOIN)
        if assigned is not None:
            self._needs_join = False
            self._was_member = True
            self._pending = tuple(assigned)
            self._last = Subscription((), assigned, self._generation_id)

    async def leave(self, deadline: Deadline) -> None:
        """Leave now, so that the group need not wait for the session timeout. A static member stays."""
        await self.close()
        await self._leave_group(deadline)

    async def _leave_group(self, deadline: Deadline) -> None:
        if not self._member_id or self._settings.group_instance_id is not None:
            return
        request = LeaveGroupRequest(
            group_id=self._settings.group_id,
            member_id=self._member_id,
            members=[MemberIdentity(member_id=self._member_id)],
        )
        self._forget_membership()
        await self._cluster.call_coordinator(
            CoordinatorKind.GROUP, self._settings.group_id, LEAVE_GROUP, request, deadline, lambda each: each.error_code
        )

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], deadline: Deadline) -> None:
        while True:
            if self._lost is not None and not self.is_member:
                raise CommitFailed(f"not a member of group {self._settings.group_id!r} now")
            member, was_joining = self.metadata(), self._is_joining
            code = await send_commit(self._cluster, member, offsets, deadline)
            if not code:
                return
            error = error_for(code, f"group {self._settings.group_id!r}")
            has_moved = was_joining or self._is_joining or self.metadata() != member
            if has_moved and isinstance(error, CommitFailed) and await self._keeps_partitions(member, deadline):
                continue
            if not error.retriable:
                if self.metadata() == member:
                    self._on_lost(code)
                raise error
            await deadline.pause(self._cluster.retry_backoff_ms, "OFFSET_COMMIT", error)

    async def committed(
        self, partitions: Collection[TopicPartition], deadline: Deadline, *, require_stable: bool
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        return await fetch_committed(
            self._cluster, self._settings.group_id, partitions, deadline, require_stable=require_stable
        )

    @property
    def _is_joining(self) -> bool:
        return self._joining is not None and not self._joining.done()

    async def _keeps_partitions(self, member: ConsumerGroupMetadata, deadline: Deadline) -> bool:
        """Whether this is a cooperative member, which keeps its partitions in the group's next generation, and may
        commit them there; once it has joined that."""
        if self._is_cooperative and self._joining is not None:
            await asyncio.wait((self._joining,), timeout=deadline.remaining_s)
        return self._is_cooperative and self.is_member and self._member_id == member.member_id

    async def close(self) -> None:
        tasks = [each for each in (self._joining, self._heartbeats, self._leaving) if each is not None]
        self._joining = self._heartbeats = self._leaving = self._pending = None
        await _stopped(tasks)

    # --- joining ------------------------------------------------------------------------------------------------------

    async def _join_until_stable(
        self, owned: Sequence[TopicPartition], deadline: Deadline
    ) -> list[TopicPartition] | None:
        while True:
            if self._settings.pattern is not None:
                self._topics = await self._cluster.matching(self._settings.pattern, deadline)
            joined = await self._join_once(owned, deadline)
            if joined is not None:
                assigned = await self._sync(joined, deadline)
                if assigned is not None:
                    return assigned
            if owned and not self.is_member:
                return None
            await deadline.pause(0 if joined is None else self._cluster.retry_backoff_ms, "JOIN_GROUP")

    async def _join_once(self, owned: Sequence[TopicPartition], deadline: Deadline) -> JoinGroupResponse | None:
        """Join once; None means retry (with the member id just received, or without the rejected one)."""
        settings = self._settings
        kept = Subscription(self._topics, owned, self._last.generation_id)
        before = Subscription(self._topics, self._last.owned, self._last.generation_id)
        request = JoinGroupRequest(
            group_id=settings.group_id,
            session_timeout_ms=settings.session_timeout_ms,
            rebalance_timeout_ms=settings.max_poll_interval_ms,
            member_id=self._member_id,
            group_instance_id=settings.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[
                JoinGroupRequestProtocol(name, each.encode(kept if each.is_cooperative else before))
                for name, each in ((name, ASSIGNORS[name]) for name in settings.assignors)
            ],
        )
        await self._stop_heartbeats()
        response = await self._cluster.call_coordinator(
            CoordinatorKind.GROUP,
            settings.group_id,
            JOIN_GROUP,
            request,
            deadline,
            lambda each: each.error_code,
            patience_ms=self._join_patience_ms,
            purpose=Purpose.JOIN,
        )
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = response.member_id
            return None
        if response.error_code in _LOST_MEMBERSHIP:
            self._forget_membership(response.error_code)
            return None
        raise_for(response.error_code, f"group {settings.group_id!r}")
        self._member_id = response.member_id
        self._generation_id = response.generation_id
        self._heartbeats = asyncio.ensure_future(self._keep_alive())
        return response

    @property
    def _join_patience_ms(self) -> float:
        """How long to wait before a join is sent again. By then a member that the response did not reach would be
        removed; the coordinator knows it by its id, and responds to the last request. Java's waits for
        max.poll.interval.ms."""
        return max(self._settings.session_timeout_ms, self._cluster.request_timeout_ms)

    async def _sync(self, joined: JoinGroupResponse, deadline: Deadline) -> list[TopicPartition] | None:
        """Send (as the leader) and receive the assignment; None if the member must rejoin."""
        self._is_leader = joined.leader == joined.member_id
        assignments: list[SyncGroupRequestAssignment] = []
        if self._is_leader:
            assigned = await self._assign(joined, deadline)
            assignments = [
                SyncGroupRequestAssignment(member, encode_assignment(partitions))
                for member, partitions in assigned.items()
            ]
        request = SyncGroupRequest(
            group_id=self._settings.group_id,
            generation_id=self._generation_id,
            member_id=self._member_id,
            group_instance_id=self._settings.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=joined.protocol_name,
            assignments=assignments,
        )
        response = await self._cluster.call_coordinator(
            CoordinatorKind.GROUP,
            self._settings.group_id,
            SYNC_GROUP,
            request,
            deadline,
            lambda each: each.error_code,
            patience_ms=self._join_patience_ms,
            purpose=Purpose.JOIN,
        )
        if response.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            return None
        if response.error_code in _LOST_MEMBERSHIP:
            self._forget_membership(response.error_code)
            return None
        raise_for(response.error_code, f"group {self._settings.group_id!r}")
        try:
            return decode_assignment(response.assignment)
        except ProtocolError as error:
            raise FatalError(f"the leader of group {self._settings.group_id!r} sent no assignment: {error}") from error

    async def _assign(self, joined: JoinGroupResponse, deadline: Deadline) -> dict[str, list[TopicPartition]]:
        assignor = ASSIGNORS.get(joined.protocol_name or "")
        if assignor is None:
            raise FatalError(f"the group chose the assignor {joined.protocol_name!r}, which this client lacks")
        subscriptions = {member.member_id: assignor.decode(member.metadata) for member in joined.members}
        self._partition_counts = await self._count_partitions(
            {topic for each in subscriptions.values() for topic in each.topics}, self._joining_since_s, deadline
        )
        return assignor.assign(subscriptions, self._partition_counts)

    async def _count_partitions(self, topics: set[str], since_s: float, deadline: Deadline) -> dict[str, int]:
        """The partition counts as the brokers had them at `since_s` or later."""
        stale = [topic for topic in sorted(topics) if self._cluster.metadata.refreshed_at_s(topic) < since_s]
        if stale:
            await self._cluster.refresh(stale, deadline)
        known = self._cluster.metadata.topics
        return {topic: known[topic].partition_count for topic in sorted(topics) if topic in known}

    # --- staying ------------------------------------------------------------------------------------------------------

    async def _keep_alive(self) -> None:
        """Send heartbeats from the response to JoinGroup until the next one is sent: during a join the coordinator
        keeps a silent member."""
        loop = asyncio.get_running_loop()
        settings = self._settings
        looked_at_s = loop.time()
        while True:
            await asyncio.sleep(settings.heartbeat_interval_ms / 1000)
            if not self.is_member:
                return
            if self.polling.is_silent and not self._is_joining:
                await self._leave_for_silence()
                return
            try:
                if await self._heartbeat(Deadline.after(settings.session_timeout_ms)) == ErrorCode.FENCED_INSTANCE_ID:
                    return
                if not self._needs_join and loop.time() >= looked_at_s + self._metadata_age_s():
                    await self._look_for_changes()
                    looked_at_s = loop.time()
            except KafkaError as error:
                # An unreachable coordinator is retried with the next heartbeat.
                if error.fatal:
                    self._ask_for_join()
                    return

    async def check_membership(self, deadline: Deadline) -> None:
        if not self.is_member:
            raise CommitFailed(f"not a member of group {self._settings.group_id!r} now")
        code = await self._heartbeat(deadline)
        if code and code != ErrorCode.REBALANCE_IN_PROGRESS:
            raise error_for(code, f"group {self._settings.group_id!r}")

    async def _heartbeat(self, deadline: Deadline) -> int:
        member = self.metadata()
        code = await self._send_heartbeat(deadline)
        if code and self.metadata() == member:
            self._on_lost(code)
        return code

    async def _send_heartbeat(self, deadline: Deadline) -> int:
        request = HeartbeatRequest(
            self._settings.group_id, self._generation_id, self._member_id, self._settings.group_instance_id
        )
        response = await self._cluster.call_coordinator(
            CoordinatorKind.GROUP,
            self._settings.group_id,
            HEARTBEAT,
            request,
            deadline,
            lambda each: each.error_code,
        )
        return response.error_code

    def _on_lost(self, code: int) -> None:
        """Update the membership from a response's error code; a join that is under way will do that itself."""
        if self._is_joining:
            return
        if code in _LOST_MEMBERSHIP:
            self._forget_membership(code)
            self._ask_for_join()
        elif code in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.FENCED_INSTANCE_ID):
            self._ask_for_join()

    async def _look_for_changes(self) -> None:
        deadline = Deadline.after(self._cluster.request_timeout_ms)
        pattern = self._settings.pattern
        if pattern is not None and await self._cluster.matching(pattern, deadline) != self._topics:
            self._ask_for_join()
        elif self._is_leader:
            await self._look_for_new_partitions()

    async def _look_for_new_partitions(self) -> None:
        counts = await self._count_partitions(
            {*self._topics, *self._partition_counts},
            asyncio.get_running_loop().time(),
            Deadline.after(self._cluster.request_timeout_ms),
        )
        if counts != self._partition_counts:
            self._ask_for_join()

    async def _leave_for_silence(self) -> None:
        # A poll that begins while the request is under way gives up what is owned, and joins as another member.
        self._leaving, self._heartbeats = self._heartbeats, None
        self._pending = None
        self._ask_for_join()
        # If the request is lost, the session times out at the coordinator.
        with suppress(KafkaError):
            await self._leave_group(Deadline.after(self._cluster.request_timeout_ms))

    def _metadata_age_s(self) -> float:
        if self._is_leader and any(topic not in self._partition_counts for topic in self._topics):
            return _MISSING_TOPIC_POLL_S
        return self._settings.metadata_max_age_ms / 1000

    def _ask_for_join(self) -> None:
        if self.subscribes and not self._needs_join:
            self._needs_join = True
            self._on_change()

    def _forget_membership(self, code: int = ErrorCode.UNKNOWN_MEMBER_ID) -> None:
        if self.is_member:
            self._lost = self.metadata()
        if code != ErrorCode.ILLEGAL_GENERATION:
            # With a new id the group would wait for the old one, until its session times out.
            self._member_id = ""
        self._generation_id = NO_GENERATION
        self._pending = None

    async def _stop_heartbeats(self) -> None:
        task, self._heartbeats = self._heartbeats, None
        if task is not None:
            await _stopped([task])


async def _stopped(tasks: "Sequence[asyncio.Task[None]]") -> None:
    for each in tasks:
        each.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
