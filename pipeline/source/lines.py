"""A Spark streaming source that reads committed records, exactly once, up to the last stable offset.

Owns: which offsets a micro-batch covers, and reading them. Options: `bootstrap`, `topic`, `max_per_partition`.
Invariants
- A batch ends at or before the last stable offset, so that every transaction in it is decided: read again after a
  restart, the same range gives the same rows.
- The first batch starts at the log's start, however often it is requested: Spark asks again after an early crash, and
  does not store the first response.
- A range is read until the *position* has passed its end, not until a number of rows: markers and aborted records take
  offsets and give no rows.
"""

import asyncio
from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable

from oncelog.client import Consumer, TopicPartition

if TYPE_CHECKING:
    from pyarrow import RecordBatch

SCHEMA = "partition int, offset long, timestamp long, key string, value string"
_DEFAULT_MAX_PER_PARTITION = 10_000
_POLL_MS = 1_000
_POLL_RECORDS = 10_000
_STALLED_POLLS = 30


@dataclass
class OffsetRange(InputPartition):
    """Offsets [start, end) of one partition."""

    partition: int
    start: int
    end: int


class OncelogSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "oncelog"

    def schema(self) -> str:
        return SCHEMA

    def streamReader(self, schema: Any) -> "OncelogStreamReader":  # noqa: N802  # Spark's name
        return OncelogStreamReader(self.options)


class OncelogStreamReader(DataSourceStreamReader):
    def __init__(self, options: MutableMapping[str, str]) -> None:
        self._bootstrap = options["bootstrap"]
        self._topic = options["topic"]
        self._max_per_partition = int(options.get("max_per_partition", str(_DEFAULT_MAX_PER_PARTITION)))

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return asyncio.run(partition_offsets(self._bootstrap, self._topic, earliest=True))

    def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:  # noqa: N802
        """The last stable offsets, at most `max_per_partition` beyond `start` unless Spark wants everything
        available."""
        stable = self.stable_offsets()
        if isinstance(limit, ReadAllAvailable) and self._max_per_partition <= 0:
            return stable
        return {
            partition: max(start.get(partition, 0), min(end, start.get(partition, 0) + self._max_per_partition))
            for partition, end in stable.items()
        }

    def stable_offsets(self) -> dict[str, int]:
        return asyncio.run(partition_offsets(self._bootstrap, self._topic, earliest=False))

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[OffsetRange]:
        return [
            OffsetRange(int(partition), start.get(partition, 0), end[partition])
            for partition in sorted(end, key=int)
            if end[partition] > start.get(partition, 0)
        ]

    def read(self, partition: InputPartition) -> Iterator["RecordBatch"]:
        """Runs in a task. Arrow, because rows built one by one cost five times as much."""
        if not isinstance(partition, OffsetRange):
            raise TypeError(f"not a range of this source: {partition!r}")
        yield from asyncio.run(read_range(self._bootstrap, self._topic, partition))

    def commit(self, end: dict[str, int]) -> None:
        """Spark's checkpoint holds the progress; a group offset for lag tools would only lag behind it."""

    def stop(self) -> None:
        """Nothing is kept open between calls."""


async def partition_offsets(bootstrap: str, topic: str, *, earliest: bool) -> dict[str, int]:
    """The log's start, or the last stable offset, by partition. Keys sorted: Spark compares offsets as text."""
    async with Consumer(bootstrap_servers=bootstrap, isolation_level="read_committed") as consumer:
        partitions = await consumer.partitions_for(topic)
        look_up = consumer.beginning_offsets if earliest else consumer.end_offsets
        offsets = await look_up(partitions)
    return {str(partition.partition): offsets[partition] for partition in sorted(partitions)}


async def read_range(bootstrap: str, topic: str, wanted: OffsetRange) -> "list[RecordBatch]":
    """Every committed record of a range as Arrow batches.

    Raises NoOffsetForPartition when retention has deleted the start, RuntimeError when the end is not reached.
    """
    import pyarrow

    target = TopicPartition(topic, wanted.partition)
    batches = []
    stalled = 0
    async with Consumer(
        bootstrap_servers=bootstrap, isolation_level="read_committed", auto_offset_reset="error"
    ) as consumer:
        consumer.assign([target])
        consumer.seek(target, wanted.start)
        position = wanted.start
        while position < wanted.end:
            records = await consumer.poll(_POLL_MS, _POLL_RECORDS)
            before, position = position, await consumer.position(target)
            stalled = stalled + 1 if position == before else 0
            if stalled > _STALLED_POLLS:
                raise RuntimeError(f"{target} does not advance beyond offset {before} to {wanted.end}")
            rows = [record for record in records if record.offset < wanted.end]
            if rows:
                batches.append(
                    pyarrow.RecordBatch.from_arrays(
                        [
                            pyarrow.array([row.partition for row in rows], pyarrow.int32()),
                            pyarrow.array([row.offset for row in rows], pyarrow.int64()),
                            pyarrow.array([row.timestamp_ms for row in rows], pyarrow.int64()),
                            pyarrow.array([_text(row.key) for row in rows], pyarrow.string()),
                            pyarrow.array([_text(row.value) for row in rows], pyarrow.string()),
                        ],
                        names=["partition", "offset", "timestamp", "key", "value"],
                    )
                )
    return batches


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "replace")
