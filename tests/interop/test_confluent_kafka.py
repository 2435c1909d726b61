"""confluent-kafka (librdkafka), unmodified, against the daemon."""

import uuid

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from tests.support.foreign.confluent import new_topic, read_all
from tests.support.patience import PATIENCE_S
from tests.support.processes.daemon import Daemon


def produce(daemon: Daemon, topic: str, values: list[bytes], **config: object) -> None:
    producer = Producer({"bootstrap.servers": daemon.bootstrap, "linger.ms": 0, **config})
    errors: list[object] = []
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: errors.append(error) if error else None)
    assert producer.flush(PATIENCE_S) == 0
    assert errors == []


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_plain_records_are_read_back_in_order(daemon: Daemon, acks: str) -> None:
    topic = new_topic(daemon)
    values = [b"%d" % number for number in range(500)]
    produce(daemon, topic, values, acks=acks)
    assert read_all(daemon, topic) == values


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_compressed_batches_pass_through_as_they_are(daemon: Daemon, codec: str) -> None:
    topic = new_topic(daemon)
    values = [b"the same text again and again %d" % number for number in range(200)]
    produce(daemon, topic, values, **{"compression.type": codec, "linger.ms": 20})
    assert read_all(daemon, topic) == values


def test_an_idempotent_producer_keeps_order_with_five_in_flight(daemon: Daemon) -> None:
    topic = new_topic(daemon)
    values = [b"%d" % number for number in range(2000)]
    produce(daemon, topic, values, **{"enable.idempotence": True, "batch.num.messages": 10})
    assert read_all(daemon, topic) == values


def test_a_topic_is_created_by_its_first_use(daemon: Daemon) -> None:
    topic = f"auto-{uuid.uuid4().hex[:8]}"
    produce(daemon, topic, [b"first"])
    assert read_all(daemon, topic) == [b"first"]


def test_only_committed_transactions_reach_read_committed(daemon: Daemon) -> None:
    topic = new_topic(daemon, partitions=3)
    producer = Producer({"bootstrap.servers": daemon.bootstrap, "transactional.id": f"t-{uuid.uuid4().hex[:8]}"})
    producer.init_transactions(PATIENCE_S)
    for round_number in range(6):
        producer.begin_transaction()
        for partition in range(3):
            producer.produce(topic, b"%d-%d" % (round_number, partition), partition=partition)
        producer.flush(PATIENCE_S)  # an abort drops what the client has not sent yet
        if round_number % 2:
            producer.abort_transaction(PATIENCE_S)
        else:
            producer.commit_transaction(PATIENCE_S)
    committed = sorted(b"%d-%d" % (number, partition) for number in (0, 2, 4) for partition in range(3))
    everything = sorted(b"%d-%d" % (number, partition) for number in range(6) for partition in range(3))
    assert sorted(read_all(daemon, topic, partitions=3)) == committed
    assert sorted(read_all(daemon, topic, "read_uncommitted", partitions=3)) == everything


def test_an_open_transaction_holds_back_what_follows_it(daemon: Daemon) -> None:
    topic = new_topic(daemon)
    producer = Producer({"bootstrap.servers": daemon.bootstrap, "transactional.id": f"t-{uuid.uuid4().hex[:8]}"})
    producer.init_transactions(PATIENCE_S)
    produce(daemon, topic, [b"before"])
    producer.begin_transaction()
    producer.produce(topic, b"inside")
    producer.flush(PATIENCE_S)
    produce(daemon, topic, [b"after"])
    assert read_all(daemon, topic) == [b"before"]
    producer.commit_transaction(PATIENCE_S)
    assert read_all(daemon, topic) == [b"before", b"inside", b"after"]


