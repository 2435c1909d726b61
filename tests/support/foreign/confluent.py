"""Topics and readers by confluent-kafka, for tests that look at a daemon from outside."""

import uuid

from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.patience import PATIENCE_S
from tests.support.processes.daemon import Daemon


def new_topic(daemon: Daemon, partitions: int = 1) -> str:
    """A topic of a name that no other test has."""
    name = f"topic-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": daemon.bootstrap})
    admin.create_topics([NewTopic(name, partitions, 1)])[name].result(PATIENCE_S)
    return name


def read_all(daemon: Daemon, topic: str, isolation: str = "read_committed", partitions: int = 1) -> list[bytes]:
    """Every value up to the end that this isolation level may reach."""
    consumer = Consumer(
        {
            "bootstrap.servers": daemon.bootstrap,
            "group.id": f"reader-{uuid.uuid4().hex[:8]}",
            "isolation.level": isolation,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
    values: list[bytes] = []
    ended: set[int] = set()
    while len(ended) < partitions:
        message = consumer.poll(PATIENCE_S)
        assert message is not None, "no record and no end of partition in time"
        error = message.error()
        if error is None:
            values.append(message.value())
        elif error.code() == KafkaError._PARTITION_EOF:
            ended.add(message.partition())
        else:
            # A broker that was just killed and started again is reconnected to.
            assert error.retriable() or error.code() in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN), error
    consumer.close()
    return values
