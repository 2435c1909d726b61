"""The broker's image, from inside its compose network, with librdkafka: what a service beside it would do."""

import os
import uuid

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

pytestmark = [pytest.mark.compose, pytest.mark.timeout(60)]
BOOTSTRAP = os.environ.get("ONCELOG_BOOTSTRAP", "broker:9092")
# The broker's container may still be starting; librdkafka goes on trying within this time.
START_TIMEOUT_S = 30


@pytest.fixture(scope="module")
def admin() -> AdminClient:
    admin = AdminClient({"bootstrap.servers": BOOTSTRAP})
    admin.list_topics(timeout=START_TIMEOUT_S)
    return admin


@pytest.fixture
def topic(admin: AdminClient) -> str:
    name = f"purchases-{uuid.uuid4()}"
    admin.create_topics([NewTopic(name, num_partitions=2, replication_factor=1)])[name].result(10)
    return name


def _read(topic: str, isolation: str) -> list[bytes]:
    """All values that a reader of that isolation sees, up to the end of both partitions."""
    consumer = Consumer(
        {
            "bootstrap.servers": BOOTSTRAP,
            "group.id": str(uuid.uuid4()),
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in (0, 1)])
    values: list[bytes] = []
    ended: set[int] = set()
    while len(ended) < 2:
        message = consumer.poll(10)
        assert message is not None, f"nothing more came after {len(values)} records"
        if message.error():
            ended.add(message.partition())
        else:
            values.append(message.value())
    consumer.close()
    return sorted(values)


def test_the_broker_is_told_under_the_name_that_services_reach_it_by(admin: AdminClient) -> None:
    (broker,) = admin.list_topics(timeout=10).brokers.values()
    assert f"{broker.host}:{broker.port}" == BOOTSTRAP


def test_a_transaction_is_seen_whole_or_not_at_all(topic: str) -> None:
    producer = Producer({"bootstrap.servers": BOOTSTRAP, "transactional.id": f"writer-{uuid.uuid4()}"})
    producer.init_transactions(START_TIMEOUT_S)
    for commit, values in ((False, (b"aborted-1", b"aborted-2")), (True, (b"kept-1", b"kept-2"))):
        producer.begin_transaction()
        for partition, value in enumerate(values):
            producer.produce(topic, value, partition=partition)
        producer.flush(10)
        if commit:
            producer.commit_transaction(10)
        else:
            producer.abort_transaction(10)
    assert _read(topic, "read_committed") == [b"kept-1", b"kept-2"]
    assert _read(topic, "read_uncommitted") == [b"aborted-1", b"aborted-2", b"kept-1", b"kept-2"]


def test_a_group_goes_on_where_its_offsets_were_committed_in_a_transaction(topic: str) -> None:
    writer = Producer({"bootstrap.servers": BOOTSTRAP, "enable.idempotence": True})
    for number in range(10):
        writer.produce(topic, str(number).encode(), partition=0)
    assert writer.flush(10) == 0

    settings = {
        "bootstrap.servers": BOOTSTRAP,
        "group.id": f"readers-{uuid.uuid4()}",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    first = Consumer(settings)
    first.subscribe([topic])
    for message in first.consume(4, timeout=START_TIMEOUT_S):
        assert message.error() is None
    producer = Producer({"bootstrap.servers": BOOTSTRAP, "transactional.id": f"copier-{uuid.uuid4()}"})
    producer.init_transactions(START_TIMEOUT_S)
    producer.begin_transaction()
    producer.send_offsets_to_transaction([TopicPartition(topic, 0, 4)], first.consumer_group_metadata(), 10)
    producer.commit_transaction(10)
    first.close()

    second = Consumer(settings)
    second.subscribe([topic])
    messages = second.consume(6, timeout=START_TIMEOUT_S)
    second.close()
    assert [message.value() for message in messages] == [b"4", b"5", b"6", b"7", b"8", b"9"]
