"""The positions of a consumer, kept in a table of the user's.

Owns: where each partition starts, and where each batch begins. Does not own: reading (`Consumer`), the table (`table`),
how a batch ends (`batch`).

Invariants
- A partition is read from the table's position; without one, from a start that is written there before it is read.
- A batch begins at the table's position as this instance last knew it, whatever markers and aborted records follow it.
- After a block that was not committed the table is read again, and the consumer moved to its position.
- A position that the log does not have any more, or not yet, is an error and not a skip.
"""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any, Literal, TypedDict, overload

from oncelog.client.blocking.clients import Consumer as BlockingConsumer
from oncelog.client.consuming.consumer import Consumer
from oncelog.client.options.choices import OffsetReset
from oncelog.client.options.hooks import OnPartitions
from oncelog.client.values.errors import ConfigError, InvalidState, NoOffsetForPartition
from oncelog.client.values.records import ConsumerRecords, K, TopicPartition, V
from oncelog.sql_offsets.batch import BlockingSqlBatch, SqlBatch
from oncelog.sql_offsets.connections import Connect, commit, connected
from oncelog.sql_offsets.table import Move, OffsetsTable

_RESETS = ("earliest", "latest", "error")


class SqlConsumerOptions(TypedDict):
    """The options of a consumer whose offsets are in a table."""

    group_id: str
    auto_offset_reset: Literal["error"]
    on_assign: OnPartitions


