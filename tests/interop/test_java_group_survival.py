"""Kafka's VerifiableConsumer, unmodified, in groups of the daemon: every assignor of the classic protocol and the
protocol of KIP-848, through members that are killed and brokers that are."""

import json
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.conftest import Start
from tests.support.foreign.confluent import new_topic
from tests.support.foreign.interop import QUICK_GROUPS, java_command, unique
from tests.support.patience import PATIENCE_S
from tests.support.processes.daemon import Daemon

pytestmark = pytest.mark.interop

PARTITIONS = 4
CLASSIC = ("RangeAssignor", "RoundRobinAssignor", "StickyAssignor", "CooperativeStickyAssignor")
PROTOCOLS: dict[str, tuple[str, ...]] = {
    name: ("--session-timeout", "4000", "--assignment-strategy", f"org.apache.kafka.clients.consumer.{name}")
    for name in CLASSIC
}
PROTOCOLS["consumer"] = ("--group-protocol", "consumer")


class Readers:
    """Members in processes of their own, and what all of them have said."""

    def __init__(self, *arguments: str) -> None:
        self._arguments = arguments
        self._news = threading.Condition()
        self._processes: list[subprocess.Popen[str]] = []
        self._threads: list[threading.Thread] = []
        self.owned: dict[int, set[int]] = {}
        """The last assignment of each member, by process id."""
        self.values: Counter[str] = Counter()

    def start(self) -> "subprocess.Popen[str]":
        command = java_command("org.apache.kafka.tools.VerifiableConsumer", *self._arguments)
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self._processes.append(process)
        self.owned[process.pid] = set()
        self._threads.append(threading.Thread(target=self._listen, args=(process,)))
        self._threads[-1].start()
        return process

    def _listen(self, process: "subprocess.Popen[str]") -> None:
        if process.stdout is None:
            raise ValueError("its output is not read")
        for line in process.stdout:
            if line.startswith("{"):
                with self._news:
                    self._hear(process.pid, json.loads(line))
                    self._news.notify_all()

    def _hear(self, pid: int, event: dict[str, object]) -> None:
        if event["name"] == "record_data":
            self.values[str(event["value"])] += 1
        parts = event.get("partitions")
        if not isinstance(parts, list):
            return
        numbers = {part["partition"] for part in parts}
        if event["name"] == "partitions_assigned":
            self.owned[pid] |= numbers
        elif event["name"] == "partitions_revoked":
            self.owned[pid] -= numbers

    def wait(self, holds: Callable[[], bool]) -> None:
        with self._news:
            assert self._news.wait_for(holds, PATIENCE_S), (self.owned, len(self.values))

    def await_shared(self) -> None:
        """Wait until every partition has one owner and every member has some."""

        def holds() -> bool:
            parts = list(self.owned.values())
            return all(parts) and sorted(number for part in parts for number in part) == list(range(PARTITIONS))

        self.wait(holds)

    def kill(self, process: "subprocess.Popen[str]") -> None:
        process.kill()
        process.wait(30)
        with self._news:
            del self.owned[process.pid]

    def stop(self) -> None:
        for process in self._processes:
            if process.poll() is None:
                process.terminate()
                process.wait(30)
        for thread in self._threads:
            thread.join(30)


@contextmanager
def reading(*arguments: str) -> Iterator[Readers]:
    readers = Readers(*arguments)
    try:
        yield readers
    finally:
        readers.stop()


def produce(daemon: Daemon, topic: str, prefix: str) -> set[str]:
    producer = Producer({"bootstrap.servers": daemon.bootstrap})
    values = {f"{prefix}{number}" for number in range(200)}
    for number, value in enumerate(sorted(values)):
        producer.produce(topic, value.encode(), partition=number % PARTITIONS)
    assert producer.flush(PATIENCE_S) == 0
    return values


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", PROTOCOLS)
def test_a_group_reads_on_whichever_process_is_killed(start_daemon: Start, kind: str) -> None:
    daemon = start_daemon(*QUICK_GROUPS)
    topic, group = new_topic(daemon, partitions=PARTITIONS), unique("group")
    to_daemon = ("--bootstrap-server", daemon.bootstrap, "--topic", topic, "--group-id", group)
    settings = ("--reset-policy", "earliest", "--verbose", *PROTOCOLS[kind])
    with reading(*to_daemon, *settings) as readers:
        first = readers.start()
        readers.start()
        readers.await_shared()
        before = produce(daemon, topic, "before")
        readers.wait(lambda: before <= readers.values.keys())
        daemon.kill()
        daemon.start()
        after_broker = produce(daemon, topic, "after-broker")
        readers.wait(lambda: after_broker <= readers.values.keys())
        readers.kill(first)
        readers.await_shared()
        readers.start()
        daemon.kill()  # in the middle of a rebalance
        daemon.start()
        after_member = produce(daemon, topic, "after-member")
        readers.wait(lambda: after_member <= readers.values.keys())
        readers.await_shared()
    assert readers.values.keys() == before | after_broker | after_member
    assert committed(daemon, topic, group) == [150] * PARTITIONS


def committed(daemon: Daemon, topic: str, group: str) -> list[int]:
    consumer = Consumer({"bootstrap.servers": daemon.bootstrap, "group.id": group})
    partitions = [TopicPartition(topic, index) for index in range(PARTITIONS)]
    offsets = [entry.offset for entry in consumer.committed(partitions, 20)]
    consumer.close()
    return offsets