def test_a_fenced_producer_gets_that_error(daemon: Daemon) -> None:
    topic = new_topic(daemon)
    config = {"bootstrap.servers": daemon.bootstrap, "transactional.id": f"t-{uuid.uuid4().hex[:8]}"}
    zombie = Producer(config)
    zombie.init_transactions(PATIENCE_S)
    zombie.begin_transaction()
    zombie.produce(topic, b"zombie")
    zombie.flush(PATIENCE_S)
    successor = Producer(config)
    successor.init_transactions(PATIENCE_S)
    with pytest.raises(KafkaException) as refused:
        zombie.commit_transaction(PATIENCE_S)
    assert refused.value.args[0].fatal()
    assert refused.value.args[0].code() == KafkaError._FENCED
    successor.begin_transaction()
    successor.produce(topic, b"successor")
    successor.commit_transaction(PATIENCE_S)
    assert read_all(daemon, topic) == [b"successor"]


@pytest.mark.parametrize("commit", [True, False])
def test_offsets_are_committed_with_the_transaction_or_not_at_all(daemon: Daemon, commit: bool) -> None:
    source, sink, group = new_topic(daemon), new_topic(daemon), f"group-{uuid.uuid4().hex[:8]}"
    produce(daemon, source, [b"a", b"b", b"c"])
    consumer = Consumer(
        {
            "bootstrap.servers": daemon.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([source])
    producer = Producer({"bootstrap.servers": daemon.bootstrap, "transactional.id": f"t-{uuid.uuid4().hex[:8]}"})
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    for _ in range(3):
        message = consumer.poll(15)
        assert message is not None and message.error() is None
        producer.produce(sink, message.value().upper())
    positions = consumer.position([TopicPartition(source, 0)])
    producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), PATIENCE_S)
    if commit:
        producer.commit_transaction(PATIENCE_S)
    else:
        producer.abort_transaction(PATIENCE_S)
    committed = consumer.committed([TopicPartition(source, 0)], 10)[0].offset
    assert committed == (3 if commit else -1001)
    assert read_all(daemon, sink) == ([b"A", b"B", b"C"] if commit else [])
    consumer.close()


def test_a_group_continues_where_it_committed(daemon: Daemon) -> None:
    topic, group = new_topic(daemon, partitions=2), f"group-{uuid.uuid4().hex[:8]}"
    config = {
        "bootstrap.servers": daemon.bootstrap,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    produce(daemon, topic, [b"%d" % number for number in range(10)], partitioner="consistent_random")
    first = Consumer(config)
    first.subscribe([topic])
    seen = []
    while len(seen) < 10:
        message = first.poll(15)
        assert message is not None and message.error() is None
        seen.append(message.value())
    first.commit(asynchronous=False)
    first.close()
    produce(daemon, topic, [b"10"])
    second = Consumer(config)
    second.subscribe([topic])
    message = second.poll(15)
    assert message is not None and message.value() == b"10"
    second.close()


def test_two_members_share_the_partitions_and_one_takes_over(daemon: Daemon) -> None:
    topic, group = new_topic(daemon, partitions=4), f"group-{uuid.uuid4().hex[:8]}"
    config = {"bootstrap.servers": daemon.bootstrap, "group.id": group, "session.timeout.ms": 6000}
    first, second = Consumer(config), Consumer(config)
    first.subscribe([topic])
    second.subscribe([topic])
    for _ in range(200):
        first.poll(0.05)
        second.poll(0.05)
        if len(first.assignment()) == 2 and len(second.assignment()) == 2:
            break
    owned = {entry.partition for entry in first.assignment()} | {entry.partition for entry in second.assignment()}
    assert owned == {0, 1, 2, 3}
    second.close()
    for _ in range(200):
        first.poll(0.1)
        if len(first.assignment()) == 4:
            break
    assert len(first.assignment()) == 4
    first.close()


def test_admin_describes_and_deletes(daemon: Daemon) -> None:
    topic = new_topic(daemon, partitions=2)
    admin = AdminClient({"bootstrap.servers": daemon.bootstrap})
    described = admin.list_topics(topic, 10).topics[topic]
    assert sorted(described.partitions) == [0, 1]
    resource = ConfigResource(ResourceType.TOPIC, topic)
    config = admin.describe_configs([resource])[resource].result(PATIENCE_S)
    assert config["cleanup.policy"].value == "delete"
    admin.delete_topics([topic])[topic].result(PATIENCE_S)
    assert topic not in admin.list_topics(timeout=PATIENCE_S).topics
