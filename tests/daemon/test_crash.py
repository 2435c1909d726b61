"""kill -9 and start again: what was acknowledged is there, what was decided stays decided."""

from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.foreign.confluent import new_topic, read_all
from tests.support.patience import PATIENCE_S
from tests.support.processes.daemon import Daemon

Start = Callable[..., Daemon]


@pytest.mark.parametrize("policy", ["fsync", "os"])
def test_every_acknowledged_record_survives_kills_under_load_and_none_is_doubled(
    start_daemon: Start, policy: str
) -> None:
    daemon = start_daemon(f"oncelog.flush.policy={policy}")
    topic = new_topic(daemon, partitions=3)
    acknowledged: list[bytes] = []

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        if error is None:
            acknowledged.append(message.value())

    producer = Producer({"bootstrap.servers": daemon.bootstrap, "enable.idempotence": True, "linger.ms": 1})
    total = 6_000
    for number in range(total):
        producer.produce(topic, b"%d" % number, on_delivery=on_delivery)
        producer.poll(0)
        if number in (1_500, 4_000):
            producer.poll(0.05)
            daemon.kill()
            daemon.start()
    assert producer.flush(PATIENCE_S) == 0
    found = read_all(daemon, topic, partitions=3)
    assert len(acknowledged) == total
    assert sorted(found) == sorted(acknowledged)


def test_a_transaction_that_is_open_at_the_kill_can_still_be_committed(start_daemon: Start) -> None:
    daemon = start_daemon()
    topic = new_topic(daemon)
    producer = Producer({"bootstrap.servers": daemon.bootstrap, "transactional.id": "survivor"})
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce(topic, b"before the kill")
    assert producer.flush(PATIENCE_S) == 0
    daemon.kill()
    daemon.start()
    assert read_all(daemon, topic) == []
    producer.produce(topic, b"after the kill")
    producer.commit_transaction(PATIENCE_S)
    assert read_all(daemon, topic) == [b"before the kill", b"after the kill"]


@pytest.mark.parametrize("commit", [True, False])
def test_an_outcome_that_was_answered_stands_after_a_kill_at_once(start_daemon: Start, commit: bool) -> None:
    daemon = start_daemon()
    topic = new_topic(daemon, partitions=8)
    producer = Producer({"bootstrap.servers": daemon.bootstrap, "transactional.id": "decided"})
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    for partition in range(8):
        producer.produce(topic, b"%d" % partition, partition=partition)
    assert producer.flush(PATIENCE_S) == 0
    if commit:
        producer.commit_transaction(PATIENCE_S)
    else:
        producer.abort_transaction(PATIENCE_S)
    daemon.kill()  # the markers may or may not be written: PREPARE decides
    daemon.start()
    # The coordinator completes what it finds prepared before it gives the id to anybody else.
    successor = Producer({"bootstrap.servers": daemon.bootstrap, "transactional.id": "decided"})
    successor.init_transactions(PATIENCE_S)
    expected = [b"%d" % partition for partition in range(8)] if commit else []
    assert sorted(read_all(daemon, topic, partitions=8)) == expected


def test_an_abandoned_transaction_is_aborted_after_its_timeout_also_across_a_kill(start_daemon: Start) -> None:
    daemon = start_daemon()
    topic = new_topic(daemon)
    zombie = Producer(
        {"bootstrap.servers": daemon.bootstrap, "transactional.id": "abandoned", "transaction.timeout.ms": 10_000}
    )
    zombie.init_transactions(PATIENCE_S)
    zombie.begin_transaction()
    zombie.produce(topic, b"abandoned")
    assert zombie.flush(PATIENCE_S) == 0
    daemon.kill()
    daemon.start()
    plain = Producer({"bootstrap.servers": daemon.bootstrap})
    plain.produce(topic, b"plain")
    assert plain.flush(PATIENCE_S) == 0
    consumer = Consumer(
        {"bootstrap.servers": daemon.bootstrap, "group.id": "patient", "isolation.level": "read_committed"}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    message = consumer.poll(PATIENCE_S)  # comes when the last stable offset moves past the aborted transaction
    assert message is not None and message.value() == b"plain"
    consumer.close()
    with pytest.raises(KafkaException) as refused:
        zombie.commit_transaction(PATIENCE_S)
    assert refused.value.args[0].code() == KafkaError._FENCED


def test_topics_groups_offsets_and_the_cluster_id_survive(start_daemon: Start) -> None:
    daemon = start_daemon()
    topic = new_topic(daemon, partitions=2)
    admin = AdminClient({"bootstrap.servers": daemon.bootstrap})
    cluster_id = admin.list_topics(timeout=PATIENCE_S).cluster_id
    config = {
        "bootstrap.servers": daemon.bootstrap,
        "group.id": "keeper",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    producer = Producer({"bootstrap.servers": daemon.bootstrap})
    for number in range(4):
        producer.produce(topic, b"%d" % number, partition=number % 2)
    assert producer.flush(PATIENCE_S) == 0
    consumer = Consumer(config)
    consumer.subscribe([topic])
    for _ in range(4):
        message = consumer.poll(PATIENCE_S)
        assert message is not None and message.error() is None
    consumer.commit(asynchronous=False)
    daemon.kill()
    daemon.start()
    consumer.close()
    metadata = AdminClient({"bootstrap.servers": daemon.bootstrap}).list_topics(timeout=PATIENCE_S)
    assert metadata.cluster_id == cluster_id
    assert sorted(metadata.topics[topic].partitions) == [0, 1]
    again = Consumer(config)
    committed = again.committed([TopicPartition(topic, index) for index in (0, 1)], PATIENCE_S)
    assert [entry.offset for entry in committed] == [2, 2]
    again.close()


def test_a_deleted_topic_stays_deleted_and_its_name_starts_again(start_daemon: Start) -> None:
    daemon = start_daemon()
    admin = AdminClient({"bootstrap.servers": daemon.bootstrap})
    topic = new_topic(daemon)
    producer = Producer({"bootstrap.servers": daemon.bootstrap})
    producer.produce(topic, b"old")
    assert producer.flush(PATIENCE_S) == 0
    admin.delete_topics([topic])[topic].result(PATIENCE_S)
    daemon.kill()
    daemon.start()
    assert topic not in admin.list_topics(timeout=PATIENCE_S).topics
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(PATIENCE_S)
    assert read_all(daemon, topic) == []
