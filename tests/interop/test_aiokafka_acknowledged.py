"""aiokafka, unmodified: each record that its producer saw acknowledged, by default with acks=1, is there for the next
reader.
"""

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete

from oncelog.protocol.generated.fetch_request import FetchPartition, FetchRequest, FetchTopic
from tests.clients.wire import WireBroker
from tests.conftest import Start
from tests.interop.test_aiokafka import new_topic, producing

pytestmark = pytest.mark.sampled(4)

TRIES = 100
POLICIES = pytest.mark.parametrize("policy", ["fsync", "os"])
ACKS = pytest.mark.parametrize("acks", [1, "all"])


@POLICIES
@ACKS
async def test_records_can_be_deleted_as_soon_as_they_are_acknowledged(
    start_daemon: Start, policy: str, acks: int | str
) -> None:
    daemon = start_daemon(f"oncelog.flush.policy={policy}")
    partition = TopicPartition(await new_topic(daemon), 0)
    admin = AIOKafkaAdminClient(bootstrap_servers=daemon.bootstrap)
    await admin.start()
    behind = 0
    async with producing(daemon, acks=acks) as producer:
        for _ in range(TRIES):
            offset = (await producer.send_and_wait(partition.topic, b"value")).offset
            result = await admin.delete_records({partition: RecordsToDelete(offset + 1)})
            behind += result[partition] != offset + 1
    await admin.close()
    assert behind == 0


@POLICIES
@ACKS
async def test_the_end_of_a_partition_is_behind_all_that_is_acknowledged(
    start_daemon: Start, policy: str, acks: int | str
) -> None:
    daemon = start_daemon(f"oncelog.flush.policy={policy}")
    partition = TopicPartition(await new_topic(daemon), 0)
    consumer = AIOKafkaConsumer(bootstrap_servers=daemon.bootstrap)
    await consumer.start()
    behind = 0
    async with producing(daemon, acks=acks) as producer:
        for _ in range(TRIES):
            offset = (await producer.send_and_wait(partition.topic, b"value")).offset
            behind += (await consumer.end_offsets([partition]))[partition] <= offset
    await consumer.stop()
    assert behind == 0


@POLICIES
@ACKS
async def test_a_fetch_that_does_not_wait_gets_what_is_acknowledged(
    start_daemon: Start, policy: str, acks: int | str
) -> None:
    """aiokafka's consumer waits for records, so the Fetch comes from a bare connection."""
    daemon = start_daemon(f"oncelog.flush.policy={policy}")
    topic = await new_topic(daemon)
    reader = WireBroker(daemon.bootstrap)
    behind = 0
    async with producing(daemon, acks=acks) as producer:
        for _ in range(TRIES):
            offset = (await producer.send_and_wait(topic, b"value")).offset
            wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=100_000)
            at_once = FetchRequest(
                max_wait_ms=0,
                min_bytes=0,
                max_bytes=100_000,
                session_epoch=-1,
                topics=[FetchTopic(topic=topic, partitions=[wanted])],
            )
            behind += not reader.ask(at_once, 11).responses[0].partitions[0].records
    reader.close()
    assert behind == 0
