"""Membership in a share group (KIP-932): heartbeats say which topics this member wants, the coordinator assigns.

Owns: member id and epoch, the heartbeat task, the assignment. Does not own: what is done with the partitions, which
other members may have too (`exchange`). Invariants
- An assignment counts from when it is received: nothing has to be given up first, and nothing is reported.
- A fenced member has no partitions until it has joined again, with epoch 0 and its old id.
- A response that was lost may have had an assignment, so that the next heartbeat says everything, which gets all.
- A member whose consumer has not polled for max.poll.interval.ms leaves; the next poll joins again.

As Kafka's ShareMembershipManager and ShareHeartbeatRequestManager.
"""

import asyncio
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from oncelog.client.values.errors import FatalError, KafkaError, raise_for
from oncelog.client.values.records import TopicPartition
from oncelog.client.values.waiting import Deadline
from oncelog.client.wire.cluster import Cluster, CoordinatorKind
from oncelog.client.wire.share_apis import SHARE_GROUP_HEARTBEAT
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from oncelog.protocol.generated.share_group_heartbeat_response import ShareGroupHeartbeatResponse

_JOINING_EPOCH = 0
_LEAVING_EPOCH = -1
_FENCED = frozenset((ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID))
_DISABLED = "share groups are switched off there: oncelog cluster alter --feature share.version=1"


@dataclass(frozen=True, slots=True)
class MembershipSettings:
    group_id: str
    rack: str | None
    max_poll_interval_ms: int
    api_timeout_ms: float


def new_member_id() -> str:
    """Return a member id: a random UUID, as Kafka writes it, since leaders read it as one."""
    return urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