class SqlOffsets:
    """Keeps the offsets of a group in the user's database, and moves them on in the transaction of the results.

        offsets = SqlOffsets("payments", pool.acquire)
        async with Consumer("events", bootstrap_servers="host:9092", **offsets.options) as consumer:
            async for batch in offsets.batches(consumer):
                async with batch, pool.acquire() as connection, connection.transaction():
                    await batch.advance(connection)
                    ...  # your own statements

    `connect` returns a connection as a context manager, by which the table is read when partitions are assigned:
    `pool.acquire` (asyncpg), `pool.connection` (psycopg_pool), `engine.connect` or a sessionmaker (SQLAlchemy), or
    `lambda: closing(sqlite3.connect(path))`. `table` may be "schema.table". `auto_offset_reset` says where a partition
    starts that is neither in the table nor among the offsets that the group has committed to Kafka.

    One of these belongs to one consumer, of `oncelog` or of `oncelog.sync`. Raises ConfigError.
    """

    def __init__(
        self,
        group_id: str,
        connect: Connect,
        *,
        table: str = "oncelog_offsets",
        auto_offset_reset: OffsetReset = "earliest",
    ) -> None:
        if not callable(connect):
            raise ConfigError("connect must be callable", hint="pool.acquire, and not pool.acquire()")
        if auto_offset_reset not in _RESETS:
            raise ConfigError(f"auto_offset_reset={auto_offset_reset!r}", hint=" or ".join(map(repr, _RESETS)))
        self._group_id = group_id
        self._connect = connect
        self._table = OffsetsTable(table, group_id)
        self._auto_offset_reset = auto_offset_reset
        self._consumer: Consumer[Any, Any] | None = None
        self._positions: dict[TopicPartition, int] = {}
        """The table's positions of the partitions that this instance reads, as far as it knows."""
        self._batch: SqlBatch[Any, Any] | None = None

    @property
    def ddl(self) -> str:
        """The statement that makes the table unless it is there, for those who migrate themselves."""
        return self._table.ddl

    async def create(self) -> None:
        """Make the table unless it is there; do not call it where another role migrates (`ddl`). Raises what the
        connection raises; ConfigError for a table of PostgreSQL that is there and belongs to neither this role nor a
        superuser, nor, unless this role is a superuser, to the owner of the schema or the database."""
        for is_last in (False, True):
            try:
                async with connected(self._connect) as connection:
                    await self._table.create(connection)
                    return await commit(connection)
            except Exception:
                # PostgreSQL fails one of two instances that create it at the same time.
                if is_last:
                    raise

    @property
    def options(self) -> SqlConsumerOptions:
        """The options that the consumer needs: `Consumer("events", **offsets.options)`. A program with an `on_assign`
        of its own passes that instead, and awaits this one's in it."""
        return {"group_id": self._group_id, "auto_offset_reset": "error", "on_assign": self.on_assign}

    # --- batches ------------------------------------------------------------------------------------------------------

    @overload
    def batches(
        self, consumer: Consumer[K, V], *, max_records: int | None = None, max_wait_ms: int = 0
    ) -> AsyncIterator[SqlBatch[K, V]]: ...

    @overload
    def batches(
        self, consumer: BlockingConsumer[K, V], *, max_records: int | None = None, max_wait_ms: int = 0
    ) -> Iterator[BlockingSqlBatch[K, V]]: ...

    def batches(
        self, consumer: Consumer[K, V] | BlockingConsumer[K, V], *, max_records: int | None = None, max_wait_ms: int = 0
    ) -> AsyncIterator[SqlBatch[K, V]] | Iterator[BlockingSqlBatch[K, V]]:
        """Return an endless iterator of batches, as `Consumer.batches`, from where the table says.

        The iterator raises as that, and InvalidState if the last batch was not entered; NoOffsetForPartition, with the
        statement that would continue, if records were deleted before they were processed, or the log ends before the
        table's position. Raises ConfigError if the consumer has not `options`.
        """
        if isinstance(consumer, BlockingConsumer):
            self._follow(consumer._client)
            return self._blocking_batches(consumer, max_records, max_wait_ms)
        self._follow(consumer)
        return self._batches(consumer, max_records, max_wait_ms)

    def _follow(self, consumer: Consumer[Any, Any]) -> None:
        settings = consumer._settings
        commits = settings.enable_auto_commit or settings.commit_before_return
        if settings.auto_offset_reset != "error" or commits:
            text = 'the consumer must have auto_offset_reset="error", and commit nothing by itself'
            raise ConfigError(text, hint="Consumer(..., **offsets.options)")
        # Whatever was returned before and not processed comes again.
        self._consumer, self._positions, self._batch = consumer, {}, None

    async def _batches(
        self, consumer: Consumer[K, V], max_records: int | None, max_wait_ms: int
    ) -> AsyncIterator[SqlBatch[K, V]]:
        while True:
            yield await self._next_batch(consumer, max_records, max_wait_ms)

    def _blocking_batches(
        self, consumer: BlockingConsumer[K, V], max_records: int | None, max_wait_ms: int
    ) -> Iterator[BlockingSqlBatch[K, V]]:
        while True:
            batch = consumer._run(self._next_batch(consumer._client, max_records, max_wait_ms))
            yield BlockingSqlBatch(batch)

    async def _next_batch(self, consumer: Consumer[K, V], max_records: int | None, max_wait_ms: int) -> SqlBatch[K, V]:
        last, self._batch = self._batch, None
        if last is not None and not last.has_ended:
            self._forget(last.moves)
            raise InvalidState("the last batch's block was not left", hint="`async with batch:` around the transaction")
        assigned = consumer.assignment()
        self._positions = {each: self._positions[each] for each in assigned if each in self._positions}
        await self.on_assign([each for each in assigned if each not in self._positions])
        try:
            records = await consumer.next_batch(max_records=max_records, max_wait_ms=max_wait_ms)
        except NoOffsetForPartition:
            # The log has deleted the next record, or ends before it: a person decides, then the table is read again.
            known, self._positions = self._positions, {}
            await self._check(known)
            raise
        moves = self._moves(records)
        self._batch = SqlBatch(records, moves, self._table, self._on_end)
        return self._batch

    def _moves(self, records: ConsumerRecords[Any, Any]) -> dict[TopicPartition, Move]:
        """Return from where to where the partitions move on. Raises InvalidState if the program has moved the consumer
        back."""
        positions = self._positions
        # A record's first two values are its partition.
        if any(record.offset < positions.get(record[:2], record.offset + 1) for record in records):  # type: ignore[call-overload]
            self._positions = {}
            hint = "do not seek back, change the table; an on_assign of your own awaits that of the offsets"
            raise InvalidState("the consumer was not where its offsets have moved it", hint=hint)
        ends = {each: where.offset for each, where in records.next_offsets.items() if each in positions}
        return {each: Move(positions[each], end) for each, end in ends.items() if end > positions[each]}

    def _on_end(self, batch: SqlBatch[Any, Any]) -> None:
        if batch.committed:
            self._positions |= {each: move.end for each, move in batch.moves.items()}
        else:
            self._forget(batch.moves)

    def _forget(self, partitions: Mapping[TopicPartition, Move]) -> None:
        """Ask the table again for these."""
        for each in partitions:
            self._positions.pop(each, None)

    # --- positions ----------------------------------------------------------------------------------------------------

    async def on_assign(self, partitions: Sequence[TopicPartition]) -> None:
        """Move the consumer to the table's positions of these partitions. The consumer calls it when the group has
        assigned them, and its poll raises what this does: NoOffsetForPartition, and what the connection raises."""
        if not partitions:
            return
        consumer = self._required_consumer()
        kept = await self._read()
        missing = [each for each in partitions if each not in kept]
        if missing:
            starts = await self._starts(missing)
            async with connected(self._connect) as connection:
                await self._table.insert(connection, starts)
                await commit(connection)
            # Another instance may have been faster.
            kept = await self._read()
        for each in partitions:
            consumer.seek(each, kept[each])
            self._positions[each] = kept[each]

    async def _read(self) -> dict[TopicPartition, int]:
        async with connected(self._connect) as connection:
            return await self._table.read(connection)

    async def _starts(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Return where to start partitions that the table does not have."""
        consumer = self._required_consumer()
        starts: dict[TopicPartition, int] = {}
        if consumer._settings.group_id is not None:
            starts = {each: where.offset for each, where in (await consumer.committed(*partitions)).items()}
        missing = [each for each in partitions if each not in starts]
        if missing and self._auto_offset_reset == "error":
            names = ", ".join(f"{each.topic}-{each.partition}" for each in missing)
            raise NoOffsetForPartition(
                f"neither {self._table.name} nor the group in Kafka has a position of {names}",
                hint="insert one, or set auto_offset_reset of SqlOffsets to 'earliest' or 'latest'",
            )
        if missing:
            ask = consumer.end_offsets if self._auto_offset_reset == "latest" else consumer.beginning_offsets
            starts |= await ask(missing)
        return starts

    async def _check(self, positions: Mapping[TopicPartition, int]) -> None:
        """Raise NoOffsetForPartition for a position that the log does not have."""
        consumer = self._required_consumer()
        first = await consumer.beginning_offsets(positions)
        ends = await consumer.end_offsets(positions)
        for place, position in sorted(positions.items()):
            name, table = f"{place.topic}-{place.partition}", self._table.name
            if position < first[place]:
                text = f"{name}: offsets {position} to {first[place] - 1} were deleted before they were processed"
                hint = f"to continue without them: {self._table.set_statement(place, first[place])}"
                raise NoOffsetForPartition(text, hint=hint)
            if position > ends[place]:
                text = f"{name}: {table} has processed it up to {position}, and the log ends at {ends[place]}"
                cause = "the topic was made again, or its cluster has lost records"
                places = f"its beginning, or with {ends[place]} from its end"
                hint = f"{cause}; to continue from {places}: {self._table.set_statement(place, first[place])}"
                raise NoOffsetForPartition(text, hint=hint)

    def _required_consumer(self) -> Consumer[Any, Any]:
        if self._consumer is None:
            raise InvalidState("the consumer was read before it was known", hint="read offsets.batches(consumer)")
        return self._consumer
