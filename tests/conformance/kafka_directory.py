"""A small log directory of Apache Kafka 3.9 after a clean stop, and what Kafka showed of it: how they were recorded.

    ONCELOG_KAFKA_LIBS=DIRECTORY python -m tests.conformance.kafka_directory

with the jars of `org.apache.kafka:kafka_2.13:3.9.1` and `slf4j-reload4j` in DIRECTORY. Indexes are left out of the
recording: adopting rebuilds them.
"""

import asyncio
import json
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from oncelog.client import Admin, Consumer, NewTopic, Producer, TopicPartition
from tests.support.kafka.server import Kafka
from tests.support.logs.graduation import leave_open, read

DIRECTORY = Path(__file__).parents[1] / "golden" / "adopt"
ARCHIVE, SHOWN = DIRECTORY / "kafka-3.9.tar.gz", DIRECTORY / "kafka-3.9.json"
_TOPICS = (NewTopic("orders", 2, 1, {"retention.ms": "-1"}), NewTopic("latest", 1, 1, {"cleanup.policy": "compact"}))
_LEFT_OUT = (".index", ".timeindex")


async def make_past(bootstrap: str) -> None:
    """Two transactions, the second aborted; a compacted topic; a group; a transaction that is left open."""
    async with Admin(bootstrap) as admin:
        await admin.create_topics("removed", *_TOPICS)
        await admin.delete_topics("removed")
    async with Producer(bootstrap, transactional_id="payer") as payer:
        async with payer.transaction() as transaction:
            await transaction.send("orders", b"paid", partition=0)
        try:
            async with payer.transaction() as transaction:
                await transaction.send("orders", b"never", partition=0)
                await payer.flush()
                raise LookupError
        except LookupError:
            pass
    async with Producer(bootstrap) as producer:
        for number in range(4):
            await producer.send("latest", b"%d" % number, key=b"k")
    async with Consumer(
        "latest", bootstrap_servers=bootstrap, group_id="veterans", auto_offset_reset="earliest"
    ) as one:
        while not await one.poll(200):
            pass
        await one.commit_sync()
    await leave_open(bootstrap)


async def shown(bootstrap: str) -> dict[str, Any]:
    """Collect what clients see, as JSON has it."""
    async with Admin(bootstrap) as admin:
        names = sorted(await admin.list_topics(include_internal=True))
        topics = {
            topic.name: [str(topic.topic_id), len(topic.partitions)] for topic in await admin.describe_topics(*names)
        }
        offsets = await admin.list_group_offsets("veterans")
        opened = await admin.describe_transaction("leaver")
        cluster_id = (await admin.describe_cluster()).cluster_id
    places = [TopicPartition(topic.name, index) for topic in _TOPICS for index in range(topics[topic.name][1])]
    records = {level: await read(bootstrap, places, level) for level in ("read_committed", "read_uncommitted")}
    return {
        "cluster_id": cluster_id,
        "topics": topics,
        "offsets": {str(place): committed.offset for place, committed in offsets.items()},
        "leaver": [opened.state, opened.producer_id, opened.producer_epoch],
        "records": {
            level: {
                str(place): [[offset, value.decode()] for offset, _, _, value in found] for place, found in of.items()
            }
            for level, of in records.items()
        },
    }


async def _record(bootstrap: str) -> dict[str, Any]:
    await make_past(bootstrap)
    return await shown(bootstrap)


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        overrides = ("offsets.topic.num.partitions=1", "transaction.state.log.num.partitions=1")
        kafka = Kafka(Path(directory), overrides=overrides)
        try:
            SHOWN.write_text(json.dumps(asyncio.run(_record(kafka.bootstrap)), indent=1) + "\n")
        finally:
            kafka.end()
        with tarfile.open(ARCHIVE, "w:gz") as archive:
            archive.add(
                f"{directory}/data", "data", filter=lambda entry: None if entry.name.endswith(_LEFT_OUT) else entry
            )


if __name__ == "__main__":
    main()