class ShareMembership:
    def __init__(
        self,
        cluster: Cluster,
        settings: MembershipSettings,
        member_id: str,
        on_assigned: Callable[[Mapping[TopicPartition, uuid.UUID]], None],
        on_ended: Callable[[], None],
    ) -> None:
        """`on_ended` is called when `follow` may raise."""
        self.topics: tuple[str, ...] = ()
        self.assignment: Mapping[TopicPartition, uuid.UUID] = {}
        self.is_polling = False
        self.last_poll_s = asyncio.get_running_loop().time()
        self._cluster = cluster
        self._settings = settings
        self._member_id = member_id
        self._on_assigned = on_assigned
        self._on_ended = on_ended
        self._epoch = _JOINING_EPOCH
        self._has_sent = False
        self._found: tuple[str, ...] = ()
        """The topics that were last known to exist."""
        self._said: tuple[str, ...] | None = None
        """The topics last sent to the coordinator; None if the next heartbeat is to send everything."""
        self._received: Mapping[uuid.UUID, Sequence[int]] | None = None
        """An assignment some of whose topics have no names yet."""
        self._interval_s = 0.0
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def subscribe(self, topics: Sequence[str]) -> None:
        """Want exactly these topics; without any, leave the group."""
        self.topics = tuple(sorted(set(topics)))
        self._changed.set()

    def follow(self) -> None:
        """Be a member while there are topics. Raises the error that ended the membership, once."""
        if self._task is not None and self._task.done():
            task, self._task = self._task, None
            task.result()
        if self._task is None and self.topics:
            self._task = asyncio.ensure_future(self._run())
            self._task.add_done_callback(lambda _: self._on_ended())

    async def leave(self, deadline: Deadline) -> None:
        await self.close()
        if self._has_sent:
            await self._leave_group(deadline)

    async def close(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    # --- heartbeats ---------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        """Send heartbeats until this member has no topics, has not polled for too long, or meets a lasting error. Never
        two at a time: a join must not pass the request to leave of the same member id."""
        while self.topics and not self._is_silent():
            self._changed.clear()
            if self.topics != self._found:
                # A mistyped name would be waited for without a word.
                topics = self.topics
                await self._cluster.topics_of(topics, Deadline.after(self._settings.api_timeout_ms))
                self._found = topics
            try:
                deadline = Deadline.after(self._cluster.request_timeout_ms)
                await self._heartbeat(deadline)
                await self._resolve(deadline)
            except KafkaError as error:
                self._said = None
                if not error.retriable:
                    raise
                await asyncio.sleep(self._cluster.retry_backoff_ms / 1000)
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(self._interval_s):
                    await self._changed.wait()
        self._lose_assignment()
        # If the request is lost, the session times out at the coordinator.
        with suppress(KafkaError):
            await self._leave_group(Deadline.after(self._cluster.request_timeout_ms))

    async def _heartbeat(self, deadline: Deadline) -> None:
        topics = self.topics
        says_all = self._said is None or self._epoch == _JOINING_EPOCH
        request = ShareGroupHeartbeatRequest(
            group_id=self._settings.group_id,
            member_id=self._member_id,
            member_epoch=self._epoch,
            rack_id=self._settings.rack if says_all else None,
            subscribed_topic_names=topics if says_all or topics != self._said else None,
        )
        self._has_sent = True
        response = await self._cluster.ask_coordinator(
            CoordinatorKind.GROUP,
            self._settings.group_id,
            SHARE_GROUP_HEARTBEAT,
            request,
            deadline,
            lambda each: each.error_code,
        )
        if response.error_code in _FENCED:
            self._lose_assignment()
            return
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
            raise FatalError(response.error_message or "", code=ErrorCode.UNSUPPORTED_VERSION, hint=_DISABLED)
        raise_for(response.error_code, response.error_message or f"group {self._settings.group_id!r}")
        self._said = topics
        self._on_response(response)

    def _on_response(self, response: ShareGroupHeartbeatResponse) -> None:
        self._epoch = response.member_epoch
        self._interval_s = response.heartbeat_interval_ms / 1000
        if response.assignment is not None:
            self._received = {each.topic_id: each.partitions for each in response.assignment.topic_partitions}

    def _lose_assignment(self) -> None:
        self._epoch = _JOINING_EPOCH
        self._said = self._received = None
        self._interval_s = 0.0
        self._assign({})

    async def _resolve(self, deadline: Deadline) -> None:
        """Find the names of an assignment's topics; what has none yet is looked up again soon."""
        if self._received is None:
            return
        names = self._names()
        if not self._received.keys() <= names.keys():
            await self._cluster.refresh(self.topics, deadline)
            names = self._names()
        self._assign(
            {
                TopicPartition(names[topic_id], partition): topic_id
                for topic_id, partitions in self._received.items()
                if topic_id in names
                for partition in sorted(partitions)
            }
        )
        if self._received.keys() <= names.keys():
            self._received = None
        else:
            self._interval_s = self._cluster.retry_backoff_ms / 1000

    def _names(self) -> dict[uuid.UUID, str]:
        return {each.topic_id: each.name for each in self._cluster.metadata.topics.values()}

    def _assign(self, assignment: Mapping[TopicPartition, uuid.UUID]) -> None:
        if assignment != self.assignment:
            self.assignment = assignment
            self._on_assigned(assignment)

    # --- the end ------------------------------------------------------------------------------------------------------

    def _is_silent(self) -> bool:
        idle_s = asyncio.get_running_loop().time() - self.last_poll_s
        return not self.is_polling and idle_s > self._settings.max_poll_interval_ms / 1000

    async def _leave_group(self, deadline: Deadline) -> None:
        self._epoch = _JOINING_EPOCH
        request = ShareGroupHeartbeatRequest(
            group_id=self._settings.group_id, member_id=self._member_id, member_epoch=_LEAVING_EPOCH
        )
        await self._cluster.call_coordinator(
            CoordinatorKind.GROUP,
            self._settings.group_id,
            SHARE_GROUP_HEARTBEAT,
            request,
            deadline,
            lambda each: each.error_code,
        )
        self._has_sent = False
