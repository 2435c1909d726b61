"""An open consumer at work: what must be done before records can be returned, and returning them.

Owns: the turn of one poll; when to join and the effect of a new assignment. Does not own: fetching (`fetcher`),
membership (`groups`), positions, commits. Invariants: rebalances happen inside `poll`, never between; what is not done
by the end of a poll continues in the background, once, and the next poll waits for it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from oncelog.client.consuming.commits import Commits
from oncelog.client.consuming.fetcher import Fetcher
from oncelog.client.consuming.positions import Positions
from oncelog.client.groups.membership import GroupSettings, Membership, Rebalance
from oncelog.client.options.hooks import OnPartitions, on_closing, on_partitions
from oncelog.client.options.settings import ConsumerSettings
from oncelog.client.values.errors import CommitFailed, InvalidState, KafkaError
from oncelog.client.values.records import Record, TopicPartition
from oncelog.client.values.waiting import Deadline
from oncelog.client.wire.cluster import Cluster


class Reading:
    def __init__(self, cluster: Cluster, settings: ConsumerSettings, topics: Sequence[str]) -> None:
        self.fetcher = Fetcher(cluster, settings)
        self.group: Membership | None = None
        if settings.group_id is not None:
            self.group = _membership(cluster, settings, settings.group_id, topics, self.fetcher.notify)
        self.positions = Positions(cluster, self.group, self.fetcher, settings)
        self.commits = Commits(self.group, self.positions, settings)
        self.assignment_count = 0
        self._cluster = cluster
        self._settings = settings
        self._commits_first = settings.commit_before_return
        self._topics = topics
        self._is_polling = False
        self._is_closing = False
        self._has_read = False
        """True if the last `read_ahead` made progress."""
        self._next_error: KafkaError | None = None
        self._maintenance: asyncio.Task[None] | None = None

    async def open(self, deadline: Deadline) -> None:
        """Assign all partitions of the topics if there is no group. Raises UnknownTopic."""
        pattern = self._settings.pattern
        if self.group is not None or not (self._topics or pattern is not None):
            return
        names = self._topics if pattern is None else await self._cluster.matching(pattern, deadline)
        topics = await self._cluster.topics_of(names, deadline)
        partitions = [TopicPartition(topic.name, index) for topic in topics for index in range(topic.partition_count)]
        self.fetcher.assign(partitions, keep=False)

    async def leave(self, deadline: Deadline) -> None:
        """Leave in Java's order: commit with auto-commit, `on_revoke`, leave the group. Each is tried, whatever became
        of those before, until the deadline; what fails is not raised: the session times out at the coordinator, and
        uncommitted records are delivered again."""
        await self._stop_reading()
        try:
            await _within(deadline, self.commits.finish(deadline))
        finally:
            try:
                await _within(deadline, self._revoke_all())
            finally:
                if self.group is not None:
                    await _within(deadline, self.group.leave(deadline))

    async def _stop_reading(self) -> None:
        """Make a task that reads raise instead of waiting on."""
        self._is_closing = True
        self.fetcher.notify()
        if self._maintenance is not None:
            self._maintenance.cancel()
            await asyncio.gather(self._maintenance, return_exceptions=True)

    async def _revoke_all(self) -> None:
        """Call `on_revoke` for all partitions, and wait for what it commits in the background."""
        owned = list(self.fetcher.partitions)
        hook = self._hook(is_lost=self.group is not None and not self.group.is_member)
        if self.group is not None and self.group.subscribes and owned and hook is not None:
            await on_closing(hook, owned)
            await self.commits.settle()

    def _hook(self, *, is_lost: bool) -> OnPartitions | None:
        """Return the hook to call for partitions that are given up."""
        return (is_lost and self._settings.on_lost) or self._settings.on_revoke

    async def close(self) -> None:
        await self.commits.cancel()
        await self._stop_reading()
        if self.group is not None:
            await self.group.close()
        await self.fetcher.close()

    # --- records ------------------------------------------------------------------------------------------------------

    async def poll(self, timeout_ms: float, limit: int) -> list[Record]:
        self.positions.mark_processed()
        await self.read_ahead(timeout_ms, 1, limit)
        records = self.take_ahead(limit)
        return await self.before_return(records) if self._commits_first else records

    def take_ahead(self, limit: int) -> list[Record]:
        """Return the records read ahead, to return after `before_return`; none until everything that comes before is
        done."""
        return self.positions.take_ahead(limit) if self._maintenance is None else []

    async def before_return(self, records: list[Record]) -> list[Record]:
        """Return the records, committed first if so configured; nothing if the group rebalances: then they come
        again."""
        if not records or not self._commits_first:
            return records
        self._begin()
        try:
            return records if await self.commits.before_return(records) else []
        finally:
            self._end()

    async def read_ahead(self, timeout_ms: float, least: int, most: int) -> None:
        """Read until `least` records are ahead, and at most `most` if it reads any; fewer if a position moved past
        hidden batches, or the time is over."""
        fetcher, positions = self.fetcher, self.positions
        deadline = Deadline.after(timeout_ms)
        self._begin()
        try:
            if not self._has_read or positions.has_ahead:
                # What follows may end without suspending. A program that polls on and on with no timeout, or meets the
                # error of a record that was put back again and again, must not keep the loop from its work.
                await asyncio.sleep(0)
            self._has_read = False
            if self._next_error is not None and not positions.has_ahead:
                error, self._next_error = self._next_error, None
                raise error
            while True:
                if self._is_closing:
                    raise _closed()
                ready = await self._maintain(deadline)
                if ready:
                    ahead_count = positions.ahead_count
                    if ahead_count >= least:
                        return
                    records = fetcher.take(most - ahead_count)
                    if records or fetcher.has_moved:
                        positions.add_ahead(records)
                        self._has_read = True
                        return
                if deadline.expired:
                    return
                if ready:
                    await fetcher.wait(self._patience_s(deadline))
        finally:
            self._end()

    def _begin(self) -> None:
        if self._is_polling:
            raise InvalidState("another task is polling this consumer", hint="read in one task and pass the records on")
        if not (self._topics or self.fetcher.partitions or self._settings.pattern is not None):
            raise InvalidState("there is nothing to read", hint='Consumer("topic"), or assign([TopicPartition(...)])')
        self._is_polling = True
        if self.group is not None:
            self.group.polling.begin()

    def _end(self) -> None:
        self._is_polling = False
        if self.group is not None:
            self.group.polling.end()

    def raise_next(self, error: KafkaError) -> None:
        """Raise this error once nothing is ahead any more."""
        self._next_error = error

    def _patience_s(self, deadline: Deadline) -> float:
        auto_commit_s = self.commits.auto_commit_s
        return deadline.remaining_s if auto_commit_s is None else min(deadline.remaining_s, auto_commit_s)

    @property
    def is_settled(self) -> bool:
        """Whether the last poll did all that must be done before records can be returned."""
        return self._maintenance is None

    # --- what must be done before records can be returned -------------------------------------------------------------

    async def _maintain(self, deadline: Deadline) -> bool:
        """Follow the group, find positions, commit. False if that is not done by the deadline; it then continues in the
        background. A join is the group's: what is owned meanwhile can be read."""
        while True:
            if self._maintenance is None:
                self.commits.maybe_auto_commit()
                change = self._follow()
                if change is None and self.positions.are_known_where_led:
                    return True
                self._maintenance = asyncio.ensure_future(self._catch_up(change))
            task = self._maintenance
            done, _ = await asyncio.wait((task,), timeout=deadline.remaining_s)
            if not done:
                return False
            self._maintenance = None
            if self._is_closing:
                raise _closed()
            task.result()

    def _follow(self) -> Rebalance | None:
        return None if self.group is None else self.group.follow(list(self.fetcher.partitions))

    async def _catch_up(self, change: Rebalance | None) -> None:
        deadline = Deadline.after(self._settings.default_api_timeout_ms)
        while change is not None and self.group is not None:
            await self._apply(self.group, change, deadline)
            change = self._follow()
        try:
            await self.positions.find(deadline, waits_for_leaders=False)
        except CommitFailed as error:
            # This member is fenced, and will have to give up what it wanted to find.
            await deadline.pause(self._settings.retry_backoff_ms, "OFFSET_FETCH", error)

    async def _apply(self, group: Membership, change: Rebalance, deadline: Deadline) -> None:
        fetcher, settings = self.fetcher, self._settings
        revoked = [each for each in fetcher.partitions if each not in change.target]
        if revoked:
            if not change.is_lost:
                await self.commits.before_revocation(deadline)
            hook = self._hook(is_lost=change.is_lost)
            if hook is not None:
                await on_partitions(hook, revoked)
            self.positions.forget(revoked)
            fetcher.assign([each for each in fetcher.partitions if each in change.target], keep=True)
            group.on_revoked(list(fetcher.partitions))
        added = [each for each in change.target if each not in fetcher.partitions]
        if change.is_assignment:
            await self._cluster.partitions_of(added, deadline)
            fetcher.assign(change.target, keep=True)
            self.assignment_count += 1
            group.on_assigned(list(fetcher.partitions))
        if change.is_assignment and settings.on_assign is not None:
            await on_partitions(settings.on_assign, added)


