"""A Kafka Streams application of tests/interop/java: its topics, its processes, what goes in and what comes out."""

import subprocess
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Consumer, IsolationLevel, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from tests.support.foreign.confluent import read_all
from tests.support.foreign.interop import JAVA_CLASSES, await_line, java_command, needs, unique
from tests.support.patience import PATIENCE_S
from tests.support.processes.daemon import Daemon

PARTITIONS = 3


class Application:
    """Its topics, and processes of it that share one state directory for each instance."""

    def __init__(self, program: str, bootstrap: str, directory: Path, topics: Sequence[str], *arguments: str) -> None:
        needs(JAVA_CLASSES / f"{program}.class")
        self._program = program
        self._bootstrap = bootstrap
        self._directory = directory
        self._arguments = arguments
        self.name = unique(program.lower())
        admin = AdminClient({"bootstrap.servers": bootstrap})
        new = [NewTopic(f"{self.name}-{suffix}", PARTITIONS, 1) for suffix in topics]
        for future in admin.create_topics(new).values():
            future.result(PATIENCE_S)

    @contextmanager
    def running(self, instance: str = "one") -> Iterator["subprocess.Popen[str]"]:
        """One process, from its first RUNNING on; it is killed with SIGKILL in the end, whatever it does then."""
        state = str(self._directory / instance)
        command = java_command(self._program, self._bootstrap, self.name, state, *self._arguments)
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

    def feed(self, producer: Producer) -> None:
        """Produce a little more, and remember what must come out."""
        raise NotImplementedError

    @contextmanager
    def fed(self) -> Iterator[None]:
        """A steady stream of records, whatever happens meanwhile to the application or the broker."""
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
            self.feed(producer)
            producer.poll(0)  # reports of deliveries count as queued until they are taken
        assert producer.flush(PATIENCE_S) == 0

    def await_open_transaction(self, topic: str) -> None:
        """Wait until results are written that are not committed yet: the middle of a transaction."""
        admin = AdminClient({"bootstrap.servers": self._bootstrap})
        asked = {TopicPartition(f"{self.name}-{topic}", index): OffsetSpec.latest() for index in range(PARTITIONS)}
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

    def results(self, topic: str, count: int) -> dict[str, list[str]]:
        """The committed values of each key in order, once that many are there."""
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": unique("reader"),
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        consumer.assign([TopicPartition(f"{self.name}-{topic}", index, 0) for index in range(PARTITIONS)])
        seen: dict[str, list[str]] = defaultdict(list)
        deadline = time.monotonic() + PATIENCE_S
        missing = count
        message = None
        # One poll more than needed: a record too many comes with it.
        while missing > 0 or message is not None:
            message = consumer.poll(1)
            assert time.monotonic() < deadline, f"{missing} results did not come"
            if message is not None and message.error() is None:
                seen[message.key().decode()].append(message.value().decode())
                missing -= 1
        consumer.close()
        return seen

    def said(self, instance: str = "one") -> str:
        return (self._directory / f"{instance}.log").read_text()

    def assert_something_was_aborted(self, daemon: Daemon, topic: str, count: int) -> None:
        """Otherwise the kills came between the transactions, and showed nothing."""
        everything = read_all(daemon, f"{self.name}-{topic}", "read_uncommitted", PARTITIONS)
        assert len(everything) > count
