"""kafka-python, unmodified, against the daemon."""

import uuid

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, NewPartitions, NewTopic
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

from tests.support.patience import PATIENCE_S
from tests.support.processes.daemon import Daemon


def new_topic(daemon: Daemon, partitions: int = 1) -> str:
    name = f"topic-{uuid.uuid4().hex[:8]}"
    admin = KafkaAdminClient(bootstrap_servers=daemon.bootstrap)
    try:
        admin.create_topics([NewTopic(name, partitions, 1)])
    finally:
        admin.close()
    return name


def end_of(daemon: Daemon, partition: TopicPartition) -> int:
    """The end of the log for a read_uncommitted reader, whether markers are written already or, as in Kafka, follow."""
    consumer = KafkaConsumer(bootstrap_servers=daemon.bootstrap, isolation_level="read_uncommitted")
    try:
        return int(consumer.end_offsets([partition])[partition])
    finally:
        consumer.close()


def read_all(daemon: Daemon, topic: str, isolation: str = "read_committed") -> list[bytes]:
    """Every value of partition 0 that this isolation level is given; no transaction may be left open."""
    partition = TopicPartition(topic, 0)
    end = end_of(daemon, partition)
    consumer = KafkaConsumer(bootstrap_servers=daemon.bootstrap, isolation_level=isolation, enable_auto_commit=False)
    try:
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)
        values: list[bytes] = []
        while consumer.position(partition) < end:
            for records in consumer.poll(timeout_ms=500).values():
                values += [record.value for record in records]
        return values
    finally:
        consumer.close()


def transactional(daemon: Daemon, transactional_id: str | None = None) -> KafkaProducer:
    producer = KafkaProducer(
        bootstrap_servers=daemon.bootstrap, transactional_id=transactional_id or f"t-{uuid.uuid4().hex[:8]}"
    )
    producer.init_transactions()
    return producer


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_plain_records_are_read_back_in_order(daemon: Daemon, acks: int | str) -> None:
    topic = new_topic(daemon)
    values = [b"%d" % number for number in range(200)]
    producer = KafkaProducer(bootstrap_servers=daemon.bootstrap, acks=acks, enable_idempotence=False)
    for value in values:
        producer.send(topic, value)
    producer.flush(PATIENCE_S)
    producer.close()
    assert read_all(daemon, topic) == values


@pytest.mark.parametrize("codec", ["gzip", "lz4", "zstd"])
def test_compressed_batches_are_read_back_in_order(daemon: Daemon, codec: str) -> None:
    topic = new_topic(daemon)
    values = [b"the same text again and again %d" % number for number in range(500)]
    producer = KafkaProducer(bootstrap_servers=daemon.bootstrap, compression_type=codec, linger_ms=20)
    for value in values:
        producer.send(topic, value, key=b"key", headers=[("codec", codec.encode())])
    producer.flush(PATIENCE_S)
    producer.close()
    assert read_all(daemon, topic) == values


def test_an_idempotent_producer_writes_each_record_once(daemon: Daemon) -> None:
    topic = new_topic(daemon)
    values = [b"%d" % number for number in range(200)]
    producer = KafkaProducer(bootstrap_servers=daemon.bootstrap, enable_idempotence=True)
    for value in values:
        producer.send(topic, value)
    producer.flush(PATIENCE_S)
    producer.close()
    assert read_all(daemon, topic) == values


def test_only_committed_transactions_reach_read_committed(daemon: Daemon) -> None:
    topic = new_topic(daemon)
    producer = transactional(daemon)
    for value, commit in ((b"one", True), (b"aborted", False), (b"two", True)):
        producer.begin_transaction()
        producer.send(topic, value).get(10)
        if commit:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
    producer.close()
    assert read_all(daemon, topic) == [b"one", b"two"]
    assert read_all(daemon, topic, "read_uncommitted") == [b"one", b"aborted", b"two"]


