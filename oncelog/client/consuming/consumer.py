"""The consumer: returns records in offset order per partition, with positions, commits and groups.

Owns: the public methods, what each is allowed when, deadlines. Does not own: the work, which `reading` does with
`positions` and `commits`. Invariants: a position never covers a record that was not returned; rebalances happen inside
poll() or the iterator, never between; close() always returns.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import datetime
from types import TracebackType
from typing import Any, Generic, Self, Unpack, cast

from oncelog.client.consuming.batches import PATIENCE_MS, fill_batch
from oncelog.client.consuming.partition_state import PartitionState
from oncelog.client.consuming.raw_batches import RawBatch, iter_raw_batches
from oncelog.client.consuming.reading import Reading
from oncelog.client.options.hooks import OnCommit, before_return
from oncelog.client.options.option_types import ConsumerOptions
from oncelog.client.options.serializers import deserializing
from oncelog.client.options.settings import ConsumerSettings
from oncelog.client.values.arguments import (
    check_count,
    check_milliseconds,
    check_offset,
    check_topics,
    milliseconds_of,
    offsets_of,
    partition_of,
    partitions_of,
)
from oncelog.client.values.errors import ConfigError, DeserializationError, InvalidState, check_options
from oncelog.client.values.lifetime import Lifetime
from oncelog.client.values.option_values import lists_options
from oncelog.client.values.records import (
    ConsumerGroupMetadata,
    ConsumerRecords,
    K,
    Lag,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    Offsets,
    Record,
    TopicPartition,
    V,
)
from oncelog.client.values.waiting import Deadline
from oncelog.client.wire.cluster import Cluster
from oncelog.client.wire.offsets import EARLIEST, LATEST, fetch_committed, list_offsets
from oncelog.client.wire.security import security_of

_CLOSE_TIMEOUT_MS = 10_000


@lists_options(ConsumerSettings)
class Consumer(Generic[K, V]):
    """Reads records, alone or in a consumer group; only committed ones unless isolation_level="read_uncommitted".

        async with Consumer("topic", bootstrap_servers="host:9092", group_id="readers") as consumer:
            async for record in consumer:
                ...
                await consumer.commit_sync()

    With a group id and topics it joins the group; with topics alone it reads all their partitions; without topics,
    `assign` sets the partitions. `ConsumerSettings` lists the options; bad ones raise ConfigError at once. Keys and
    values are bytes, or what `key_deserializer` and `value_deserializer` return.

    Entering the block raises ConnectionLost if nothing accepts a connection for `bootstrap_timeout_ms`, RequestTimedOut
    if no broker responds, and UnknownTopic (in a group, the first poll does). Unlike Java's it creates no topic by
    asking for it. Every method raises InvalidState outside the block and the event loop that opened it, and for
    partitions that are not assigned. One task at a time may read.
    """

    def __init__(self, *topics: str, **options: Unpack[ConsumerOptions[K, V]]) -> None:
        check_topics("Consumer", topics)
        check_options("Consumer", ConsumerSettings, options)
        settings = self._settings = ConsumerSettings(**options)
        if topics and settings.pattern is not None:
            raise ConfigError("topics and pattern exclude each other")
        self._topics = topics
        self._group_id = settings.group_id
        self._isolation = settings.isolation_level
        self._api_timeout_ms = settings.default_api_timeout_ms
        self._cluster = Cluster(
            settings.bootstrap_servers,
            client_id=settings.client_id,
            request_timeout_ms=settings.request_timeout_ms,
            retry_backoff_ms=settings.retry_backoff_ms,
            security=security_of(settings),
        )
        self._deserialized: Callable[[Record], Record[K, V]] | None = deserializing(
            settings.key_deserializer, settings.value_deserializer
        )
        self._is_plain = self._deserialized is None and settings.on_consume is None
        self._reading: Reading | None = None
        self._closing = False
        """True once `close` is called: reading has ended, but on_revoke may still commit."""
        self._closed = False
        self._lifetime = Lifetime("Consumer")

    # --- life ---------------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        if self._reading is not None or self._closing:
            raise InvalidState("a consumer can be opened only once")
        self._lifetime.open()
        deadline = Deadline.after(self._api_timeout_ms)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self.close, 0)
            await self._cluster.bootstrap(deadline, self._settings.bootstrap_timeout_ms)
            self._reading = Reading(self._cluster, self._settings, self._topics)
            await self._reading.open(deadline)
            stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._close(_CLOSE_TIMEOUT_MS, has_failed=error is not None)

    async def close(self, timeout_ms: float = _CLOSE_TIMEOUT_MS) -> None:
        """Commit if auto-commit is on, call on_revoke with all partitions, leave the group and disconnect, within
        `timeout_ms`; never raises in its own event loop. on_revoke may still commit. A task that is reading gets
        InvalidState.

        Leaving the `async with` block does the same. If an exception leaves it, what was returned since the last poll
        began is not committed: it may not be processed."""
        await self._close(timeout_ms, has_failed=False)

    async def _close(self, timeout_ms: float, *, has_failed: bool) -> None:
        if self._closing:
            return
        self._lifetime.check_loop()
        self._closing = True
        self._lifetime.close()
        reading = self._reading
        try:
            if reading is not None:
                if has_failed:
                    reading.positions.back_to_processed()
                await reading.leave(Deadline.after(timeout_ms))
        finally:
            self._closed = True
            if reading is not None:
                await reading.close()
            await self._cluster.close()

    # --- records ------------------------------------------------------------------------------------------------------

    async def poll(self, timeout_ms: int = 0, max_records: int | None = None) -> list[Record[K, V]]:
        """Return available records, at most `max_records` (default: max.poll.records); wait up to `timeout_ms` for the
        first.

            for record in await consumer.poll(timeout_ms=1000):
                print(record.topic, record.partition, record.offset, record.value)

        May return an empty list early, when a position moved past markers or aborted records only, or when a rebalance
        keeps `commit_before_return` from committing. A loop that polls with `timeout_ms=0` lets other tasks work, too.
        Rebalances, on_assign and on_revoke run inside it. Raises NoOffsetForPartition with auto_offset_reset="error",
        CorruptBatch, DeserializationError once the records before it are returned, InvalidState if another task is
        polling, or closes the consumer, or if there is nothing to read (no topics, no pattern, nothing assigned), and
        FatalError if the group rejects this member.
        """
        check_milliseconds("timeout_ms", timeout_ms)
        limit = self._limit(max_records)
        reading = self._require_reading()
        return self._returned(reading, await reading.poll(timeout_ms, limit))

    async def __aiter__(self) -> AsyncIterator[Record[K, V]]:
        """Iterate by `async for record in consumer`, endlessly; a record counts as consumed when it is returned. Raises
        as `poll`."""
        while True:
            for record in self._ahead():
                yield record
            await self._read_ahead()

    def _ahead(self) -> Iterator[Record[K, V]]:
        """Yield the records read ahead for iterators; the blocking one calls it in its program's thread."""
        if self._closing or self._reading is None:
            raise self._not_open()
        reading = self._reading
        # Asked each time: a rebalance or a seek between two records replaces the buffered ones.
        records: Iterator[Any] = iter(reading.positions.next_ahead, None)
        if self._is_plain:
            return records
        return (each for record in records for each in self._returned(reading, [record]))

    async def _read_ahead(self) -> None:
        reading = self._require_reading()
        reading.positions.put_back(await reading.poll(PATIENCE_MS, self._settings.max_poll_records))

    async def batches(
        self, *, max_records: int | None = None, max_wait_ms: int = 0
    ) -> AsyncIterator[ConsumerRecords[K, V]]:
        """Endless: what is available, at least one record and at most `max_records` (default: max.poll.records); waits
        `max_wait_ms` for a batch to fill. `on_consume` may leave none of them.

            async for batch in consumer.batches():
                await store(batch)
                await consumer.commit_sync(batch.next_offsets)

        Raises as `poll`, and ConfigError for `max_wait_ms` with auto-commit, which would commit what waits here.
        """
        while True:
            yield await self.next_batch(max_records=max_records, max_wait_ms=max_wait_ms)

    async def next_batch(self, *, max_records: int | None = None, max_wait_ms: int = 0) -> ConsumerRecords[K, V]:
        """Return one of `batches`, with its errors; waits as long as it takes."""
        check_milliseconds("max_wait_ms", max_wait_ms)
        if max_wait_ms and self._settings.enable_auto_commit:
            raise ConfigError("max_wait_ms and enable_auto_commit exclude each other", hint="commit batch.next_offsets")
        limit = self._limit(max_records)
        reading = self._require_reading()
        batch = await fill_batch(reading, limit, max_wait_ms)
        if self._is_plain:
            return cast("ConsumerRecords[K, V]", batch)
        return ConsumerRecords(self._returned(reading, batch), reading.positions.consumed())

    def _limit(self, max_records: int | None) -> int:
        if max_records is None:
            return self._settings.max_poll_records
        check_count("max_records", max_records)
        return max_records

    def _returned(self, reading: Reading, records: list[Record]) -> list[Record[K, V]]:
        """Return the records as the caller gets them. One that cannot be deserialized is raised when it is the first:
        until then it and those after it count as not returned."""
        if self._is_plain:
            return cast("list[Record[K, V]]", records)
        returned: list[Record[K, V]] = []
        for record in records:
            try:
                returned.append(self._as_objects(record))
            except DeserializationError:
                reading.positions.put_back(records[len(returned) :])
                if not returned:
                    raise
                break
        if self._settings.on_consume is not None and returned:
            returned = before_return(self._settings.on_consume, returned)
        return returned

    def _as_objects(self, record: Record) -> Record[K, V]:
        return cast("Record[K, V]", record) if self._deserialized is None else self._deserialized(record)

    @property
    def assignment_count(self) -> int:
        """How often the group has assigned partitions to this member."""
        return 0 if self._reading is None else self._reading.assignment_count

    # --- assignment and positions -------------------------------------------------------------------------------------

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions, without a group assignment; those already read keep their positions.

            consumer.assign([TopicPartition("topic", 0)])

        Raises InvalidState if the group assigns the partitions (a group id together with topics).
        """
        reading = self._require_open()
        if reading.group is not None and reading.group.subscribes:
            raise InvalidState("the group assigns the partitions: leave out the topics to assign them yourself")
        chosen = partitions_of("assign", partitions)
        reading.positions.give_back(reading.fetcher.partitions)
        reading.fetcher.assign(chosen, keep=True)

    def assignment(self) -> list[TopicPartition]:
        """Return the partitions that this consumer reads now, sorted."""
        return sorted(self._require_open().fetcher.partitions)

    def seek(self, topic_partition: TopicPartition, offset: int) -> None:
        """Move to `offset`: the next record returned from this partition is the one there, or the first after it. To
        other places: `seek_to_beginning`, `seek_to_end`, `seek_to_committed`, `seek_to_timestamp`.

        Raises ConfigError for a negative offset and InvalidState for a partition that is not assigned."""
        check_offset("the offset", offset, hint="seek_to_beginning() or seek_to_end()")
        state = self._state(topic_partition)
        reading = self._require_open()
        reading.positions.forget((state.topic_partition,))
        state.seek(offset)
        state.start = offset
        reading.fetcher.wake()

    def _rewind(self, records: Iterable[Record[Any, Any]]) -> None:
        """Return these records again, as far as their partitions are still assigned."""
        self._require_open().positions.rewind(records)

    def _distrust_positions(self) -> None:
        """Continue from the group's offsets, which may have gone back."""
        self._require_open().positions.distrust()

    async def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Move to the first offset of these partitions (default: all assigned). Raises RequestTimedOut."""
        await self._seek_to(EARLIEST, partitions)

    async def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Move to the end of these partitions (default: all assigned): the last stable offset at read_committed,
        otherwise the high watermark. Raises RequestTimedOut."""
        await self._seek_to(LATEST, partitions)

    async def seek_to_committed(self, *partitions: TopicPartition) -> None:
        """Move to the group's committed offset of these partitions (default: all assigned), or, where there is none, to
        where auto_offset_reset says. Raises ConfigError without a group id, NoOffsetForPartition, RequestTimedOut."""
        self._required_group()
        chosen = [self._state(each).topic_partition for each in partitions or self.assignment()]
        await self._require_open().positions.find_again(chosen, Deadline.after(self._api_timeout_ms))

    async def seek_to_timestamp(self, when: datetime | int, *partitions: TopicPartition) -> None:
        """Move to the first record at or after `when`, a datetime with a time zone or milliseconds since the epoch, of
        these partitions (default: all assigned); to the end where there is none. Raises ConfigError and
        RequestTimedOut.

            await consumer.seek_to_timestamp(datetime.now(UTC) - timedelta(hours=1))
        """
        when = milliseconds_of("when", when)
        if when < 0:
            raise ConfigError(f"{when} is before 1970")
        chosen = partitions or self.assignment()
        found = await self._list_offsets(dict.fromkeys(chosen, when))
        for topic_partition, where in found.items():
            if where.offset >= 0:
                self.seek(topic_partition, where.offset)
        later = [each for each in chosen if found[each].offset < 0]
        if later:
            await self.seek_to_end(*later)

    async def _seek_to(self, where: int, partitions: Sequence[TopicPartition]) -> None:
        for each in partitions:
            self._state(each)
        chosen = partitions or self.assignment()
        for topic_partition, found in (await self._list_offsets(dict.fromkeys(chosen, where))).items():
            self.seek(topic_partition, found.offset)

    async def position(self, topic_partition: TopicPartition) -> int:
        """Return the offset of the next record to be returned. Raises RequestTimedOut, and NoOffsetForPartition if
        there is none."""
        state = self._state(topic_partition)
        positions = self._require_open().positions
        if state.position < 0:
            await positions.find(Deadline.after(self._api_timeout_ms))
        return positions.next_offset(state)

    async def lag(self, *partitions: TopicPartition) -> dict[TopicPartition, Lag]:
        """How far this consumer is behind in these partitions (default: all assigned), in records: up to the last
        stable offset at read_committed, otherwise to the high watermark.

            behind = sum(each.record_count for each in (await consumer.lag()).values())

        It counts from what was returned. Raises RequestTimedOut, and NoOffsetForPartition with
        auto_offset_reset="error".
        """
        chosen = [self._state(each).topic_partition for each in partitions or self.assignment()]
        return await self._require_open().positions.lag(chosen, Deadline.after(self._api_timeout_ms))

    def pause(self, *partitions: TopicPartition) -> None:
        """Return no records from these partitions until `resume`; they stay assigned. What was read ahead of them, for
        the iterator or a batch that is being filled, is fetched again then."""
        for each in partitions:
            state = self._state(each)
            state.paused = True
            self._require_open().positions.give_back((state.topic_partition,))
        self._require_open().fetcher.wake()

    def resume(self, *partitions: TopicPartition) -> None:
        """Return records from these paused partitions again."""
        for each in partitions:
            self._state(each).paused = False
        self._require_open().fetcher.wake()

    async def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the first offset of each partition. Raises RequestTimedOut."""
        found = await self._list_offsets(dict.fromkeys(partitions_of("beginning_offsets", partitions), EARLIEST))
        return {each: where.offset for each, where in found.items()}

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return how far this consumer may read: the last stable offset at read_committed, otherwise the high
        watermark. Raises RequestTimedOut."""
        found = await self._list_offsets(dict.fromkeys(partitions_of("end_offsets", partitions), LATEST))
        return {each: where.offset for each, where in found.items()}

    async def offsets_for_times(
        self, times_ms: Mapping[TopicPartition, datetime | int]
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Return the first record at or after each time (a datetime with a time zone, or milliseconds since the epoch);
        offset -1 if there is none. Raises ConfigError and RequestTimedOut."""
        wanted = {partition_of(each): milliseconds_of("times_ms", when) for each, when in times_ms.items()}
        return await self._list_offsets(wanted)

    async def partitions_for(self, topic: str) -> list[TopicPartition]:
        """Return all partitions of the topic. Raises RequestTimedOut and UnknownTopic."""
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
        topic_partition = partition_of(topic_partition)
        state = self._require_open().fetcher.partitions.get(topic_partition)
        if state is None:
            raise InvalidState(f"{topic_partition.topic}-{topic_partition.partition} is not assigned to this consumer")
        return state

    # --- commits ------------------------------------------------------------------------------------------------------

    async def commit_sync(self, offsets: Offsets | None = None) -> None:
        """Commit these offsets, or the positions after all returned records, and wait for the response.

            await consumer.commit_sync({TopicPartition("topic", 0): 42})     # 42 is the next offset to read

        Raises CommitFailed if the group has reassigned the partitions, ConfigError without a group id, RequestTimedOut.
        """
        await self._require_open().commits.commit(
            self._to_commit("commit_sync", offsets), Deadline.after(self._api_timeout_ms)
        )

    def commit_async(self, offsets: Offsets | None = None, callback: OnCommit | None = None) -> None:
        """Commit without waiting; `callback(offsets, error)` is called with the outcome, `error` None on success.
        Commits are sent one after the other, in the order of the calls of this method and `commit_sync`; those that
        wait for one under way are sent as one. Raises ConfigError without a group id."""
        self._require_open().commits.commit_soon(self._to_commit("commit_async", offsets), callback)

    async def committed(self, *partitions: TopicPartition) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the group's committed offsets of these partitions (default: all assigned); partitions without one are
        left out. Raises ConfigError without a group id, RequestTimedOut."""
        self._require_open()
        group_id = self._required_group().group_id
        return await fetch_committed(
            self._cluster,
            group_id,
            [partition_of(each) for each in partitions] or self.assignment(),
            Deadline.after(self._api_timeout_ms),
            require_stable=self._settings.reads_committed,
        )

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return this consumer's group, generation and member id, for Transaction.send_offsets (KIP-447). Raises
        ConfigError without a group id."""
        group = None if self._reading is None else self._reading.group
        return self._required_group() if group is None else group.metadata()

    async def heartbeat(self) -> None:
        """Ask the group's coordinator now whether this member still has its partitions; a rebalance that has begun
        leaves them until the next poll. Raises CommitFailed if it has not, RequestTimedOut, ConfigError without a group
        id."""
        group = self._require_open().group
        self._required_group()
        if group is not None:
            await group.check_membership(Deadline.after(self._api_timeout_ms))

    def _required_group(self) -> ConsumerGroupMetadata:
        if self._group_id is None:
            raise ConfigError("this consumer has no group_id")
        return ConsumerGroupMetadata(self._group_id)

    def _to_commit(self, method: str, offsets: Offsets | None) -> Mapping[TopicPartition, OffsetAndMetadata]:
        reading = self._require_open()
        self._required_group()
        if offsets is None:
            return reading.positions.consumed()
        return offsets_of(method, offsets)

    # ------------------------------------------------------------------------------------------------------------------

    def _require_reading(self) -> Reading:
        """Raise InvalidState unless the consumer is open and not about to be closed."""
        if self._closing:
            raise self._not_open()
        return self._require_open()

    def _require_open(self) -> Reading:
        if self._reading is None or self._closed:
            raise self._not_open()
        self._lifetime.check_loop()
        return self._reading

    def _not_open(self) -> InvalidState:
        state = "closed" if self._closing else "not open"
        return InvalidState(f"the consumer is {state}", hint="use `async with Consumer(...) as consumer`")
