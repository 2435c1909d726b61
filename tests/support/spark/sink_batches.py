"""Batches as Spark's tasks encode them, and reading back what a sink has published: for tests without Spark."""

import asyncio
import time
from collections import Counter

from oncelog.client import Admin, Consumer, NewTopic
from oncelog.pipeline.group_offsets import GroupOffsets, group_offsets
from oncelog.pipeline.sink.marker import Marker
from oncelog.pipeline.sink.publish import SinkSettings
from oncelog.pipeline.sink.spool import Spool, SpoolWriter, TaskOutput
from oncelog.pipeline.source.offsets import TopicOffsets
from oncelog.protocol.records.batch import encode_batch
from oncelog.protocol.records.record import Record
from tests.support.patience import PATIENCE_S

OUTPUTS = ("totals", "alerts")
ROWS = 12
NOW_MS = int(time.time() * 1000)
"""Retention would delete older records when a broker starts."""


def outputs_of(batch_id: int, prefix: str, task_count: int = 2, spool: Spool | None = None) -> list[TaskOutput]:
    """The batch's rows, `batch:row`, in each of two topics with three partitions, split into so many tasks."""
    found = []
    for name in OUTPUTS:
        for task in range(task_count):
            writer = SpoolWriter(spool)
            for row in range(task, ROWS, task_count):
                data = encode_batch([Record(0, NOW_MS, None, f"{batch_id}:{row}".encode())])
                writer.add(prefix + name, row % 3, 1, data)
            found.append(writer.finish(name))
    return found


def wanted(batch_id: int, *, offsets: str = "same") -> Marker:
    return Marker(batch_id, "query", f"{offsets} {batch_id}")


def settings(bootstrap: str, prefix: str, **client: object) -> SinkSettings:
    return SinkSettings(bootstrap, f"sink-{prefix}", client)


def group_of(batch_id: int, prefix: str) -> GroupOffsets:
    """The offsets of a group, as if batches were read from one of the topics, an offset for each."""
    return group_offsets(f"lag-{prefix}", [{prefix + OUTPUTS[0]: TopicOffsets("", {0: 0}, {0: batch_id + 1})}])


async def make_topics(bootstrap: str, prefix: str) -> None:
    async with Admin(bootstrap) as admin:
        await admin.create_topics(*(NewTopic(prefix + name, partition_count=3) for name in OUTPUTS))


async def read(bootstrap: str, topic: str) -> Counter[bytes]:
    """All committed values. Raises TimeoutError if an open transaction stays in the way: Kafka writes the markers soon
    after it has answered."""
    uncommitted = Consumer(bootstrap_servers=bootstrap, isolation_level="read_uncommitted")
    async with uncommitted, Consumer(bootstrap_servers=bootstrap, isolation_level="read_committed") as consumer:
        partitions = await consumer.partitions_for(topic)
        consumer.assign(partitions)
        ends = await uncommitted.end_offsets(partitions)
        async with asyncio.timeout(PATIENCE_S):
            while await consumer.end_offsets(partitions) != ends:
                pass
        await consumer.seek_to_beginning(*partitions)
        values: Counter[bytes] = Counter()
        while any([await consumer.position(each) < ends[each] for each in partitions]):
            values.update(record.value or b"" for record in await consumer.poll(5_000))
    return values


def expected(batch_count: int) -> Counter[bytes]:
    return Counter(f"{batch_id}:{row}".encode() for batch_id in range(batch_count) for row in range(ROWS))


async def check(bootstrap: str, prefix: str, batch_count: int) -> None:
    for name in OUTPUTS:
        assert await read(bootstrap, prefix + name) == expected(batch_count)


async def check_group(bootstrap: str, prefix: str, batch_count: int, *, require_stable: bool = True) -> None:
    """The group of `group_of` is behind the last batch. With `require_stable` it waits for an open transaction."""
    async with Admin(bootstrap) as admin:
        committed = await admin.list_group_offsets(f"lag-{prefix}", require_stable=require_stable)
    assert [each.offset for each in committed.values()] == [batch_count]