def test_a_fenced_producer_cannot_commit(daemon: Daemon) -> None:
    topic, transactional_id = new_topic(daemon), f"t-{uuid.uuid4().hex[:8]}"
    zombie = transactional(daemon, transactional_id)
    zombie.begin_transaction()
    zombie.send(topic, b"zombie").get(10)
    successor = transactional(daemon, transactional_id)
    with pytest.raises(KafkaError):
        zombie.commit_transaction()
    successor.begin_transaction()
    successor.send(topic, b"successor").get(10)
    successor.commit_transaction()
    successor.close()
    zombie.close(timeout=1)
    assert read_all(daemon, topic) == [b"successor"]


@pytest.mark.parametrize("commit", [True, False])
def test_offsets_are_committed_with_the_transaction_or_not_at_all(daemon: Daemon, commit: bool) -> None:
    source, sink, group = new_topic(daemon), new_topic(daemon), f"group-{uuid.uuid4().hex[:8]}"
    plain = KafkaProducer(bootstrap_servers=daemon.bootstrap)
    for value in (b"a", b"b", b"c"):
        plain.send(source, value).get(10)
    plain.close()
    consumer = KafkaConsumer(
        source,
        bootstrap_servers=daemon.bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    producer = transactional(daemon)
    producer.begin_transaction()
    for _ in range(3):
        producer.send(sink, next(consumer).value.upper())
    partition = TopicPartition(source, 0)
    offsets = {partition: OffsetAndMetadata(consumer.position(partition), "", -1)}
    producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
    if commit:
        producer.commit_transaction()
    else:
        producer.abort_transaction()
    assert consumer.committed(partition) == (3 if commit else None)
    assert read_all(daemon, sink) == ([b"A", b"B", b"C"] if commit else [])
    producer.close()
    consumer.close()


def test_a_group_continues_where_it_committed(daemon: Daemon) -> None:
    topic, group = new_topic(daemon), f"group-{uuid.uuid4().hex[:8]}"
    producer = KafkaProducer(bootstrap_servers=daemon.bootstrap)
    for number in range(5):
        producer.send(topic, b"%d" % number).get(10)
    producer.close()

    def consume(count: int) -> list[bytes]:
        consumer = KafkaConsumer(
            topic,
            bootstrap_servers=daemon.bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            max_poll_records=1,
        )
        try:
            values = [next(consumer).value for _ in range(count)]
            consumer.commit({TopicPartition(topic, 0): OffsetAndMetadata(int(values[-1]) + 1, "", -1)})
            return values
        finally:
            consumer.close()

    assert consume(3) == [b"0", b"1", b"2"]
    assert consume(2) == [b"3", b"4"]


def test_admin_makes_changes_describes_and_deletes(daemon: Daemon) -> None:
    topic, group = new_topic(daemon), f"group-{uuid.uuid4().hex[:8]}"
    admin = KafkaAdminClient(bootstrap_servers=daemon.bootstrap)
    try:
        admin.create_partitions({topic: NewPartitions(3)})
        (described,) = admin.describe_topics([topic])
        assert len(described["partitions"]) == 3
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, {"max.message.bytes": "65536"})
        admin.alter_configs([resource])
        assert "65536" in str(admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)]))
        producer = KafkaProducer(bootstrap_servers=daemon.bootstrap)
        for _ in range(10):
            producer.send(topic, b"value", partition=0)
        producer.flush(PATIENCE_S)
        producer.close()
        partition = TopicPartition(topic, 0)
        admin.delete_records({partition: 4})
        consumer = KafkaConsumer(bootstrap_servers=daemon.bootstrap, group_id=group)
        assert (consumer.beginning_offsets([partition]), consumer.end_offsets([partition])) == (
            {partition: 4},
            {partition: 10},
        )
        consumer.assign([partition])
        consumer.commit({partition: OffsetAndMetadata(7, "", -1)})
        consumer.close()
        assert group in str(admin.list_groups())
        admin.delete_groups([group])
        assert group not in str(admin.list_groups())
        admin.delete_topics([topic])
        assert topic not in admin.list_topics()
    finally:
        admin.close()
