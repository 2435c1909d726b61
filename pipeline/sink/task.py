"""What runs in a task: Arrow batches of rows in, one `TaskOutput` of encoded record batches out.

Owns: how many rows are encoded at once, looking up the partitions of topics that rows name. Nothing that a task does is
visible to a reader: it may run twice, and be lost.
"""

import asyncio
import random
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from oncelog.client import Admin, ConfigError, KafkaError
from oncelog.pipeline.option_values import OPEN_PATIENCE_MS
from oncelog.pipeline.sink.rows import RowError, rows_by_topic
from oncelog.pipeline.sink.spool import Spool, SpoolWriter, TaskOutput
from oncelog.protocol.errors import ErrorCode

_ROWS_BYTES = 8 << 20
"""Rows are encoded in pieces of about this size: a batch for each of some dozens of partitions, in little memory."""


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """What the driver decided for the tasks of one output."""

    name: str
    bootstrap_servers: str
    topic: str | None
    partition_counts: dict[str, int]
    """Of topics that the driver has looked up already."""
    batch_size: int
    compression: str
    spool: Spool | None


def encode_task(plan: TaskPlan, rows: Iterable[Any]) -> TaskOutput:
    """Encode the rows of a task: pyarrow RecordBatches. Raises RowError and KafkaError."""
    import pyarrow as pa

    writer = SpoolWriter(plan.spool)
    counts = dict(plan.partition_counts)
    waiting: list[Any] = []
    waiting_bytes = 0
    for batch in rows:
        waiting.append(batch)
        waiting_bytes += batch.nbytes
        if waiting_bytes >= _ROWS_BYTES:
            _encode(plan, pa.Table.from_batches(waiting), counts, writer)
            waiting, waiting_bytes = [], 0
    if waiting:
        _encode(plan, pa.Table.from_batches(waiting), counts, writer)
    return writer.finish(plan.name)


def _encode(plan: TaskPlan, table: Any, counts: dict[str, int], writer: SpoolWriter) -> None:
    from oncelog.pipeline.sink.encoding import encode_rows

    if not table.num_rows:
        return
    for rows in rows_by_topic(table, plan.topic):
        if rows.topic not in counts:
            counts.update(partition_counts(plan.bootstrap_servers, rows.topic))
        try:
            batches = encode_rows(
                rows.keys,
                rows.values,
                rows.headers,
                rows.partitions,
                partition_count=counts[rows.topic],
                first_sticky=random.randrange(counts[rows.topic]),
                batch_size=plan.batch_size,
                compression=plan.compression,
                timestamp_ms=int(time.time() * 1000),
            )
            for batch in batches:
                writer.add(rows.topic, batch.partition, batch.data, batch.record_count)
        except ValueError as error:
            raise RowError(f"topic {rows.topic!r}: {error}") from error


def partition_counts(bootstrap_servers: str, *topics: str) -> dict[str, int]:
    """How many partitions each topic has. Raises ConfigError for one that does not exist: it is not created, since a
    mistyped name would swallow the results."""

    async def describe() -> dict[str, int]:
        async with Admin(bootstrap_servers, bootstrap_timeout_ms=OPEN_PATIENCE_MS) as admin:
            return {each.name: each.partition_count for each in await admin.describe_topics(*topics)}

    try:
        return asyncio.run(describe())
    except KafkaError as error:
        if error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise ConfigError(
                f"{error.message} does not exist at {bootstrap_servers}", hint="create it first"
            ) from None
        raise
