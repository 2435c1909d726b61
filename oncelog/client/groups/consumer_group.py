"""Membership in a consumer group of KIP-848: heartbeats say what this member wants and has, the coordinator assigns.

Owns: member id and epoch, the heartbeat task, the assignment last received. Does not own: which offsets, the effect of
an assignment (`reading`). Invariants
- A partition is reported as owned until the consumer has given it up, inside a poll: so no other member gets it before.
- A fenced member gives up everything before it joins again, with epoch 0.
- A response that was lost may have changed the epoch, so the next heartbeat says everything, as the first one does.
- A member whose consumer has not polled for max.poll.interval.ms leaves.
"""

import asyncio
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress

from oncelog.client.groups.membership import GroupSettings, Rebalance, send_commit
from oncelog.client.values.errors import CommitFailed, KafkaError, RequestTimedOut, error_for, raise_for
from oncelog.client.values.records import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from oncelog.client.values.waiting import Deadline, resolve
from oncelog.client.wire.apis import Api
from oncelog.client.wire.cluster import Cluster, CoordinatorKind
from oncelog.client.wire.offsets import fetch_committed
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated import consumer_group_heartbeat_request, consumer_group_heartbeat_response
from oncelog.protocol.generated.consumer_group_heartbeat_request import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from oncelog.protocol.generated.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse

_HEARTBEAT = Api(
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    consumer_group_heartbeat_request.encode,
    consumer_group_heartbeat_response.decode,
    consumer_group_heartbeat_request.FLEXIBLE_FROM,
    1,
    1,
)
"""The heartbeat API; in version 0 the coordinator makes the member's id, so that a lost response leaves a member
behind."""
_JOINING_EPOCH = 0
_LEAVING_EPOCH = -1
_STATIC_LEAVING_EPOCH = -2
"""The epoch with which a static member leaves to come back: its partitions wait for it until its session times out."""
_FENCED = frozenset((ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID))


