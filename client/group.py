"""Membership in a classic consumer group: join, sync, heartbeat, leave, and offset commits of the member.

Owns: member id, generation, the heartbeat task. Does not own: which offsets, when to join, the effect of an assignment
(`consumer`). Invariants: the heartbeat task never joins by itself, it reports that a join is needed
(`on_rejoin_needed`), so that partitions are not revoked while their records are being processed; a member whose
consumer has not polled for max.poll.interval.ms leaves.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from oncelog.client.apis import HEARTBEAT, JOIN_GROUP, LEAVE_GROUP, OFFSET_COMMIT, SYNC_GROUP
from oncelog.client.assignors import (
    ASSIGNORS,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from oncelog.client.cluster import Cluster, CoordinatorKind
from oncelog.client.deadline import Deadline
from oncelog.client.errors import CommitFailed, FatalError, KafkaError, error_for, raise_for
from oncelog.client.records import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from oncelog.protocol.errors import ErrorCode, ProtocolError
from oncelog.protocol.generated.heartbeat_request import HeartbeatRequest
from oncelog.protocol.generated.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from oncelog.protocol.generated.join_group_response import JoinGroupResponse
from oncelog.protocol.generated.leave_group_request import LeaveGroupRequest, MemberIdentity
from oncelog.protocol.generated.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from oncelog.protocol.generated.offset_commit_response import OffsetCommitResponse
from oncelog.protocol.generated.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment

PROTOCOL_TYPE = "consumer"
_NO_GENERATION = -1
_LOST_MEMBERSHIP = frozenset((ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION))
_MISSING_TOPIC_POLL_S = 1.0


@dataclass(frozen=True, slots=True)
class GroupSettings:
    group_id: str
    group_instance_id: str | None
    assignors: Sequence[str]
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int
    metadata_max_age_ms: int
    pattern: str | None = None
    """Chooses the topics, at each join; a change in what it matches is a reason to join again."""


class GroupMembership:
    def __init__(self, cluster: Cluster, settings: GroupSettings, topics: Sequence[str]) -> None:
        self.subscribes = bool(topics) or settings.pattern is not None
        """The group assigns the partitions."""
        self.needs_join = self.subscribes
        self.was_member = False
        """It has joined before."""
        self.on_rejoin_needed: Callable[[], None] = lambda: None
        self.last_poll_s = asyncio.get_running_loop().time()
        self.is_polling = False
        self._topics = tuple(topics)
        self._cluster = cluster
        self._settings = settings
        self._member_id = ""
        self._generation_id = _NO_GENERATION
        self._heartbeats: asyncio.Task[None] | None = None
        self._partition_counts: dict[str, int] = {}
        """On the leader, the partition counts the assignment was computed from; empty on the others."""
        self._is_leader = False

    def metadata(self) -> ConsumerGroupMetadata:
        settings = self._settings
        return ConsumerGroupMetadata(
            settings.group_id, self._generation_id, self._member_id, settings.group_instance_id
        )

    @property
    def is_member(self) -> bool:
        return self._generation_id != _NO_GENERATION

    async def join(self, deadline: Deadline) -> list[TopicPartition]:
        """Join (again) and return this member's assignment; repeats until the group is stable."""
        await self._stop_heartbeats()
        while True:
            if self._settings.pattern is not None:
                self._topics = await self._cluster.matching(self._settings.pattern, deadline)
            joined = await self._join_once(deadline)
            if joined is not None:
                assigned = await self._sync(joined, deadline)
                if assigned is not None:
                    break
            await deadline.pause(0 if joined is None else self._cluster.retry_backoff_ms, "JOIN_GROUP")
        self.needs_join = False
        self.was_member = True
        self._heartbeats = asyncio.ensure_future(self._keep_alive())
        return assigned

    async def leave(self, deadline: Deadline) -> None:
        """Leave now, so that the group need not wait for the session timeout. A static member stays."""
        await self._stop_heartbeats()
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
        """Commit; raises CommitFailed if this membership is no longer current."""
        topics: dict[str, list[OffsetCommitRequestPartition]] = {}
        for (topic, partition), offset in offsets.items():
            part = OffsetCommitRequestPartition(partition, offset.offset, offset.leader_epoch, offset.metadata)
            topics.setdefault(topic, []).append(part)
        request = OffsetCommitRequest(
            group_id=self._settings.group_id,
            generation_id_or_member_epoch=self._generation_id,
            member_id=self._member_id,
            group_instance_id=self._settings.group_instance_id,
            topics=[OffsetCommitRequestTopic(name=name, partitions=parts) for name, parts in topics.items()],
        )
        while True:
            response = await self._cluster.call_coordinator(
                CoordinatorKind.GROUP, self._settings.group_id, OFFSET_COMMIT, request, deadline, _commit_error
            )
            code = _commit_error(response)
            if not code:
                return
            error = error_for(code, f"group {self._settings.group_id!r}")
            if not error.retriable:
                self._on_lost(code)
                raise error
            await deadline.pause(self._cluster.retry_backoff_ms, "OFFSET_COMMIT", error)

    async def close(self) -> None:
        await self._stop_heartbeats()

    # --- joining ------------------------------------------------------------------------------------------------------

    async def _join_once(self, deadline: Deadline) -> JoinGroupResponse | None:
        """None: retry (with the member id just received, or without the rejected one)."""
        settings = self._settings
        subscription = encode_subscription(self._topics)
        request = JoinGroupRequest(
            group_id=settings.group_id,
            session_timeout_ms=settings.session_timeout_ms,
            rebalance_timeout_ms=settings.max_poll_interval_ms,
            member_id=self._member_id,
            group_instance_id=settings.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[JoinGroupRequestProtocol(name, subscription) for name in settings.assignors],
        )
        response = await self._cluster.call_coordinator(
            CoordinatorKind.GROUP,
            settings.group_id,
            JOIN_GROUP,
            request,
            deadline,
            lambda each: each.error_code,
            patience_ms=settings.max_poll_interval_ms + 5000,
        )
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = response.member_id
            return None
        if response.error_code in _LOST_MEMBERSHIP:
            self._forget_membership()
            return None
        raise_for(response.error_code, f"group {settings.group_id!r}")
        self._member_id = response.member_id
        self._generation_id = response.generation_id
        return response

    async def _sync(self, joined: JoinGroupResponse, deadline: Deadline) -> list[TopicPartition] | None:
        """Send (as the leader) and receive the assignment; None: rejoin."""
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
            patience_ms=self._settings.max_poll_interval_ms + 5000,
        )
        if response.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            return None
        if response.error_code in _LOST_MEMBERSHIP:
            self._forget_membership()
            return None
        raise_for(response.error_code, f"group {self._settings.group_id!r}")
        try:
            return decode_assignment(response.assignment)
        except ProtocolError as error:
            raise FatalError(f"the leader of group {self._settings.group_id!r} sent no assignment: {error}") from error

    async def _assign(self, joined: JoinGroupResponse, deadline: Deadline) -> dict[str, list[TopicPartition]]:
        subscriptions = {member.member_id: decode_subscription(member.metadata) for member in joined.members}
        self._partition_counts = await self._count_partitions(
            {topic for topics in subscriptions.values() for topic in topics}, deadline
        )
        assignor = ASSIGNORS.get(joined.protocol_name or "")
        if assignor is None:
            raise FatalError(f"the group chose the assignor {joined.protocol_name!r}, which this client lacks")
        return assignor(subscriptions, self._partition_counts)

    async def _count_partitions(self, topics: set[str], deadline: Deadline) -> dict[str, int]:
        await self._cluster.refresh(sorted(topics), deadline)
        known = self._cluster.topics
        return {topic: known[topic].partition_count for topic in sorted(topics) if topic in known}

    # --- staying ------------------------------------------------------------------------------------------------------

    async def _keep_alive(self) -> None:
        loop = asyncio.get_running_loop()
        settings = self._settings
        look_again_at_s = loop.time() + self._metadata_age_s()
        while not self.needs_join:
            await asyncio.sleep(settings.heartbeat_interval_ms / 1000)
            idle_s = loop.time() - self.last_poll_s
            if not self.is_polling and idle_s > settings.max_poll_interval_ms / 1000:
                await self._leave_for_silence()
                return
            try:
                await self._heartbeat()
                if loop.time() >= look_again_at_s:
                    await self._look_for_changes()
                    look_again_at_s = loop.time() + self._metadata_age_s()
            except KafkaError as error:
                # An unreachable coordinator is retried with the next heartbeat.
                if error.fatal:
                    self._ask_for_join()

    async def check_membership(self, deadline: Deadline) -> None:
        """Raises CommitFailed if the coordinator does not know this member any more."""
        if not self.is_member:
            raise CommitFailed(f"not a member of group {self._settings.group_id!r} now")
        code = await self._send_heartbeat(deadline)
        if code:
            self._on_lost(code)
        if code and code != ErrorCode.REBALANCE_IN_PROGRESS:
            raise error_for(code, f"group {self._settings.group_id!r}")

    async def _heartbeat(self) -> None:
        code = await self._send_heartbeat(Deadline.after(self._settings.session_timeout_ms))
        if code:
            self._on_lost(code)

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
        """Update the membership from a response's error code."""
        if code in _LOST_MEMBERSHIP:
            self._forget_membership()
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
            {*self._topics, *self._partition_counts}, Deadline.after(self._cluster.request_timeout_ms)
        )
        if counts != self._partition_counts:
            self._ask_for_join()

    async def _leave_for_silence(self) -> None:
        self._heartbeats = None
        # If the request is lost, the session times out at the coordinator.
        with suppress(KafkaError):
            await self.leave(Deadline.after(self._cluster.request_timeout_ms))
        self._ask_for_join()

    def _metadata_age_s(self) -> float:
        if self._is_leader and any(topic not in self._partition_counts for topic in self._topics):
            return _MISSING_TOPIC_POLL_S
        return self._settings.metadata_max_age_ms / 1000

    def _ask_for_join(self) -> None:
        if self.subscribes and not self.needs_join:
            self.needs_join = True
            self.on_rejoin_needed()

    def _forget_membership(self) -> None:
        self._member_id = ""
        self._generation_id = _NO_GENERATION

    async def _stop_heartbeats(self) -> None:
        task, self._heartbeats = self._heartbeats, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def _commit_error(response: OffsetCommitResponse) -> int:
    codes = [each.error_code for topic in response.topics for each in topic.partitions]
    return next((code for code in codes if code), 0)
