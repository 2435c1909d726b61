"""A program that keeps its offsets in SQLite beside its results, and reads partitions in memory."""

import sqlite3
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, suppress
from pathlib import Path
from typing import Any

from oncelog.client.values.records import TopicPartition
from oncelog.sql_offsets import SqlBatch, SqlOffsets
from tests.fakes.partitions_to_read import NothingToRead, Partition, PartitionsToRead

PLACE, OTHER = TopicPartition("events", 0), TopicPartition("events", 1)


class Database:
    """A file with the table of offsets and one of results, which holds no key that would refuse a second result."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with self() as connection:
            connection.execute("create table results (number integer primary key, partition, value)")
            connection.execute(SqlOffsets("g", self).ddl)

    def __call__(self) -> AbstractContextManager[sqlite3.Connection]:
        # A connection that another one locks out fails at once instead of waiting for it.
        return closing(sqlite3.connect(self.path, timeout=0))

    def results(self, partition: int = 0) -> list[bytes]:
        with self() as connection:
            sql = "select value from results where partition = ? order by number"
            return [value for (value,) in connection.execute(sql, [partition])]

    def offsets(self) -> dict[tuple[str, int], int]:
        with self() as connection:
            rows = connection.execute("select topic, partition_index, next_offset from oncelog_offsets")
            return {(topic, partition): offset for topic, partition, offset in rows}


def write(connection: sqlite3.Connection, batch: Sequence[Any]) -> None:
    for record in batch:
        connection.execute("insert into results (partition, value) values (?, ?)", [record.partition, record.value])


class Instance:
    """One of the program: its offsets and consumer, and `batches`."""

    def __init__(
        self,
        database: Database,
        logs: Mapping[TopicPartition, Partition],
        *,
        max_records: int = 2,
        committed: Mapping[TopicPartition, int] | None = None,
        **options: Any,
    ) -> None:
        self.database = database
        self.offsets = SqlOffsets("g", database, **options)
        self.consumer = PartitionsToRead(logs, self.offsets.options, committed)
        self.consumer.assign(logs)
        self._max_records = max_records
        self.start_over()

    def start_over(self) -> None:
        self._batches: AsyncIterator[SqlBatch] = self.offsets.batches(  # type: ignore[call-overload]
            self.consumer, max_records=self._max_records
        )

    async def next(self) -> SqlBatch:
        try:
            return await anext(self._batches)
        except Exception:
            self.start_over()  # the iterator has ended
            raise

    async def process(self, batch: SqlBatch) -> None:
        with self.database() as connection:
            async with batch:
                with connection:
                    await batch.advance(connection)
                    write(connection, batch)

    async def process_all(self) -> None:
        with suppress(NothingToRead):
            while True:
                await self.process(await self.next())
