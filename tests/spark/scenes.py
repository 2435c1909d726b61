"""What the tests of the sink share: input in micro-batches, topics, and reading back what was committed."""

import asyncio
import json
import os
from collections import Counter
from pathlib import Path
from typing import Any, Protocol

from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient

from oncelog.client import Admin, Consumer, NewTopic, Record
from tests.support.patience import PATIENCE_S

ROWS = 8
BATCHES = 3
SCHEMA = "k string, v string"


class Broker(Protocol):
    """Ours or another."""

    @property
    def bootstrap(self) -> str: ...


def make_input(directory: Path, batches: int = BATCHES) -> Path:
    """One file for each micro-batch."""
    directory.mkdir()
    for batch in range(batches):
        rows = [json.dumps({"k": f"key-{row % 3}", "v": f"{batch}:{row}"}) for row in range(ROWS)]
        (directory / f"{batch}.json").write_text("\n".join(rows))
        os.utime(directory / f"{batch}.json", (batch + 1, batch + 1))  # the order in which Spark takes files
    return directory


def stream(spark: Any, source: Path) -> Any:
    rows = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(source))
    return rows.selectExpr("k as key", "v as value")


def create(broker: Broker, *topics: str) -> None:
    async def work() -> None:
        async with Admin(broker.bootstrap) as admin:
            configs = {"retention.ms": "-1"}
            await admin.create_topics(*(NewTopic(topic, partition_count=3, configs=configs) for topic in topics))

    asyncio.run(work())


def read(broker: Broker, topic: str) -> list[Record]:
    async def work() -> list[Record]:
        async with Consumer(bootstrap_servers=broker.bootstrap, isolation_level="read_committed") as consumer:
            partitions = await consumer.partitions_for(topic)
            consumer.assign(partitions)
            ends = await consumer.end_offsets(partitions)
            await consumer.seek_to_beginning(*partitions)
            records: list[Record] = []
            while any([await consumer.position(each) < ends[each] for each in partitions]):
                records += await consumer.poll(5_000)
        return records

    return asyncio.run(work())


def group_offsets(broker: Broker, group: str) -> dict[int, int]:
    """A group's offsets of the partitions of its only topic, as another client sees them."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    (found,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
    return {each.partition: each.offset for each in found.result(PATIENCE_S).topic_partitions or ()}


def values(broker: Broker, topic: str) -> Counter[str]:
    return Counter((record.value or b"").decode() for record in read(broker, topic))


def expected(batches: int = BATCHES) -> Counter[str]:
    return Counter(f"{batch}:{row}" for batch in range(batches) for row in range(ROWS))


def run_to_end(writer: Any) -> None:
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
