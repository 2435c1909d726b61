"""Heartbeats of a member to which the coordinator assigns, of a consumer group (KIP-848) or a share group (KIP-932).

Owns: the member's epoch, the heartbeat task, what was last reported, the names of the topics in an assignment. Does not
own: the fields of a request and the effect of an assignment, which are a `Member`'s (`consumer_group`,
`sharing.membership`). Invariants
- Heartbeats never overlap: a join must not pass the request to leave of the same member id.
- A response that was lost may have changed the epoch or had an assignment, so the next heartbeat says everything, as
  the first one does.
- A fenced member has no assignment until it has joined again, with epoch 0.
- A member whose consumer has not polled for max.poll.interval.ms leaves; the next poll joins again.

As Kafka's AbstractMembershipManager and AbstractHeartbeatRequestManager.
"""

import asyncio
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from oncelog.client.groups.polling import Polling
from oncelog.client.values.errors import FatalError, KafkaError, RequestTimedOut, raise_for
from oncelog.client.values.records import TopicPartition
from oncelog.client.values.waiting import Deadline, resolve
from oncelog.client.wire.apis import Api
from oncelog.client.wire.cluster import Cluster, CoordinatorKind
from oncelog.protocol.errors import ErrorCode

JOINING_EPOCH = 0
LEAVING_EPOCH = -1
_FENCED = frozenset((ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID))

Report = tuple[Any, ...]
"""The report of a member when it changes: the partitions that it owns, or the topics that it wants."""


class Member(Protocol):
    """A member of one type of group."""

    def request(self, epoch: int, report: Report | None, *, says_all: bool) -> Any:
        """Return a heartbeat; `report` is None if the coordinator has it already."""
        ...

    def on_assignment(self, assignment: Mapping[TopicPartition, uuid.UUID]) -> None:
        """Take an assignment: all of its partitions whose topics have names, with the topics' ids."""
        ...

    def on_lost(self) -> bool:
        """Note that the assignment is lost: other members may have it now. Returns whether a fenced member joins again
        at once; otherwise `follow` has to be called again."""
        ...

    def on_ended(self) -> None:
        """Note that the heartbeats have ended: `follow` may raise."""
        ...


@dataclass(frozen=True, slots=True)
class HeartbeatSettings:
    api: Api[Any, Any]
    group_id: str
    max_poll_interval_ms: int
    api_timeout_ms: float
    """How long to look for the topics before the first heartbeat."""
    leaving_epoch: int = LEAVING_EPOCH
    disabled_hint: str = ""
    """The advice about a coordinator in which this type of group is switched off."""


