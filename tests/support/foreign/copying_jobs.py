"""Other people's programs that copy records to one topic for ever, fed by a test while the daemon is killed under them.

A program may end at an error, as most do under a supervisor: it is started again. The daemon is killed when the first
of the records that were just fed has come out, so that the program is in the middle of the rest.
"""

import subprocess
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.foreign.confluent import read_all
from tests.support.patience import PATIENCE_S
from tests.support.processes.daemon import Daemon

ROUND = 100
"""Records that are fed at a time."""
KILLS = 2
EXPECTED = {str(number): 1 for number in range(ROUND * (KILLS + 1))}
Feed = Callable[[Sequence[str]], None]


def make_topics(daemon: Daemon, *names: str) -> None:
    admin = AdminClient({"bootstrap.servers": daemon.bootstrap})
    for future in admin.create_topics([NewTopic(name, 1, 1) for name in names]).values():
        future.result(PATIENCE_S)


def feed_topic(daemon: Daemon, topic: str) -> Feed:
    """Writes each value once to this topic."""

    def feed(values: Sequence[str]) -> None:
        producer = Producer({"bootstrap.servers": daemon.bootstrap, "enable.idempotence": True})
        for value in values:
            producer.produce(topic, value)
        assert producer.flush(PATIENCE_S) == 0

    return feed


class Program:
    """A process that is started again when it has ended, and killed when the test ends."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self._command = command
        self.log = log
        self._process = self._start()

    def _start(self) -> "subprocess.Popen[bytes]":
        with self.log.open("ab") as log:
            return subprocess.Popen(self._command, stdout=log, stderr=subprocess.STDOUT)

    def keep_running(self) -> None:
        if self._process.poll() is not None:
            self._process = self._start()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


@contextmanager
def supervised(command: Sequence[str], log: Path) -> Iterator[Program]:
    program = Program(command, log)
    try:
        yield program
    finally:
        program.kill()


def copied_under_kills(daemon: Daemon, program: Program, feed: Feed, sink: str) -> Counter[str]:
    """How often each value is in the sink, read committed; the daemon is killed in each feeding but the last."""
    reader = Consumer(
        {
            "bootstrap.servers": daemon.bootstrap,
            "group.id": f"watch-{uuid.uuid4().hex[:8]}",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
        }
    )
    reader.assign([TopicPartition(sink, 0, 0)])
    seen: set[str] = set()

    def await_seen(count: int) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while len(seen) < count:
            program.keep_running()
            message = reader.poll(0.2)
            if message is not None and message.error() is None:
                seen.add(message.value().decode())
            assert time.monotonic() < deadline, f"{len(seen)} of {count}\n{program.log.read_text()[-4000:]}"

    for round_ in range(KILLS + 1):
        fed = round_ * ROUND
        feed([str(number) for number in range(fed, fed + ROUND)])
        await_seen(fed + 1)
        if round_ < KILLS:
            daemon.kill()
            daemon.start()
            await_seen(fed + ROUND)
    await_seen(len(EXPECTED))
    reader.close()
    return Counter(value.decode() for value in read_all(daemon, sink))
