"""What runs in a task: Arrow batches of rows in, one `TaskOutput` of encoded record batches out.

Owns: how many rows are encoded at once, looking up the partitions of topics that rows name. Nothing that a task does is
visible to a reader: it may run twice, and be lost.
"""

import asyncio
import random
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from oncelog.client import Admin, AdminOptions, ConfigError, KafkaError
from oncelog.pipeline.imported import set_imported_aside
from oncelog.pipeline.sink.rows import RowError, TopicRows, rows_by_topic
from oncelog.pipeline.sink.spool import Spool, SpoolWriter, TaskOutput
from oncelog.protocol.errors import ErrorCode

_ROWS_BYTES = 8 << 20
"""The size of the pieces in which rows are encoded: a batch for each of some dozens of partitions, in little memory."""


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """The driver's decisions for the tasks of one output."""

    name: str
    bootstrap_servers: str
    topic: str | None
    partition_counts: dict[str, int]
    """The partition counts of topics that the driver has looked up already."""
    batch_size: int
    compression: str
    spool: Spool | None
    reach: AdminOptions = field(repr=False)
    """The options with which to look up the topics that rows name."""
    has_digest: bool = False
    """Whether the rows are digested, for a write that is compared with the same one later."""


def encode_task(plan: TaskPlan, rows: Iterable[Any]) -> TaskOutput:
    """Encode the rows of a task: pyarrow RecordBatches. Raises RowError and KafkaError."""
    task = _Task(plan)
    waiting: list[Any] = []
    waiting_bytes = 0
    for batch in rows:
        waiting.append(batch)
        waiting_bytes += batch.nbytes
        if waiting_bytes >= _ROWS_BYTES:
            task.encode(waiting)
            waiting, waiting_bytes = [], 0
    task.encode(waiting)
    set_imported_aside("encode")
    return task.writer.finish(plan.name, task.digest)


class _Task:
    """The state of a task from one piece of the rows to the next."""

    def __init__(self, plan: TaskPlan) -> None:
        from oncelog.pipeline.sink.encoding import Packer

        self.writer = SpoolWriter(plan.spool)
        self._plan = plan
        self._packer = Packer(plan.compression)
        self._partition_counts = dict(plan.partition_counts)
        self.digest = 0

    def encode(self, batches: Sequence[Any]) -> None:
        import pyarrow as pa

        if not any(batch.num_rows for batch in batches):
            return
        for rows in rows_by_topic(pa.Table.from_batches(batches), self._plan.topic):
            try:
                self._encode(rows)
            except ValueError as error:
                raise RowError(f"topic {rows.topic!r}: {error}") from error

    def _encode(self, rows: TopicRows) -> None:
        from oncelog.pipeline.sink.encoding import digest_of, encode_rows

        plan = self._plan
        if plan.has_digest:
            self.digest += digest_of(rows.topic, rows.keys, rows.values, rows.headers, rows.partitions)
        if rows.topic not in self._partition_counts:
            self._partition_counts.update(partition_counts(plan.bootstrap_servers, plan.reach, rows.topic))
        count = self._partition_counts[rows.topic]
        batches = encode_rows(
            rows.keys,
            rows.values,
            rows.headers,
            rows.partitions,
            partition_count=count,
            first_sticky=random.randrange(count),
            batch_size=plan.batch_size,
            packer=self._packer,
            timestamp_ms=int(time.time() * 1000),
        )
        for batch in batches:
            self.writer.add(rows.topic, batch.partition, batch.record_count, *batch.parts)


def partition_counts(bootstrap_servers: str, reach: AdminOptions, *topics: str) -> dict[str, int]:
    """Return how many partitions each topic has. Raises ConfigError for one that does not exist: it is not created,
    since a mistyped name would swallow the results."""

    async def describe() -> dict[str, int]:
        async with Admin(bootstrap_servers, **reach) as admin:
            return {each.name: each.partition_count for each in await admin.describe_topics(*topics)}

    try:
        return asyncio.run(describe())
    except KafkaError as error:
        if error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            missing = error.message.removeprefix(f"{error.name}: ")
            raise ConfigError(f"{missing} at {bootstrap_servers}", hint="create it first") from None
        raise