class Heartbeats:
    def __init__(
        self, cluster: Cluster, settings: HeartbeatSettings, member: Member, topics: tuple[str, ...] | None
    ) -> None:
        self.topics = topics
        """The topics that the member wants; None if the coordinator chooses them. Without any, the member leaves."""
        self.epoch = JOINING_EPOCH
        self.polling = Polling(settings.max_poll_interval_ms)
        self._cluster = cluster
        self._settings = settings
        self._member = member
        self._has_sent = False
        self._found: tuple[str, ...] | None = None
        """The topics that were last known to exist."""
        self._report: Report = ()
        self._said: Report | None = None
        """The report last sent; None if the next heartbeat is to say everything."""
        self._received: Mapping[uuid.UUID, Sequence[int]] | None = None
        """An assignment some of whose topics have no names yet."""
        self._interval_s = 0.0
        self._wake = asyncio.Event()
        self._waiters: list[asyncio.Future[None]] = []
        """The futures that the next heartbeat resolves, if it is sent after their creation."""
        self._task: asyncio.Task[None] | None = None

    @property
    def is_member(self) -> bool:
        return self.epoch > JOINING_EPOCH

    @property
    def is_running(self) -> bool:
        return self._task is not None and not self._task.done()

    def follow(self) -> None:
        """Be a member while there are topics. Raises the error that ended the membership, once."""
        if self._task is not None and self._task.done():
            task, self._task = self._task, None
            task.result()
        if self._task is None and self.topics != ():
            self._task = asyncio.ensure_future(self._run())
            self._task.add_done_callback(self._on_ended)

    def report(self, report: Report) -> None:
        """Report this with a heartbeat that is sent at once."""
        self._report = report
        self._wake.set()

    async def beat(self, deadline: Deadline) -> None:
        """Send a heartbeat and wait until its response has been taken in. Raises RequestTimedOut."""
        if not self.is_running:
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        self._wake.set()
        await asyncio.wait((waiter,), timeout=deadline.remaining_s)
        if not waiter.done():
            raise RequestTimedOut("no response to a heartbeat")

    async def leave(self, deadline: Deadline) -> None:
        """End the heartbeats, and leave if one was sent."""
        await self.close()
        if self._has_sent:
            await self._leave_group(deadline)

    async def close(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _run(self) -> None:
        """Send heartbeats until this member is fenced and has to give up something first, wants no topics, has not
        polled for too long, or meets a lasting error."""
        while self.topics != () and not self.polling.is_silent:
            self._wake.clear()
            await self._find_topics()
            waiters, self._waiters = self._waiters, []
            try:
                deadline = Deadline.after(self._cluster.request_timeout_ms)
                joins_again = await self._heartbeat(deadline)
                await self._resolve(deadline)
            except KafkaError as error:
                self._said = None
                self._waiters += waiters
                if not error.retriable:
                    raise
                await asyncio.sleep(self._cluster.retry_backoff_ms / 1000)
                continue
            _resolve_all(waiters)
            if not joins_again:
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(self._interval_s):
                    await self._wake.wait()
        self._lose()
        # If the request is lost, the session times out at the coordinator.
        with suppress(KafkaError):
            await self._leave_group(Deadline.after(self._cluster.request_timeout_ms))

    async def _find_topics(self) -> None:
        # A mistyped name would be waited for without a word. A topic that is deleted later may come back.
        topics = self.topics
        if topics is not None and topics != self._found:
            await self._cluster.topics_of(topics, Deadline.after(self._settings.api_timeout_ms))
            self._found = topics

    async def _heartbeat(self, deadline: Deadline) -> bool:
        """Returns False if this member is fenced, and must not join again yet."""
        settings, report, said = self._settings, self._report, self._said
        request = self._member.request(self.epoch, None if report == said else report, says_all=said is None)
        self._has_sent = True
        response = await self._cluster.ask_coordinator(
            CoordinatorKind.GROUP, settings.group_id, settings.api, request, deadline, _error_of
        )
        if response.error_code in _FENCED:
            return self._lose()
        text = response.error_message or f"group {settings.group_id!r}"
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
            raise FatalError(text, code=ErrorCode.UNSUPPORTED_VERSION, hint=settings.disabled_hint)
        raise_for(response.error_code, text)
        self._said = report
        self.epoch = response.member_epoch
        self._interval_s = response.heartbeat_interval_ms / 1000
        if response.assignment is not None:
            self._received = {each.topic_id: each.partitions for each in response.assignment.topic_partitions}
        return True

    async def _resolve(self, deadline: Deadline) -> None:
        """Find the names of an assignment's topics; what has none yet is looked up again soon."""
        received = self._received
        if received is None:
            return
        names = self._names()
        if not received.keys() <= names.keys():
            await self._cluster.refresh(self.topics, deadline)
            names = self._names()
        if received.keys() <= names.keys():
            self._received = None
        else:
            self._interval_s = self._cluster.retry_backoff_ms / 1000
        self._member.on_assignment(
            {
                TopicPartition(names[topic_id], partition): topic_id
                for topic_id, partitions in received.items()
                if topic_id in names
                for partition in sorted(partitions)
            }
        )

    def _names(self) -> dict[uuid.UUID, str]:
        return {each.topic_id: each.name for each in self._cluster.metadata.topics.values()}

    def _lose(self) -> bool:
        self.epoch = JOINING_EPOCH
        self._said = self._received = None
        self._interval_s = 0.0
        return self._member.on_lost()

    async def _leave_group(self, deadline: Deadline) -> None:
        self.epoch = JOINING_EPOCH
        self._said = None
        settings = self._settings
        request = self._member.request(settings.leaving_epoch, None, says_all=False)
        await self._cluster.call_coordinator(
            CoordinatorKind.GROUP, settings.group_id, settings.api, request, deadline, _error_of
        )
        self._has_sent = False

    def _on_ended(self, _: "asyncio.Task[None]") -> None:
        waiters, self._waiters = self._waiters, []
        _resolve_all(waiters)
        self._member.on_ended()


def _error_of(response: Any) -> int:
    code: int = response.error_code
    return code


def _resolve_all(waiters: "Sequence[asyncio.Future[None]]") -> None:
    for waiter in waiters:
        resolve(waiter, None)
