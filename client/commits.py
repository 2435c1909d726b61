"""The commits of a consumer: now, in the background, by the clock, or before records are returned.

Owns: which offsets are committed when. Does not own: the request (`group`), positions. Invariant: only offsets after
returned records are committed by themselves.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress

from oncelog.client.deadline import Deadline
from oncelog.client.errors import CommitFailed, KafkaError
from oncelog.client.hooks import after_commit
from oncelog.client.membership import Membership
from oncelog.client.positions import Positions
from oncelog.client.records import OffsetAndMetadata, Record, TopicPartition
from oncelog.client.settings import ConsumerSettings

OnCommit = Callable[[Mapping[TopicPartition, OffsetAndMetadata], KafkaError | None], None]


class Commits:
    def __init__(self, group: Membership | None, positions: Positions, settings: ConsumerSettings) -> None:
        self.auto_commit_s = settings.auto_commit_interval_ms / 1000 if settings.enable_auto_commit else None
        self._group = group
        self._positions = positions
        self._on_commit = settings.on_commit
        self._timeout_ms = settings.default_api_timeout_ms
        self._pending: set[asyncio.Task[None]] = set()
        self._next_auto_commit_s = asyncio.get_running_loop().time() + (self.auto_commit_s or 0)

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], deadline: Deadline) -> None:
        if offsets and self._group is not None:
            await self._group.commit(offsets, deadline)
            if self._on_commit is not None:
                after_commit(self._on_commit, offsets)

    def commit_soon(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], callback: OnCommit | None) -> None:
        task = asyncio.ensure_future(self._commit_quietly(offsets, callback))
        self._pending.add(task)
        task.add_done_callback(self._pending.discard)

    async def _commit_quietly(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], callback: OnCommit | None
    ) -> None:
        problem: KafkaError | None = None
        try:
            await self.commit(offsets, Deadline.after(self._timeout_ms))
        except KafkaError as error:
            problem = error
        if callback is not None:
            callback(offsets, problem)

    def maybe_auto_commit(self) -> None:
        """Every record returned before this call counts as processed."""
        if self.auto_commit_s is None or self._group is None:
            return
        now_s = asyncio.get_running_loop().time()
        if now_s >= self._next_auto_commit_s and not self._pending:
            self._next_auto_commit_s = now_s + self.auto_commit_s
            if self._group.is_member or not self._group.subscribes:
                self.commit_soon(self._positions.consumed(), None)

    async def before_revocation(self, deadline: Deadline) -> None:
        """A commit that is under way is not overtaken by the group's next generation; with auto-commit, one more."""
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
        if self._pending:
            await asyncio.gather(*self._pending, return_exceptions=True)
        if self.auto_commit_s is not None:
            await self.commit(self._positions.consumed(), deadline)

    async def cancel(self) -> None:
        tasks = list(self._pending)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
