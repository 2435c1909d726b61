"""Kafka Streams with exactly_once_v2 against the daemon, in a classic group and in a streams group (KIP-1071).

Words are counted in a RocksDB store, through two internal topics. The store is not cached, so each word's counts must
come out as 1, 2, 3 … to the end: a lost record leaves a number out or ends too soon, and one that is counted twice goes
beyond. Orders are joined with a table of customers: each must have exactly one bill.
"""

import random
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.conftest import Start
from tests.support.foreign.interop import QUICK_GROUPS
from tests.support.foreign.streams_application import PARTITIONS, Application
from tests.support.patience import PATIENCE_S

pytestmark = pytest.mark.interop

WORDS = [f"word{number}" for number in range(40)]
CUSTOMERS = 20
both_protocols = pytest.mark.parametrize("protocol", ["classic", "streams"])


class WordCount(Application):
    """Words of random lines, and how often each must come out."""

    def __init__(self, bootstrap: str, directory: Path, protocol: str) -> None:
        super().__init__("WordCount", bootstrap, directory, ("lines", "counts"), protocol)
        self._random = random.Random(4)
        self.expected: Counter[str] = Counter()

    def feed(self, producer: Producer) -> None:
        for _ in range(5):
            words = self._random.choices(WORDS, k=5)
            self.expected.update(words)
            producer.produce(f"{self.name}-lines", " ".join(words), partition=self._random.randrange(PARTITIONS))

    def assert_exact(self) -> None:
        seen = self.results("counts", sum(self.expected.values()))
        assert {word: list(map(int, counts)) for word, counts in seen.items()} == {
            word: list(range(1, count + 1)) for word, count in self.expected.items()
        }


class OrderJoin(Application):
    """Orders of customers that were there before."""

    def __init__(self, bootstrap: str, directory: Path) -> None:
        super().__init__("OrderJoin", bootstrap, directory, ("customers", "orders", "bills"))
        self._random = random.Random(4)
        self.expected: dict[str, list[str]] = {}
        producer = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random"})
        for customer in range(CUSTOMERS):
            producer.produce(f"{self.name}-customers", f"name{customer}", f"customer{customer}")
        assert producer.flush(PATIENCE_S) == 0

    def feed(self, producer: Producer) -> None:
        for _ in range(10):
            number, customer = str(len(self.expected)), self._random.randrange(CUSTOMERS)
            self.expected[number] = [f"name{customer}"]
            producer.produce(f"{self.name}-orders", f"{number} customer{customer}")

    def assert_exact(self) -> None:
        assert self.results("bills", len(self.expected)) == self.expected


@pytest.mark.sampled(2)
@both_protocols
def test_words_are_counted_exactly_while_the_application_is_killed(
    start_daemon: Start, tmp_path: Path, protocol: str
) -> None:
    daemon = start_daemon(*QUICK_GROUPS)
    application = WordCount(daemon.bootstrap, tmp_path, protocol)
    with application.fed():
        for _ in range(4):
            with application.running():
                application.await_open_transaction("counts")
    with application.running():
        application.assert_exact()
    application.assert_something_was_aborted(daemon, "counts", sum(application.expected.values()))


@pytest.mark.sampled(2)
@both_protocols
def test_words_are_counted_exactly_while_broker_and_application_are_killed(
    start_daemon: Start, tmp_path: Path, protocol: str
) -> None:
    daemon = start_daemon(*QUICK_GROUPS)
    application = WordCount(daemon.bootstrap, tmp_path, protocol)
    for _ in range(2):
        with application.fed(), application.running():
            for _ in range(2):
                application.await_open_transaction("counts")
                daemon.kill()
                daemon.start()
            application.await_open_transaction("counts")
    with application.running():
        application.assert_exact()
    application.assert_something_was_aborted(daemon, "counts", sum(application.expected.values()))


@pytest.mark.sampled(2)
@both_protocols
def test_words_are_counted_exactly_while_instances_come_and_go(
    start_daemon: Start, tmp_path: Path, protocol: str
) -> None:
    application = WordCount(start_daemon(*QUICK_GROUPS).bootstrap, tmp_path, protocol)
    with application.running("steady"):
        with application.fed():
            for _ in range(2):
                with application.running("coming and going"):
                    application.await_open_transaction("counts")
        application.assert_exact()


def test_counts_continue_from_their_changelog_where_the_state_is_gone(start_daemon: Start, tmp_path: Path) -> None:
    application = WordCount(start_daemon(*QUICK_GROUPS).bootstrap, tmp_path, "streams")
    with application.fed(), application.running("first"):
        application.await_open_transaction("counts")
    with application.fed(), application.running("on another machine"):
        application.await_open_transaction("counts")
    with application.running("on a third one"):
        application.assert_exact()


def test_orders_are_joined_exactly_while_broker_and_application_are_killed(start_daemon: Start, tmp_path: Path) -> None:
    daemon = start_daemon(*QUICK_GROUPS)
    application = OrderJoin(daemon.bootstrap, tmp_path)
    for _ in range(2):
        with application.fed(), application.running():
            application.await_open_transaction("bills")
            daemon.kill()
            daemon.start()
            application.await_open_transaction("bills")
    with application.running():
        application.assert_exact()
    application.assert_something_was_aborted(daemon, "bills", len(application.expected))
