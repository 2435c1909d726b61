"""Kafka's VerifiableShareConsumer, unmodified, in a share group of the daemon: members and brokers are killed, nothing
is lost, and no record whose acknowledgement was answered is delivered again."""

import json
import subprocess
import threading
from collections import Counter
from collections.abc import Callable

import pytest
from confluent_kafka import Producer

from tests.conftest import Start
from tests.support.foreign.confluent import new_topic
from tests.support.foreign.interop import QUICK_GROUPS, await_no_lag, java_command, unique
from tests.support.patience import PATIENCE_S
from tests.support.processes.daemon import Daemon

pytestmark = pytest.mark.interop

PARTITIONS = 2
Place = tuple[int, int]
"""A partition and an offset."""


class Members:
    """Consumers in processes of their own, and what they say of each record."""

    def __init__(self, *arguments: str) -> None:
        self._arguments = arguments
        self._news = threading.Condition()
        self._processes: list[subprocess.Popen[str]] = []
        self._threads: list[threading.Thread] = []
        self.consumed: dict[Place, list[int]] = {}
        """When each was delivered."""
        self.acknowledged: dict[Place, list[int]] = {}
        """When each acknowledgement was answered."""
        self.failures: Counter[str] = Counter()
        self.workers: set[int] = set()

    def start(self) -> "subprocess.Popen[str]":
        command = java_command("org.apache.kafka.tools.VerifiableShareConsumer", *self._arguments)
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self._processes.append(process)
        self._threads.append(threading.Thread(target=self._listen, args=(process,)))
        self._threads[-1].start()
        return process

    def _listen(self, process: "subprocess.Popen[str]") -> None:
        for line in process.stdout or ():
            if line.startswith("{"):
                with self._news:
                    self._hear(process.pid, json.loads(line))
                    self._news.notify_all()

    def _hear(self, pid: int, event: dict[str, object]) -> None:
        parts = event.get("partitions")
        if not isinstance(parts, list):
            return
        seen = self.consumed if event["name"] == "records_consumed" else self.acknowledged
        if event.get("success") is False:
            self.failures[str(event["error"])] += 1
            return
        self.workers.add(pid)
        for part in parts:
            for offset in part["offsets"]:
                seen.setdefault((part["partition"], offset), []).append(int(str(event["timestamp"])))

    def wait(self, holds: Callable[[], bool]) -> None:
        with self._news:
            assert self._news.wait_for(holds, PATIENCE_S), (len(self.consumed), len(self.acknowledged), self.failures)

    def await_acknowledged(self, more: int) -> None:
        wanted = len(self.acknowledged) + more
        self.wait(lambda: len(self.acknowledged) >= wanted)

    def stop(self) -> None:
        for process in self._processes:
            if process.poll() is None:
                process.terminate()
                process.wait(PATIENCE_S)
        for thread in self._threads:
            thread.join(PATIENCE_S)


def feed(daemon: Daemon, topic: str, stopped: threading.Event, ends: Counter[int]) -> None:
    """Records one after the other, whatever happens to the broker; counts what each partition has in the end."""
    producer = Producer({"bootstrap.servers": daemon.bootstrap, "enable.idempotence": True, "linger.ms": 1})
    sent = 0
    while not stopped.wait(0.002):
        producer.produce(topic, b"%d" % sent, partition=sent % PARTITIONS)
        ends[sent % PARTITIONS] += 1
        producer.poll(0)
        sent += 1
    assert producer.flush(PATIENCE_S) == 0


@pytest.mark.sampled(2)
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_no_acknowledgement_that_was_answered_is_forgotten_whichever_process_is_killed(
    start_daemon: Start, mode: str
) -> None:
    daemon = start_daemon(*QUICK_GROUPS, "group.share.record.lock.duration.ms=15000")
    topic, group = new_topic(daemon, partitions=PARTITIONS), unique("group")
    to_daemon = ("--bootstrap-server", daemon.bootstrap, "--topic", topic, "--group-id", group)
    members = Members(*to_daemon, "--acknowledgement-mode", mode, "--offset-reset-strategy", "earliest")
    stopped, ends = threading.Event(), Counter[int]()
    feeder = threading.Thread(target=feed, args=(daemon, topic, stopped, ends))
    feeder.start()
    try:
        first = members.start()
        second = members.start()
        members.wait(lambda: {first.pid, second.pid} <= members.workers)
        for victim in (daemon, first, daemon):
            members.await_acknowledged(300)
            victim.kill()
            if victim is daemon:
                daemon.start()
            else:
                third = members.start()
        members.wait(lambda: {second.pid, third.pid} <= members.workers)
        stopped.set()
        feeder.join()
        wanted = {(partition, offset) for partition in range(PARTITIONS) for offset in range(ends[partition])}
        await_no_lag(daemon, group)
    finally:
        stopped.set()
        feeder.join()
        members.stop()
    assert members.consumed.keys() == wanted
    again = [place for place, times in members.acknowledged.items() if max(members.consumed[place]) > min(times)]
    assert again == []
