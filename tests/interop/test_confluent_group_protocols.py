"""confluent-kafka, unmodified: both group protocols in one group, assignors, static members, transactions (KIP-848)."""

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.support.foreign.confluent import new_topic, read_all
from tests.support.patience import PATIENCE_S
from tests.support.processes.daemon import Daemon

SETTINGS = (
    "group.consumer.min.heartbeat.interval.ms=100",
    "group.consumer.heartbeat.interval.ms=200",
    "group.consumer.assignment.interval.ms=100",
)


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    running = Daemon(tmp_path / "data", *SETTINGS)
    yield running
    running.stop()


def member(daemon: Daemon, group: str, topic: str, protocol: str = "consumer", **settings: Any) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": daemon.bootstrap,
            "group.id": group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **settings,
        }
    )
    consumer.subscribe([topic])
    return consumer


def wait(done: Callable[[], bool], *polled: Consumer) -> None:
    """Poll until it is done."""
    deadline = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < deadline, [consumer.assignment() for consumer in polled]
        for consumer in polled:
            consumer.poll(0.05)


def owned(consumer: Consumer) -> set[int]:
    return {partition.partition for partition in consumer.assignment()}


def shared(*consumers: Consumer) -> Callable[[], bool]:
    """Whether every partition is owned, by one member each."""

    def is_shared() -> bool:
        parts = [owned(consumer) for consumer in consumers]
        return all(parts) and sorted(number for part in parts for number in part) == list(range(4))

    return is_shared


def new_group() -> str:
    return f"group-{uuid.uuid4().hex[:8]}"


def produce(daemon: Daemon, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": daemon.bootstrap})
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=number % 4)
    assert producer.flush(PATIENCE_S) == 0


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_two_share_by_the_assignor_they_ask_for(daemon: Daemon, assignor: str) -> None:
    topic, group, settings = new_topic(daemon, 4), new_group(), {"group.remote.assignor": assignor}
    with closing(member(daemon, group, topic, **settings)) as one:
        with closing(member(daemon, group, topic, **settings)) as two:
            wait(shared(one, two), one, two)
            assert len(owned(one)) == len(owned(two)) == 2
            admin = AdminClient({"bootstrap.servers": daemon.bootstrap})
            assert admin.describe_consumer_groups([group])[group].result(PATIENCE_S).partition_assignor == assignor
        wait(shared(one), one)


def test_a_static_member_returns_to_its_partitions(daemon: Daemon) -> None:
    topic, group = new_topic(daemon, 4), new_group()
    with closing(member(daemon, group, topic)) as witness:
        first = member(daemon, group, topic, **{"group.instance.id": "i"})
        wait(shared(witness, first), witness, first)
        kept, rest = owned(first), owned(witness)
        first.close()
        with closing(member(daemon, group, topic, **{"group.instance.id": "i"})) as second:
            wait(lambda: owned(second) == kept, witness, second)
            assert owned(witness) == rest


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_group_changes_its_protocol_member_by_member_and_back(daemon: Daemon, strategy: str) -> None:
    topic, group = new_topic(daemon, 4), new_group()
    produce(daemon, topic, 4)
    classic = {"partition.assignment.strategy": strategy, "session.timeout.ms": 6000, "heartbeat.interval.ms": 300}
    old = member(daemon, group, topic, "classic", **classic)
    wait(shared(old), old)
    new = member(daemon, group, topic)
    wait(shared(old, new), old, new)
    old.close()
    wait(shared(new), new)
    new.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
    back = member(daemon, group, topic, "classic", **classic)
    wait(shared(new, back), new, back)
    new.close()
    wait(shared(back), back)
    assert back.committed([TopicPartition(topic, 0)], 10)[0].offset == 1
    back.close()


def test_offsets_go_with_a_transaction_of_a_member(daemon: Daemon) -> None:
    source, sink, group = new_topic(daemon, 4), new_topic(daemon), new_group()
    produce(daemon, source, 8)
    producer = Producer({"bootstrap.servers": daemon.bootstrap, "transactional.id": group})
    producer.init_transactions(PATIENCE_S)
    with closing(member(daemon, group, source)) as consumer:
        values: list[bytes] = []
        while len(values) < 8:
            message: Any = consumer.poll(PATIENCE_S)
            assert message is not None
            if message.error() is not None:
                continue
            producer.begin_transaction()
            producer.produce(sink, message.value())
            position = [TopicPartition(source, message.partition(), message.offset() + 1)]
            producer.send_offsets_to_transaction(position, consumer.consumer_group_metadata(), PATIENCE_S)
            producer.commit_transaction(PATIENCE_S)
            values.append(message.value())
        committed = consumer.committed([TopicPartition(source, number) for number in range(4)], 10)
        assert [partition.offset for partition in committed] == [2, 2, 2, 2]
    assert sorted(read_all(daemon, sink)) == sorted(values)
