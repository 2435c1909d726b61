"""confluent-kafka's ShareConsumer (librdkafka 2.15 and later, a preview), unmodified: acknowledgements, redelivery,
transactions, and nothing that was accepted comes again when the broker is killed."""

import threading
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from confluent_kafka import AcknowledgeType, KafkaException, Message, Producer, ShareConsumer, TopicPartition

from oncelog.sync import Admin
from tests.conftest import Start
from tests.support.foreign.confluent import new_topic
from tests.support.foreign.interop import QUICK_GROUPS, await_no_lag, unique
from tests.support.patience import PATIENCE_S
from tests.support.processes.daemon import Daemon

PARTITIONS = 2
COUNT = 1_500


class Scene:
    """A topic, and a share group that reads it from its beginning."""

    def __init__(self, daemon: Daemon, partitions: int = 1, **configs: str) -> None:
        self.daemon = daemon
        self.topic, self.group = new_topic(daemon, partitions), unique("group")
        wanted = {f"share.{name.replace('_', '.')}": value for name, value in configs.items()}
        with Admin(daemon.bootstrap) as admin:
            admin.alter_configs({"share.auto.offset.reset": "earliest", **wanted}, group=self.group)

    def produce(self, *values: str) -> None:
        # Records are acquired by whole batches.
        producer = Producer({"bootstrap.servers": self.daemon.bootstrap, "batch.num.messages": 20})
        for value in values:
            producer.produce(self.topic, value)
        assert producer.flush(PATIENCE_S) == 0

    def consumer(self, **settings: Any) -> ShareConsumer:
        named = {name.replace("_", "."): value for name, value in settings.items()}
        consumer = ShareConsumer({"bootstrap.servers": self.daemon.bootstrap, "group.id": self.group, **named})
        consumer.subscribe([self.topic])
        return consumer

    def explicit(self) -> ShareConsumer:
        return self.consumer(share_acknowledgement_mode="explicit")


@pytest.fixture
def daemon(start_daemon: Start) -> Daemon:
    return start_daemon(*QUICK_GROUPS)


def some(consumer: ShareConsumer) -> list[Message]:
    """The records of the next poll that returns any."""
    messages = list(consumer.poll(PATIENCE_S))
    assert messages, "no record in time"
    assert [each.error() for each in messages] == [None] * len(messages)
    return messages


def seen(messages: list[Message]) -> list[tuple[str, int]]:
    return [(each.value().decode(), each.delivery_count()) for each in messages]


def errors(outcomes: dict[TopicPartition, KafkaException | None]) -> list[str | None]:
    return [None if error is None else error.args[0].name() for error in outcomes.values()]


def test_each_acknowledgement_has_its_effect(daemon: Daemon) -> None:
    scene = Scene(daemon)
    scene.produce("accept", "release", "reject")
    with scene.explicit() as consumer:
        messages = some(consumer)
        assert seen(messages) == [("accept", 1), ("release", 1), ("reject", 1)]
        for message in messages:
            consumer.acknowledge(message, getattr(AcknowledgeType, message.value().decode().upper()))
        assert errors(consumer.commit_sync()) == [None]
        messages = some(consumer)
        assert seen(messages) == [("release", 2)]
        consumer.acknowledge(messages[0])
    scene.produce("next")
    with scene.consumer() as consumer:
        assert seen(some(consumer)) == [("next", 1)]
        assert errors(consumer.commit_sync()) == [None]
    with Admin(daemon.bootstrap) as admin:
        assert [each.lag for each in admin.list_share_group_offsets(scene.group).values()] == [0]


def test_a_member_that_is_too_late_gets_an_error_and_the_record_is_anothers(daemon: Daemon) -> None:
    scene = Scene(daemon, record_lock_duration_ms="1000")
    scene.produce("value")
    with scene.explicit() as slow, scene.explicit() as other:
        late = some(slow)
        held = some(other)
        assert (seen(late), seen(held)) == ([("value", 1)], [("value", 2)])
        slow.acknowledge(late[0], AcknowledgeType.REJECT)
        assert errors(slow.commit_sync()) == ["INVALID_RECORD_STATE"]
        other.acknowledge(held[0])
        assert errors(other.commit_sync()) == [None]


@pytest.mark.parametrize("level", ["read_committed", "read_uncommitted"])
def test_the_isolation_level_of_the_group_decides_over_aborted_records(daemon: Daemon, level: str) -> None:
    scene = Scene(daemon, isolation_level=level)
    producer = Producer({"bootstrap.servers": daemon.bootstrap, "transactional.id": scene.topic})
    producer.init_transactions(PATIENCE_S)
    for value, end in (("aborted", producer.abort_transaction), ("committed", producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce(scene.topic, value)
        assert producer.flush(PATIENCE_S) == 0
        end(PATIENCE_S)
    expected = ["committed"] if level == "read_committed" else ["aborted", "committed"]
    values: list[str] = []
    with scene.consumer() as consumer:
        while len(values) < len(expected):
            values += [value for value, _ in seen(some(consumer))]
        assert errors(consumer.commit_sync()) == [None]
    assert values == expected


class Workers:
    """Consumers in threads, and in which order records were delivered and acknowledgements answered."""

    def __init__(self, make: Callable[[], ShareConsumer], number: int) -> None:
        self._make = make
        self._stopped = threading.Event()
        self._news = threading.Condition()
        self._steps = count()
        self.delivered: dict[tuple[int, int], list[int]] = {}
        self.accepted: dict[tuple[int, int], int] = {}
        self.failures: set[str] = set()
        self._threads = [threading.Thread(target=self._work) for _ in range(number)]

    def __enter__(self) -> "Workers":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join(PATIENCE_S)

    def _work(self) -> None:
        with self._make() as consumer:
            while not self._stopped.is_set():
                self._take(consumer)

    def _take(self, consumer: ShareConsumer) -> None:
        places = [(each.partition(), each.offset()) for each in consumer.poll(0.5) if each.error() is None]
        with self._news:
            for place in places:
                self.delivered.setdefault(place, []).append(next(self._steps))
        outcomes = {partition.partition: error for partition, error in consumer.commit_sync(PATIENCE_S).items()}
        with self._news:
            self.failures |= {error.args[0].name() for error in outcomes.values() if error is not None}
            for place in places:
                if outcomes[place[0]] is None:
                    self.accepted.setdefault(place, next(self._steps))
            self._news.notify_all()

    def wait(self, accepted: int) -> None:
        with self._news:
            assert self._news.wait_for(lambda: len(self.accepted) >= accepted, PATIENCE_S), len(self.accepted)


def test_what_was_accepted_never_comes_again_when_the_broker_is_killed(daemon: Daemon) -> None:
    scene = Scene(daemon, PARTITIONS)
    with Workers(lambda: scene.consumer(max_poll_records=20), 2) as workers:
        for part in range(3):
            scene.produce(*(f"{part}-{number}" for number in range(COUNT // 3)))
            workers.wait(len(workers.accepted) + 100)
            daemon.kill()
            daemon.start()
        await_no_lag(daemon, scene.group)
    assert len(workers.delivered) == COUNT
    again = [place for place, step in workers.accepted.items() if max(workers.delivered[place]) > step]
    assert again == []
