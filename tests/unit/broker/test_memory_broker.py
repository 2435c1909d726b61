"""A broker without files: what clients see is the same, with `oncelog.storage=memory`, where everything comes later,
and over tables; no file is made.

The tests of transactions, groups and topics run over it as they are, but for those that look into files, or start the
broker again.
"""

import inspect
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from random import Random
from types import ModuleType
from typing import Any

import pytest

from oncelog.broker.assembly import broker as assembly
from oncelog.broker.storage.shared.store import SharedLogStore, SharedSizes, open_store
from oncelog.broker.turns.slices import Sliced
from tests.clients.administration import create, fetch, produce
from tests.fakes.broker import VirtualBroker
from tests.fakes.database import Database
from tests.fakes.late_store import LateLogStore
from tests.fakes.tables import FakeTables

MEMORY = "oncelog.storage=memory"
_NEEDS_FILES = re.compile(
    r"\.(killed|crashed|disk|stopped)\b|operations_left|read_records|flush\.policy|tmp_path|epochs_in"
    r"|durable_too_late|before_its_creation_is_durable|a_kill_can_still_undo"
)


def _tests_of(*modules: ModuleType) -> Iterator[Callable[[], None]]:
    for module in modules:
        for name, function in inspect.getmembers(module, inspect.isfunction):
            own = name.startswith("test_") and function.__module__ == module.__name__
            if (
                own
                and not inspect.signature(function).parameters
                and not _NEEDS_FILES.search(inspect.getsource(function))
            ):
                yield function


@pytest.fixture
def in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every broker of this test keeps its records in memory."""
    init = VirtualBroker.__init__

    def with_memory(self: VirtualBroker, *overrides: str, **options: Any) -> None:
        init(self, MEMORY, *overrides, **options)

    monkeypatch.setattr(VirtualBroker, "__init__", with_memory)


SUITES = (
    "broker.test_produce",
    "broker.test_topic_administration",
    "broker.test_topics",
    "group.test_deleted_topics",
    "group.test_offsets",
    "group.test_rebalance",
    "group.test_transactional_offsets",
    "transaction.test_fencing",
    "transaction.test_kafka_bugs",
    "transaction.test_requests",
)
TESTS = list(_tests_of(*(import_module(f"tests.unit.{suite}") for suite in SUITES)))


@pytest.fixture
def late_stores(in_memory: None, monkeypatch: pytest.MonkeyPatch) -> list[LateLogStore]:
    """The stores of brokers that open every log, commit every round and fetch every byte in a later turn."""
    stores: list[LateLogStore] = []

    def make(config: Any, system: Any, log: Any, *_: Any) -> Sliced[LateLogStore]:
        yield 0
        stores.append(LateLogStore(system.scheduler, system.clock))
        return stores[-1]

    monkeypatch.setattr(assembly, "make_store", make)
    return stores


@pytest.fixture
def over_tables(in_memory: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give every broker tables of its own, most of them in chunks that must be fetched."""

    def make(config: Any, system: Any, log: Any, *_: Any) -> Sliced[SharedLogStore]:
        tables = FakeTables(Database(), system.scheduler, system.clock, Random(1), takes_time=False)
        sizes = SharedSizes(checkpoint_bytes=1_000, chunk_bytes=500, written_bytes=0, fetched_bytes=2_000)
        store = yield from open_store(tables, system.clock, system.scheduler, system.on_disk_failure, None, sizes)
        return store

    monkeypatch.setattr(assembly, "make_store", make)


@pytest.mark.usefixtures("late_stores")
@pytest.mark.parametrize("test", TESTS, ids=[f"{test.__module__.rpartition('.')[2]}-{test.__name__}" for test in TESTS])
def test_what_clients_see_is_the_same_when_everything_comes_later(test: Callable[[], None]) -> None:
    test()


@pytest.mark.usefixtures("over_tables")
@pytest.mark.parametrize("test", TESTS, ids=[f"{test.__module__.rpartition('.')[2]}-{test.__name__}" for test in TESTS])
def test_what_clients_see_is_the_same_over_tables(test: Callable[[], None]) -> None:
    test()


@pytest.mark.usefixtures("in_memory")
@pytest.mark.parametrize("test", TESTS, ids=[f"{test.__module__.rpartition('.')[2]}-{test.__name__}" for test in TESTS])
def test_what_clients_see_is_the_same(test: Callable[[], None]) -> None:
    test()


def test_a_fetch_waits_for_what_comes_later(late_stores: list[LateLogStore]) -> None:
    broker = VirtualBroker()
    create(broker, "topic")
    produce(broker, "topic")
    assert fetch(broker, "topic", 0).message.responses[0].partitions[0].records
    assert sum(log.fetch_count for store in late_stores for log in store.late_logs) > 0


def test_no_file_is_made_and_nothing_outlives_it() -> None:
    broker = VirtualBroker(MEMORY)
    create(broker, "topic")
    produce(broker, "topic")
    assert fetch(broker, "topic", 0).message.responses[0].partitions[0].records
    for _ in range(3):
        broker.broker.logs.step()
        broker.let_pass(60_000)
    assert broker.broker.logs.close() is None
    assert not broker.disk.files
    assert broker.disk.directories == {""}
    assert not broker.killed().broker.topics.get("topic")


def test_many_tests_are_repeated_over_this_store() -> None:
    assert len(TESTS) > 40