class ConsumerGroupMembership:
    def __init__(
        self, cluster: Cluster, settings: GroupSettings, topics: Sequence[str], on_change: Callable[[], None]
    ) -> None:
        self.subscribes = bool(topics) or settings.pattern is not None
        self.last_poll_s = asyncio.get_running_loop().time()
        self.is_polling = False
        self._cluster = cluster
        self._settings = settings
        self._on_change = on_change
        self._topics: tuple[str, ...] = tuple(sorted(topics))
        self._member_id = uuid.uuid4().hex
        self._epoch = _JOINING_EPOCH
        self._was_member = False
        self._has_sent = False
        self._names: dict[uuid.UUID, str] = {}
        self._assignment: Mapping[uuid.UUID, Sequence[int]] = {}
        """The assignment as received; `_pending` is the same with names, until it is applied."""
        self._is_unresolved = False
        """True while some topics of the assignment have no names yet."""
        self._pending: tuple[TopicPartition, ...] | None = None
        self._owned: tuple[TopicPartition, ...] = ()
        self._is_lost = False
        """True if other members may own by now what this one owned."""
        self._said: tuple[TopicPartition, ...] | None = None
        """The owned partitions last sent to the coordinator; None if the next heartbeat is to send everything."""
        self._interval_s = 0.0
        self._wake = asyncio.Event()
        self._waiters: list[asyncio.Future[None]] = []
        """The futures that the next heartbeat resolves, if it is sent after their creation."""
        self._task: asyncio.Task[None] | None = None

    def metadata(self) -> ConsumerGroupMetadata:
        settings = self._settings
        if not self._was_member:
            return ConsumerGroupMetadata(settings.group_id, group_instance_id=settings.group_instance_id)
        return ConsumerGroupMetadata(settings.group_id, self._epoch, self._member_id, settings.group_instance_id)

    @property
    def is_member(self) -> bool:
        return self._epoch > _JOINING_EPOCH

    def follow(self, owned: Sequence[TopicPartition]) -> Rebalance | None:
        if not self.subscribes:
            return None
        if owned and self._is_lost:
            return Rebalance((), is_lost=True, is_assignment=False)
        if self._task is None or self._task.done():
            task, self._task = self._task, None
            if task is not None:
                task.result()
            self._is_lost = False
            self._task = asyncio.ensure_future(self._run())
            self._task.add_done_callback(self._on_ended)
        return None if self._pending is None or self._is_lost else Rebalance(self._pending)

    def on_revoked(self, owned: Sequence[TopicPartition]) -> None:
        self._owned = tuple(sorted(owned))
        self._wake.set()

    def on_assigned(self, owned: Sequence[TopicPartition]) -> None:
        self._owned = tuple(sorted(owned))
        if self._pending == self._owned:
            self._pending = None
        self._wake.set()

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
        await self._heartbeat_now(deadline)
        self._current()

    async def leave(self, deadline: Deadline) -> None:
        """Leave now; a static member says that it comes back."""
        await self._stop()
        if self._has_sent:
            await self._leave_group(deadline)

    async def _leave_group(self, deadline: Deadline) -> None:
        epoch = _LEAVING_EPOCH if self._settings.group_instance_id is None else _STATIC_LEAVING_EPOCH
        self._epoch = _JOINING_EPOCH
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._settings.group_id,
            member_id=self._member_id,
            member_epoch=epoch,
            instance_id=self._settings.group_instance_id,
        )
        await self._cluster.call_coordinator(
            CoordinatorKind.GROUP,
            self._settings.group_id,
            _HEARTBEAT,
            request,
            deadline,
            lambda each: each.error_code,
        )
        self._has_sent = False

    async def close(self) -> None:
        await self._stop()

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
            await self._heartbeat_now(deadline)
            if self.is_member and self.metadata() != member:
                return
        if not error.retriable:
            raise error
        await deadline.pause(self._cluster.retry_backoff_ms, what, error)

    async def _heartbeat_now(self, deadline: Deadline) -> None:
        """Send a heartbeat and wait until its response has been taken in. Raises RequestTimedOut."""
        if self._task is None or self._task.done():
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        self._wake.set()
        await asyncio.wait((waiter,), timeout=deadline.remaining_s)
        if not waiter.done():
            raise RequestTimedOut("no response to a heartbeat")

    # --- heartbeats ---------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        """Send heartbeats until this member is fenced while it owns something, has left for its silence, or meets a
        lasting error. Never two at a time: a join must not pass the request to leave of the same member id."""
        if not self._was_member:
            # A mistyped name would be waited for without a word. A topic that is deleted later may come back.
            await self._cluster.topics_of(self._topics, Deadline.after(self._settings.api_timeout_ms))
        while not self._is_lost:
            if self._is_silent():
                await self._leave_for_silence()
                return
            self._wake.clear()
            waiters, self._waiters = self._waiters, []
            try:
                deadline = Deadline.after(self._cluster.request_timeout_ms)
                await self._heartbeat(deadline)
                await self._resolve(deadline)
            except KafkaError as error:
                self._said = None
                self._waiters += waiters
                if not error.retriable:
                    raise
                await asyncio.sleep(self._cluster.retry_backoff_ms / 1000)
                continue
            _resolve_all(waiters)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._interval_s):
                    await self._wake.wait()

    async def _heartbeat(self, deadline: Deadline) -> None:
        settings, owned = self._settings, self._owned
        says_all = self._said is None or self._epoch == _JOINING_EPOCH
        request = ConsumerGroupHeartbeatRequest(
            group_id=settings.group_id,
            member_id=self._member_id,
            member_epoch=self._epoch,
            instance_id=settings.group_instance_id,
            rebalance_timeout_ms=settings.max_poll_interval_ms if says_all else -1,
            rack_id=settings.rack if says_all else None,
            subscribed_topic_names=self._topics if says_all else None,
            subscribed_topic_regex=settings.pattern if says_all else None,
            server_assignor=settings.remote_assignor if says_all else None,
            topic_partitions=self._by_id(owned) if says_all or owned != self._said else None,
        )
        self._has_sent = True
        response = await self._cluster.ask_coordinator(
            CoordinatorKind.GROUP,
            settings.group_id,
            _HEARTBEAT,
            request,
            deadline,
            lambda each: each.error_code,
        )
        if response.error_code in _FENCED:
            self._on_fenced()
            return
        raise_for(response.error_code, response.error_message or f"group {settings.group_id!r}")
        self._said = owned
        self._on_response(response)

    def _on_response(self, response: ConsumerGroupHeartbeatResponse) -> None:
        self._epoch = response.member_epoch
        self._interval_s = response.heartbeat_interval_ms / 1000
        if response.assignment is not None:
            self._assignment = {each.topic_id: each.partitions for each in response.assignment.topic_partitions}
            self._pending = None
            self._is_unresolved = True

    def _on_fenced(self) -> None:
        self._epoch = _JOINING_EPOCH
        self._said = self._pending = None
        self._interval_s = 0.0
        self._is_lost = bool(self._owned)

    async def _resolve(self, deadline: Deadline) -> None:
        """Find the names of an assignment's topics; what has none yet is looked up again soon."""
        if not self._is_unresolved or self._is_lost:
            return
        if not self._assignment.keys() <= self._names.keys():
            # What a pattern matches, the coordinator alone knows: it evaluates it (RE2).
            await self._cluster.refresh(self._topics if self._settings.pattern is None else None, deadline)
            self._names |= {each.topic_id: each.name for each in self._cluster.metadata.topics.values()}
        target = tuple(
            sorted(
                TopicPartition(self._names[topic_id], partition)
                for topic_id, partitions in self._assignment.items()
                if topic_id in self._names
                for partition in partitions
            )
        )
        self._is_unresolved = not self._assignment.keys() <= self._names.keys()
        if self._is_unresolved:
            self._interval_s = self._cluster.retry_backoff_ms / 1000
        if target != self._owned or not self._was_member:
            self._pending = target
            self._on_change()
        self._was_member = True

    def _by_id(self, partitions: Sequence[TopicPartition]) -> list[TopicPartitions]:
        ids = {self._names[topic_id]: topic_id for topic_id in self._assignment if topic_id in self._names}
        ids = {name: topic_id for topic_id, name in self._names.items()} | ids
        found: dict[uuid.UUID, list[int]] = {}
        for topic, partition in partitions:
            found.setdefault(ids[topic], []).append(partition)
        return [TopicPartitions(topic_id, numbers) for topic_id, numbers in found.items()]

    # --- the end ------------------------------------------------------------------------------------------------------

    def _is_silent(self) -> bool:
        idle_s = asyncio.get_running_loop().time() - self.last_poll_s
        return not self.is_polling and idle_s > self._settings.max_poll_interval_ms / 1000

    async def _leave_for_silence(self) -> None:
        # A poll that begins while the request is under way gives up what is owned.
        self._on_fenced()
        # If the request is lost, the session times out at the coordinator.
        with suppress(KafkaError):
            await self._leave_group(Deadline.after(self._cluster.request_timeout_ms))

    def _on_ended(self, task: "asyncio.Task[None]") -> None:
        waiters, self._waiters = self._waiters, []
        _resolve_all(waiters)
        self._on_change()

    async def _stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def _resolve_all(waiters: "Sequence[asyncio.Future[None]]") -> None:
    for waiter in waiters:
        resolve(waiter, None)
