"""The commits of a consumer: now, in the background, by the clock, or before records are returned.

Owns: which offsets are committed when, and in which order. Does not own: the request (`groups`), positions. Invariants:
only offsets after returned records are committed by themselves; a commit is sent when those that were asked for before
it are done, so that an earlier offset never overwrites a later one; at most one request waits beside the one under way,
and it holds the newest offsets of all that came meanwhile; each callback is called once, at the latest by the close.
"""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from oncelog.client.consuming.positions import Positions
from oncelog.client.groups.membership import Membership
from oncelog.client.options.hooks import OnCommit, after_commit, call_back
from oncelog.client.options.settings import ConsumerSettings
from oncelog.client.values.errors import CommitFailed, KafkaError, RequestTimedOut
from oncelog.client.values.records import OffsetAndMetadata, Record, TopicPartition
from oncelog.client.values.waiting import Deadline

_log = logging.getLogger("oncelog.client")


@dataclass(frozen=True, slots=True)
class _Waiting:
    """Commits that wait for the one under way."""

    offsets: dict[TopicPartition, OffsetAndMetadata]
    callbacks: list[tuple[Mapping[TopicPartition, OffsetAndMetadata], OnCommit | None]]


class Commits:
    def __init__(self, group: Membership | None, positions: Positions, settings: ConsumerSettings) -> None:
        self.auto_commit_s = settings.auto_commit_interval_ms / 1000 if settings.enable_auto_commit else None
        self._group = group
        self._positions = positions
        self._on_commit = settings.on_commit
        self._timeout_ms = settings.default_api_timeout_ms
        self._pending: list[asyncio.Task[KafkaError | None]] = []
        self._waiting: _Waiting | None = None
        self._order = asyncio.Lock()
        """A turnstile that one commit at a time holds; waiters get it in the order in which they came."""
        self._next_auto_commit_s = asyncio.get_running_loop().time() + (self.auto_commit_s or 0)

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], deadline: Deadline) -> None:
        """Commit once all commits requested before are done. Raises RequestTimedOut if they take too long."""
        # What is asked for later is not committed together with what was asked for before.
        self._waiting = None
        try:
            async with asyncio.timeout_at(deadline.at_s):
                await self._order.acquire()
        except TimeoutError:
            raise RequestTimedOut("an earlier commit is still without a response") from None
        try:
            await self._send(offsets, deadline)
        finally:
            self._order.release()

    def commit_soon(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], callback: OnCommit | None) -> None:
        """Commit in the background, after all commits requested before; waiting ones are sent as one."""
        if self._waiting is None:
            waiting = self._waiting = _Waiting({}, [])
            task = asyncio.ensure_future(self._commit_waiting(waiting))
            self._pending.append(task)
            task.add_done_callback(lambda ended: self._on_ended(waiting, ended))
        self._waiting.offsets.update(offsets)
        self._waiting.callbacks.append((offsets, callback))

    async def _commit_waiting(self, waiting: "_Waiting") -> KafkaError | None:
        async with self._order:
            if self._waiting is waiting:
                self._waiting = None
            try:
                await self._send(waiting.offsets, Deadline.after(self._timeout_ms))
            except KafkaError as error:
                return error
        return None

    def _on_ended(self, waiting: "_Waiting", task: "asyncio.Task[KafkaError | None]") -> None:
        """Forget a commit that ended. It is a done callback, since a task that is cancelled before its first turn runs
        none of its code."""
        self._pending.remove(task)
        if self._waiting is waiting:
            self._waiting = None
        if task.cancelled():
            problem: KafkaError | None = RequestTimedOut("the consumer was closed before the commit got a response")
        else:
            problem = task.result()
        for offsets, callback in waiting.callbacks:
            if callback is not None:
                call_back(callback, offsets, problem)
        if problem is not None and any(callback is None for _, callback in waiting.callbacks):
            _log_failure(problem)

    async def _send(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], deadline: Deadline) -> None:
        if offsets and self._group is not None:
            await self._group.commit(offsets, deadline)
            if self._on_commit is not None:
                after_commit(self._on_commit, offsets)

    def maybe_auto_commit(self) -> None:
        """Start the auto-commit that is due; every record returned before this call counts as processed."""
        if self.auto_commit_s is None or self._group is None:
            return
        now_s = asyncio.get_running_loop().time()
        if now_s >= self._next_auto_commit_s and not self._pending:
            self._next_auto_commit_s = now_s + self.auto_commit_s
            if self._group.is_member or not self._group.subscribes:
                self.commit_soon(self._positions.consumed(), None)

    async def before_revocation(self, deadline: Deadline) -> None:
        """Wait for the commit under way, so that the group's next generation does not overtake it; with auto-commit,
        commit once more."""
        if self._pending:
            await asyncio.wait(self._pending, timeout=deadline.remaining_s)
        if self.auto_commit_s is not None and self._group is not None and self._group.is_member:
            # An error means that another member owns the partitions: it will read what was not committed.
            with suppress(KafkaError):
                await self.commit(self._positions.consumed(), deadline)

    async def before_return(self, records: list[Record]) -> bool:
        """Commit what is about to be returned; False if the group rebalances. Without a commit nothing is
        returned, and the positions are those of before."""
        try:
            await self.commit(self._positions.consumed(), Deadline.after(self._timeout_ms))
        except (KafkaError, asyncio.CancelledError) as error:
            self._positions.rewind(records)
            if isinstance(error, CommitFailed):
                return False
            raise
        return True

    async def finish(self, deadline: Deadline) -> None:
        """Wait for pending commits; with auto-commit, commit the last positions."""
        await self.settle()
        if self.auto_commit_s is not None:
            try:
                await self.commit(self._positions.consumed(), deadline)
            except KafkaError as error:
                _log_failure(error)

    async def settle(self) -> None:
        """Wait for pending commits."""
        if self._pending:
            await asyncio.gather(*self._pending, return_exceptions=True)

    async def cancel(self) -> None:
        tasks = list(self._pending)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _log_failure(error: KafkaError) -> None:
    """Log the failure of a background commit."""
    _log.warning("offsets were not committed: %s", error)