def _closed() -> InvalidState:
    """Return the error for a task that reads while another one closes the consumer."""
    return InvalidState("the consumer is closed")


async def _within(deadline: Deadline, step: Awaitable[None]) -> None:
    """Run one step of a close; its failure stops no other step."""
    with suppress(TimeoutError, KafkaError):
        async with asyncio.timeout_at(deadline.at_s):
            await step


def _membership(
    cluster: Cluster,
    settings: ConsumerSettings,
    group_id: str,
    topics: Sequence[str],
    on_change: Callable[[], None],
) -> Membership:
    """Make the membership; its protocol is imported only here, since a command reads partitions without a group."""
    chosen = _group_settings(settings, group_id)
    if settings.group_protocol == "consumer":
        from oncelog.client.groups.consumer_group import ConsumerGroupMembership

        return ConsumerGroupMembership(cluster, chosen, topics, on_change)
    from oncelog.client.groups.classic import GroupMembership

    return GroupMembership(cluster, chosen, topics, on_change)


def _group_settings(settings: ConsumerSettings, group_id: str) -> GroupSettings:
    return GroupSettings(
        group_id=group_id,
        group_instance_id=settings.group_instance_id,
        assignors=tuple(settings.partition_assignment_strategy),
        session_timeout_ms=settings.session_timeout_ms,
        heartbeat_interval_ms=settings.heartbeat_interval_ms,
        max_poll_interval_ms=settings.max_poll_interval_ms,
        metadata_max_age_ms=settings.metadata_max_age_ms,
        api_timeout_ms=settings.default_api_timeout_ms,
        remote_assignor=settings.group_remote_assignor,
        pattern=settings.pattern,
        rack=settings.client_rack,
    )
