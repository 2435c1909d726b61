"""Kafka Streams with exactly_once_v2 against the daemon: words counted in a RocksDB store, through two internal topics.

The store is not cached, so each word's counts must come out as 1, 2, 3 … to the end: a lost record leaves a number out
or ends too soon, and one that is counted twice goes beyond.
"""

import random
import subprocess
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, IsolationLevel, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from tests.conftest import Start
from tests.support.confluent import read_all
from tests.support.daemon import Daemon
from tests.support.interop import JAVA_CLASSES, QUICK_GROUPS, await_line, java_command, needs, unique
from tests.support.patience import PATIENCE_S

pytestmark = pytest.mark.interop

PARTITIONS = 3
WORDS = [f"word{number}" for number in range(40)]


class Application:
    """Its input and output topics, and processes of it that share one state directory."""

    def __init__(self, bootstrap: str, directory: Path) -> None:
        needs(JAVA_CLASSES / "WordCount.class")
        self._bootstrap = bootstrap
        self._directory = directory
        self.name = unique("count")
        self.expected: Counter[str] = Counter()
        self._random = random.Random(4)
        admin = AdminClient({"bootstrap.servers": bootstrap})
        topics = [NewTopic(f"{self.name}-{suffix}", PARTITIONS, 1) for suffix in ("lines", "counts")]
        for future in admin.create_topics(topics).values():
            future.result(PATIENCE_S)

    @contextmanager
    def running(self, instance: str = "one") -> Iterator["subprocess.Popen[str]"]:
        """One process, from its first RUNNING on; it is killed with SIGKILL in the end, whatever it does then."""
        command = java_command("WordCount", self._bootstrap, self.name, str(self._directory / instance))
        log = (self._directory / f"{instance}.log").open("a")
        with log, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as process:
            drain = threading.Thread(target=lambda: [log.write(line) for line in process.stdout or ()])
            try:
                await_line(process, "state RUNNING")
                drain.start()
                yield process
            finally:
                process.kill()
                if drain.is_alive():
                    drain.join()

    @contextmanager
    def fed(self) -> Iterator[None]:
        """A steady stream of lines, whatever happens meanwhile to the application or the broker."""
        stopped = threading.Event()
        feeder = threading.Thread(target=self._feed, args=(stopped,))
        feeder.start()
        try:
            yield
        finally:
            stopped.set()
            feeder.join()

    def _feed(self, stopped: threading.Event) -> None:
        producer = Producer({"bootstrap.servers": self._bootstrap, "enable.idempotence": True, "linger.ms": 5})
        while not stopped.wait(0.02):
            for _ in range(5):
                words = self._random.choices(WORDS, k=5)
                self.expected.update(words)
                producer.produce(f"{self.name}-lines", " ".join(words), partition=self._random.randrange(PARTITIONS))
            producer.poll(0)  # reports of deliveries count as queued until they are taken
        assert producer.flush(PATIENCE_S) == 0

    def await_open_transaction(self) -> None:
        """Until counts are written that are not committed yet: the middle of a transaction."""
        admin = AdminClient({"bootstrap.servers": self._bootstrap})
        asked = {TopicPartition(f"{self.name}-counts", index): OffsetSpec.latest() for index in range(PARTITIONS)}
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            ends = [
                sum(
                    future.result(PATIENCE_S).offset
                    for future in admin.list_offsets(asked, isolation_level=level).values()
                )
                for level in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)
            ]
            if ends[0] < ends[1]:
                return
        raise AssertionError("no transaction was open at any time")

    def said(self, instance: str = "one") -> str:
        return (self._directory / f"{instance}.log").read_text()

    def counts(self) -> dict[str, list[int]]:
        """All counts that came out for each word, once those of all the words are there."""
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": unique("reader"),
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        consumer.assign([TopicPartition(f"{self.name}-counts", index, 0) for index in range(PARTITIONS)])
        seen: dict[str, list[int]] = defaultdict(list)
        deadline = time.monotonic() + PATIENCE_S
        missing = sum(self.expected.values())
        message = None
        # One poll more than needed: a record too many comes with it.
        while missing > 0 or message is not None:
            message = consumer.poll(1)
            assert time.monotonic() < deadline, f"{missing} counts did not come"
            if message is not None and message.error() is None:
                seen[message.key().decode()].append(int(message.value()))
                missing -= 1
        consumer.close()
        return seen

    def assert_exact(self) -> None:
        seen = self.counts()
        assert seen == {word: list(range(1, count + 1)) for word, count in self.expected.items()}

    def assert_something_was_aborted(self, daemon: Daemon) -> None:
        """Otherwise the kills came between the transactions, and showed nothing."""
        everything = read_all(daemon, f"{self.name}-counts", "read_uncommitted", PARTITIONS)
        assert len(everything) > sum(self.expected.values())


def test_words_are_counted_exactly_while_the_application_is_killed(start_daemon: Start, tmp_path: Path) -> None:
    daemon = start_daemon(*QUICK_GROUPS)
    application = Application(daemon.bootstrap, tmp_path)
    with application.fed():
        for _ in range(4):
            with application.running():
                application.await_open_transaction()
    with application.running():
        application.assert_exact()
    application.assert_something_was_aborted(daemon)


def test_words_are_counted_exactly_while_broker_and_application_are_killed(start_daemon: Start, tmp_path: Path) -> None:
    daemon = start_daemon(*QUICK_GROUPS)
    application = Application(daemon.bootstrap, tmp_path)
    for _ in range(2):
        with application.fed(), application.running():
            for _ in range(2):
                application.await_open_transaction()
                daemon.kill()
                daemon.start()
            application.await_open_transaction()
    with application.running():
        application.assert_exact()
    application.assert_something_was_aborted(daemon)


def test_words_are_counted_exactly_while_instances_come_and_go(start_daemon: Start, tmp_path: Path) -> None:
    application = Application(start_daemon(*QUICK_GROUPS).bootstrap, tmp_path)
    with application.running("steady"):
        with application.fed():
            for _ in range(2):
                with application.running("coming and going"):
                    application.await_open_transaction()
        application.assert_exact()
