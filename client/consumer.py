"""The consumer: returns records in offset order per partition, with positions, commits and groups.

Owns: settings, the iterator, positions of returned records, when to commit and to join. Does not own: fetching
(`fetcher`), membership (`group`), isolation (`isolation`). Invariants: a position never covers a record that was not
returned; rebalances happen inside poll() or the iterator, never between; close() always returns.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self, Unpack

from oncelog.client.cluster import Cluster
from oncelog.client.deadline import Deadline
from oncelog.client.errors import CommitFailed, ConfigError, InvalidState, KafkaError, NoOffsetForPartition
from oncelog.client.fetcher import Fetcher, FetchSettings, PartitionState
from oncelog.client.group import GroupMembership, GroupSettings
from oncelog.client.offsets import EARLIEST, LATEST, fetch_committed, list_offsets
from oncelog.client.raw_batches import RawBatch, iter_raw_batches
from oncelog.client.records import (
    ConsumerGroupMetadata,
    ConsumerRecords,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    Offsets,
    Record,
    TopicPartition,
    as_offset,
)
from oncelog.client.settings import ConsumerOptions, ConsumerSettings

_ITERATOR_POLL_MS = 60_000
OnCommit = Callable[[Mapping[TopicPartition, OffsetAndMetadata], KafkaError | None], None]
_RESETS = {"earliest": EARLIEST, "latest": LATEST}


class Consumer:
    """Reads records, alone or in a consumer group; only committed ones unless isolation_level="read_uncommitted".

        async with Consumer("topic", bootstrap_servers="host:9092", group_id="readers") as consumer:
            async for record in consumer:
                ...
                await consumer.commit_sync()

    With a group id and topics it joins the group; with topics alone it reads all their partitions; without topics,
    `assign` sets the partitions. `ConsumerSettings` lists the options; bad ones raise ConfigError at once.

    Entering the block raises ConnectionLost if nothing accepts a connection for `bootstrap_timeout_ms`, RequestTimedOut
    if no broker responds, and UnknownTopic (in a group, the first poll does). Unlike Java's it creates no topic by
    asking for it. Every method raises InvalidState outside the block, and for partitions that are not assigned. One
    task at a time may read.
    """

    def __init__(self, *topics: str, **options: Unpack[ConsumerOptions]) -> None:
        settings = self._settings = ConsumerSettings(**options)
        if topics and settings.pattern is not None:
            raise ConfigError("topics and pattern exclude each other")
        self._topics = topics
        self._group_id = settings.group_id
        self._isolation = settings.isolation_level
        self._api_timeout_ms = settings.default_api_timeout_ms
        self._auto_commit_s = settings.auto_commit_interval_ms / 1000 if settings.enable_auto_commit else None
        self._cluster = Cluster(
            settings.bootstrap_servers,
            client_id=settings.client_id,
            request_timeout_ms=settings.request_timeout_ms,
            retry_backoff_ms=settings.retry_backoff_ms,
        )
        self._fetcher: Fetcher | None = None
        self._group: GroupMembership | None = None
        self._maintenance: asyncio.Task[None] | None = None
        self._commits: set[asyncio.Task[None]] = set()
        self._next_auto_commit_s = 0.0
        self._is_polling = False
        self._assignment_count = 0
        self._ahead: list[Record] = []
        """Fetched for the iterator, returned up to `_ahead_index`."""
        self._ahead_index = 0
        self._closed = False

    # --- life ---------------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        if self._fetcher is not None or self._closed:
            raise InvalidState("a consumer can be opened only once")
        deadline = Deadline.after(self._api_timeout_ms)
        await self._cluster.bootstrap(deadline, self._settings.bootstrap_timeout_ms)
        fetcher = self._fetcher = Fetcher(self._cluster, _fetch_settings(self._settings))
        if self._group_id is not None:
            self._group = GroupMembership(self._cluster, _group_settings(self._settings, self._group_id), self._topics)
            self._group.on_rejoin_needed = fetcher.notify
        elif self._topics or self._settings.pattern is not None:
            pattern = self._settings.pattern
            partitions = []
            for name in self._topics if pattern is None else await self._cluster.matching(pattern, deadline):
                topic = await self._cluster.topic(name, deadline)
                partitions += [TopicPartition(name, index) for index in range(topic.partition_count)]
            fetcher.assign(partitions, keep=False)
        if self._auto_commit_s is not None:
            self._next_auto_commit_s = asyncio.get_running_loop().time() + self._auto_commit_s
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self, timeout_ms: float = 10_000) -> None:
        """Commit if auto-commit is on, leave the group and disconnect, within `timeout_ms`; never raises. Leaving the
        `async with` block calls it."""
        if self._closed:
            return
        self._closed = True
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._leave(Deadline.after(timeout_ms))
        except (TimeoutError, KafkaError):
            # The session times out at the coordinator; uncommitted records are delivered again.
            pass
        finally:
            tasks = [*self._commits, *([self._maintenance] if self._maintenance is not None else [])]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if self._group is not None:
                await self._group.close()
            if self._fetcher is not None:
                await self._fetcher.close()
            await self._cluster.close()

    async def _leave(self, deadline: Deadline) -> None:
        if self._maintenance is not None:
            self._maintenance.cancel()
            await asyncio.gather(self._maintenance, return_exceptions=True)
        if self._commits:
            await asyncio.gather(*self._commits, return_exceptions=True)
        if self._group is None or self._fetcher is None:
            return
        try:
            if self._auto_commit_s is not None:
                await self._commit(self._consumed(), deadline)
        finally:
            await self._group.leave(deadline)

    # --- records ------------------------------------------------------------------------------------------------------

    async def poll(self, timeout_ms: float = 0, max_records: int | None = None) -> list[Record]:
        """Return available records, at most `max_records` (default: max.poll.records); wait up to `timeout_ms` for the
        first.

            for record in await consumer.poll(timeout_ms=1000):
                print(record.topic, record.partition, record.offset, record.value)

        May return an empty list early, when a position moved past markers or aborted records only. Rebalances,
        on_assign and on_revoke run inside it. Raises NoOffsetForPartition with auto_offset_reset="error", CorruptBatch,
        InvalidState if another task is polling, and FatalError if the group rejects this member.
        """
        fetcher = self._require_open()
        limit = self._settings.max_poll_records if max_records is None else max_records
        if self._ahead_index < len(self._ahead):
            return self._take_ahead(limit)
        if self._is_polling:
            raise InvalidState("another task is polling this consumer", hint="read in one task and pass the records on")
        deadline = Deadline.after(timeout_ms)
        group = self._group
        self._is_polling = True
        if group is not None:
            group.is_polling = True
        try:
            while True:
                ready = await self._maintain(fetcher, deadline)
                records = fetcher.take(limit) if ready else []
                if records and self._settings.commit_before_return and not await self._committed_before(records):
                    continue
                if records or (ready and fetcher.has_moved) or deadline.expired:
                    return records
                if ready:
                    await fetcher.wait(self._patience_s(deadline))
        finally:
            self._is_polling = False
            if group is not None:
                group.is_polling = False
                group.last_poll_s = asyncio.get_running_loop().time()

    async def __aiter__(self) -> AsyncIterator[Record]:
        """`async for record in consumer`: endless; a record counts as consumed when it is returned. Raises as
        `poll`."""
        while True:
            # Attributes are read each time: a rebalance or a seek between two records replaces the buffered ones.
            while self._ahead_index < len(self._ahead):
                record = self._ahead[self._ahead_index]
                self._ahead_index += 1
                yield record
            self._ahead, self._ahead_index = [], 0
            self._ahead = await self.poll(_ITERATOR_POLL_MS)

    async def batches(
        self, *, max_records: int | None = None, max_wait_ms: float = 0
    ) -> AsyncIterator[ConsumerRecords]:
        """Endless: what is available, at least one record and at most `max_records` (default: max.poll.records); waits
        `max_wait_ms` for a batch to fill.

            async for batch in consumer.batches():
                await store(batch)
                await consumer.commit_sync(batch.next_offsets)

        Raises as `poll`, and ConfigError for `max_wait_ms` with auto-commit, which would commit what waits here.
        """
        while True:
            yield await self.next_batch(max_records=max_records, max_wait_ms=max_wait_ms)

    async def next_batch(self, *, max_records: int | None = None, max_wait_ms: float = 0) -> ConsumerRecords:
        """One of `batches`, with its errors; waits as long as it takes."""
        if max_wait_ms and self._auto_commit_s is not None:
            raise ConfigError("max_wait_ms and enable_auto_commit exclude each other", hint="commit batch.next_offsets")
        limit = self._settings.max_poll_records if max_records is None else max_records
        records: list[Record] = []
        while not records:
            records = await self.poll(_ITERATOR_POLL_MS, limit)
            assigned = self._assignment_count
            fill = Deadline.after(max_wait_ms)
            while records and len(records) < limit and not fill.expired:
                more = await self.poll(fill.remaining_s * 1000, limit - len(records))
                if assigned != self._assignment_count:
                    # Whoever has these partitions now, perhaps this member, reads them from the committed offsets on.
                    records, assigned = [], self._assignment_count
                records += more
        return ConsumerRecords(records, self._consumed())

    @property
    def assignment_count(self) -> int:
        """How often the group has assigned partitions to this member."""
        return self._assignment_count

    async def _committed_before(self, records: list[Record]) -> bool:
        """Commit what is about to be returned; False if the group has given the partitions away. Without an answer
        nothing is returned, and the positions are those of before."""
        try:
            await self._commit(self._consumed(), Deadline.after(self._api_timeout_ms))
        except CommitFailed:
            return False
        except (KafkaError, asyncio.CancelledError):
            for record in reversed(records):
                state = self._require_opened().partitions.get(record.topic_partition)
                if state is not None:
                    state.seek(record.offset)
            raise
        return True

    def _take_ahead(self, limit: int) -> list[Record]:
        start = self._ahead_index
        self._ahead_index = min(len(self._ahead), start + limit)
        return self._ahead[start : self._ahead_index]

    def _patience_s(self, deadline: Deadline) -> float:
        if self._auto_commit_s is None:
            return deadline.remaining_s
        return min(deadline.remaining_s, self._auto_commit_s)

    # --- what must be done before records can be returned -------------------------------------------------------------

    async def _maintain(self, fetcher: Fetcher, deadline: Deadline) -> bool:
        """Join, find positions, commit. False if that is not done by the deadline; it then continues in the
        background."""
        task = self._maintenance
        if task is None:
            self._maybe_auto_commit()
            needs_join = self._group is not None and self._group.needs_join
            needs_positions = any(each.position < 0 or each.out_of_range for each in fetcher.partitions.values())
            if not needs_join and not needs_positions:
                return True
            task = self._maintenance = asyncio.ensure_future(self._catch_up(fetcher))
        done, _ = await asyncio.wait((task,), timeout=deadline.remaining_s)
        if not done:
            return False
        self._maintenance = None
        task.result()
        return True

    async def _catch_up(self, fetcher: Fetcher) -> None:
        deadline = Deadline.after(self._api_timeout_ms)
        group = self._group
        if group is not None and group.needs_join:
            if not group.was_member:
                # A mistyped name would be waited for without a word. A topic that is deleted later may come back.
                for name in self._topics:
                    await self._cluster.topic(name, deadline)
            # A join waits for the other members, whose own work has max.poll.interval.ms.
            await self._rejoin(group, fetcher, Deadline.after(self._settings.max_poll_interval_ms + 5000))
        await self._find_positions(fetcher, deadline)

    async def _rejoin(self, group: GroupMembership, fetcher: Fetcher, deadline: Deadline) -> None:
        revoked = list(fetcher.partitions)
        if revoked:
            if self._auto_commit_s is not None and group.is_member:
                # An error means that another member owns the partitions: it will read what was not committed.
                with suppress(KafkaError):
                    await self._commit(self._consumed(), deadline)
            if self._settings.on_revoke is not None:
                await self._settings.on_revoke(revoked)
        self._ahead, self._ahead_index = [], 0
        fetcher.assign((), keep=False)
        assigned = await group.join(deadline)
        for name in {each.topic for each in assigned}:
            await self._cluster.topic(name, deadline)
        fetcher.assign(assigned, keep=False)
        self._assignment_count += 1
        if self._settings.on_assign is not None:
            await self._settings.on_assign(assigned)

    async def _find_positions(self, fetcher: Fetcher, deadline: Deadline) -> None:
        """The group's committed offset, or else what auto.offset.reset selects."""
        states = fetcher.partitions
        missing = [each for each, state in states.items() if state.position < 0]
        if missing and self._group_id is not None:
            committed = await fetch_committed(
                self._cluster,
                self._group_id,
                missing,
                deadline,
                require_stable=self._settings.reads_committed,
            )
            for topic_partition, offset in committed.items():
                state = states.get(topic_partition)
                if state is not None and state.position < 0:
                    state.seek(offset.offset)
        lost = [each for each, state in states.items() if state.position < 0 or state.out_of_range]
        if lost:
            reset = _RESETS.get(self._settings.auto_offset_reset)
            if reset is None:
                raise NoOffsetForPartition(f"no valid offset for {lost[0].topic}-{lost[0].partition}")
            before = {each: states[each].position for each in lost}
            found = await list_offsets(self._cluster, dict.fromkeys(lost, reset), self._isolation, deadline)
            for topic_partition, where in found.items():
                state = states.get(topic_partition)
                if state is not None and state.position == before[topic_partition]:
                    state.seek(where.offset)
        fetcher.wake()

    # --- assignment and positions -------------------------------------------------------------------------------------

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions, without a group assignment; those already read keep their positions.

            consumer.assign([TopicPartition("topic", 0)])

        Raises InvalidState if the group assigns the partitions (a group id together with topics).
        """
        fetcher = self._require_open()
        if self._group is not None and self._group.subscribes:
            raise InvalidState("the group assigns the partitions: leave out the topics to assign them yourself")
        self._drop_ahead(None)
        fetcher.assign(partitions, keep=True)

    def assignment(self) -> list[TopicPartition]:
        """The partitions this consumer reads now, sorted."""
        return sorted(self._require_open().partitions)

    def seek(self, topic_partition: TopicPartition, offset: int) -> None:
        """Move to `offset`: the next record returned from this partition is the one there, or the first after it.
        Raises ConfigError for a negative offset and InvalidState for a partition that is not assigned."""
        if offset < 0:
            raise ConfigError(f"offset {offset} is negative", hint="seek_to_beginning() or seek_to_end()")
        state = self._state(topic_partition)
        self._drop_ahead(topic_partition)
        state.seek(offset)
        self._require_open().wake()

    async def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Move to the first offset of these partitions (default: all assigned). Raises RequestTimedOut."""
        await self._seek_to(EARLIEST, partitions)

    async def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Move to the end of these partitions (default: all assigned): the last stable offset at read_committed,
        otherwise the high watermark. Raises RequestTimedOut."""
        await self._seek_to(LATEST, partitions)

    async def _seek_to(self, where: int, partitions: Sequence[TopicPartition]) -> None:
        chosen = partitions or self.assignment()
        for topic_partition, found in (await self._list_offsets(dict.fromkeys(chosen, where))).items():
            self.seek(topic_partition, found.offset)

    async def position(self, topic_partition: TopicPartition) -> int:
        """The offset of the next record to be returned. Raises RequestTimedOut, and NoOffsetForPartition if there is
        none."""
        fetcher = self._require_open()
        state = self._state(topic_partition)
        if state.position < 0:
            await self._find_positions(fetcher, Deadline.after(self._api_timeout_ms))
        return self._next_offset(state)

    def pause(self, *partitions: TopicPartition) -> None:
        """Return no records from these partitions until `resume`; they stay assigned."""
        for each in partitions:
            self._state(each).paused = True

    def resume(self, *partitions: TopicPartition) -> None:
        """Return records from these paused partitions again."""
        for each in partitions:
            self._state(each).paused = False
        self._require_open().wake()

    async def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offset of each partition. Raises RequestTimedOut."""
        found = await self._list_offsets(dict.fromkeys(partitions, EARLIEST))
        return {each: where.offset for each, where in found.items()}

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """How far this consumer may read: the last stable offset at read_committed, otherwise the high watermark.
        Raises RequestTimedOut."""
        found = await self._list_offsets(dict.fromkeys(partitions, LATEST))
        return {each: where.offset for each, where in found.items()}

    async def offsets_for_times(
        self, times_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """The first record at or after each time (milliseconds since the epoch); offset -1 if there is none. Raises
        RequestTimedOut."""
        return await self._list_offsets(times_ms)

    async def partitions_for(self, topic: str) -> list[TopicPartition]:
        """All partitions of the topic. Raises RequestTimedOut and UnknownTopic."""
        self._require_open()
        known = await self._cluster.topic(topic, Deadline.after(self._api_timeout_ms))
        return [TopicPartition(topic, index) for index in range(known.partition_count)]

    def raw_batches(self, topic_partition: TopicPartition, offset: int = 0) -> AsyncIterator[RawBatch]:
        """Every batch from `offset` to the high watermark, control and aborted batches included, with its fate.

            async for batch in consumer.raw_batches(TopicPartition("topic", 0)):
                print(batch.header.base_offset, batch.fate)

        Raises RequestTimedOut and the partition's error.
        """
        self._require_open()
        return iter_raw_batches(self._cluster, topic_partition, offset, self._api_timeout_ms)

    async def _list_offsets(self, timestamps: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAndTimestamp]:
        self._require_open()
        return await list_offsets(self._cluster, timestamps, self._isolation, Deadline.after(self._api_timeout_ms))

    def _state(self, topic_partition: TopicPartition) -> PartitionState:
        state = self._require_open().partitions.get(topic_partition)
        if state is None:
            raise InvalidState(f"{topic_partition.topic}-{topic_partition.partition} is not assigned to this consumer")
        return state

    def _next_offset(self, state: PartitionState) -> int:
        """Records buffered for the iterator are not consumed yet."""
        for record in self._ahead[self._ahead_index :]:
            if record.partition == state.topic_partition.partition and record.topic == state.topic_partition.topic:
                return record.offset
        return state.position

    def _drop_ahead(self, topic_partition: TopicPartition | None) -> None:
        left = self._ahead[self._ahead_index :]
        if topic_partition is None:
            for state in self._require_open().partitions.values():
                if state.position >= 0:
                    state.seek(self._next_offset(state))
            left = []
        self._ahead = [each for each in left if each[:2] != topic_partition]
        self._ahead_index = 0

    # --- commits ------------------------------------------------------------------------------------------------------

    async def commit_sync(self, offsets: Offsets | None = None) -> None:
        """Commit these offsets, or the positions after all returned records, and wait for the response.

            await consumer.commit_sync({TopicPartition("topic", 0): 42})     # 42 is the next offset to read

        Raises CommitFailed if the group has reassigned the partitions, ConfigError without a group id, RequestTimedOut.
        """
        await self._commit(self._to_commit(offsets), Deadline.after(self._api_timeout_ms))

    def commit_async(self, offsets: Offsets | None = None, callback: OnCommit | None = None) -> None:
        """Commit without waiting; `callback(offsets, error)` is called with the outcome, `error` None on success.
        Raises ConfigError without a group id."""
        chosen = self._to_commit(offsets)
        task = asyncio.ensure_future(self._commit_quietly(chosen, callback))
        self._commits.add(task)
        task.add_done_callback(self._commits.discard)

    async def committed(self, *partitions: TopicPartition) -> dict[TopicPartition, OffsetAndMetadata]:
        """The group's committed offsets of these partitions (default: all assigned); partitions without one are left
        out. Raises ConfigError without a group id, RequestTimedOut."""
        self._require_open()
        group_id = self._required_group().group_id
        return await fetch_committed(
            self._cluster,
            group_id,
            partitions or self.assignment(),
            Deadline.after(self._api_timeout_ms),
            require_stable=self._settings.reads_committed,
        )

    def group_metadata(self) -> ConsumerGroupMetadata:
        """This consumer's group, generation and member id, for Transaction.send_offsets (KIP-447). Raises ConfigError
        without a group id."""
        if self._group is None:
            return self._required_group()
        return self._group.metadata()

    async def heartbeat(self) -> None:
        """Ask the group's coordinator now whether this member still has its partitions; a rebalance that has begun
        leaves them until the next poll. Raises CommitFailed if it has not, RequestTimedOut, ConfigError without a group
        id."""
        self._require_open()
        self._required_group()
        if self._group is not None:
            await self._group.check_membership(Deadline.after(self._api_timeout_ms))

    def _required_group(self) -> ConsumerGroupMetadata:
        if self._group_id is None:
            raise ConfigError("this consumer has no group_id")
        return ConsumerGroupMetadata(self._group_id)

    def _consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        states = self._require_opened().partitions.values()
        return {
            state.topic_partition: OffsetAndMetadata(self._next_offset(state))
            for state in states
            if state.position >= 0
        }

    def _to_commit(self, offsets: Offsets | None) -> Mapping[TopicPartition, OffsetAndMetadata]:
        self._require_open()
        self._required_group()
        if offsets is None:
            return self._consumed()
        return {each: as_offset(offset) for each, offset in offsets.items()}

    async def _commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], deadline: Deadline) -> None:
        if offsets and self._group is not None:
            await self._group.commit(offsets, deadline)

    async def _commit_quietly(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], callback: OnCommit | None
    ) -> None:
        problem: KafkaError | None = None
        try:
            await self._commit(offsets, Deadline.after(self._api_timeout_ms))
        except KafkaError as error:
            problem = error
        if callback is not None:
            callback(offsets, problem)

    def _maybe_auto_commit(self) -> None:
        """Every record returned before this call counts as processed."""
        if self._auto_commit_s is None or self._group is None:
            return
        now_s = asyncio.get_running_loop().time()
        if now_s >= self._next_auto_commit_s and not self._commits:
            self._next_auto_commit_s = now_s + self._auto_commit_s
            if self._group.is_member or not self._group.subscribes:
                self.commit_async()

    # ------------------------------------------------------------------------------------------------------------------

    def _require_open(self) -> Fetcher:
        if self._fetcher is None or self._closed:
            state = "closed" if self._closed else "not open"
            raise InvalidState(f"the consumer is {state}", hint="use `async with Consumer(...) as consumer`")
        return self._fetcher

    def _require_opened(self) -> Fetcher:
        if self._fetcher is None:
            raise InvalidState("the consumer is not open")
        return self._fetcher


def _fetch_settings(settings: ConsumerSettings) -> FetchSettings:
    return FetchSettings(
        read_committed=settings.reads_committed,
        min_bytes=settings.fetch_min_bytes,
        max_wait_ms=settings.fetch_max_wait_ms,
        max_bytes=settings.fetch_max_bytes,
        max_partition_bytes=settings.max_partition_fetch_bytes,
        retry_backoff_s=settings.retry_backoff_ms / 1000,
        check_crcs=settings.check_crcs,
    )


def _group_settings(settings: ConsumerSettings, group_id: str) -> GroupSettings:
    return GroupSettings(
        group_id=group_id,
        group_instance_id=settings.group_instance_id,
        assignors=tuple(settings.partition_assignment_strategy),
        session_timeout_ms=settings.session_timeout_ms,
        heartbeat_interval_ms=settings.heartbeat_interval_ms,
        max_poll_interval_ms=settings.max_poll_interval_ms,
        metadata_max_age_ms=settings.metadata_max_age_ms,
        pattern=settings.pattern,
    )
