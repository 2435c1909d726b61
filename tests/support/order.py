"""The order in which workers take tests: what takes minutes is begun first, for it would be waited for in the end; then
two workers of three begin with those that wait, the third with what needs a core.

In the order of their names, the last half minute of `make test` was tests that wait (six workers on two cores).
"""

from collections.abc import Sequence
from itertools import chain, groupby, islice

import pytest

_WAITING = ("tests/console/", "tests/daemon/", "tests/interop/")
"""Folders whose tests wait for a daemon, a client or a deadline rather than for a core."""

_LONGEST = (
    "tests/daemon/test_postgres_proof.py",
    "tests/daemon/test_thirty_kills.py",
    "tests/interop/test_takeovers.py",
    "tests/interop/test_java_clients.py",
    "tests/interop/test_java_group_survival.py",
    "tests/interop/test_kafka_streams.py",
    "tests/spark/test_cluster.py",
    "tests/spark/test_ledger.py",
    "tests/spark/test_proof.py",
    "tests/spark/test_sink.py",
    "tests/spark/test_tables.py",
    "tests/spark/test_checkpoint_file_systems.py",
    "tests/spark/test_connect.py",
)
"""Modules that take more than a minute (`--durations=50`), the longest of a target first."""


def waiting_first(items: Sequence[pytest.Item], workers: int) -> list[pytest.Item]:
    """Orders tests in as many equal parts as there are workers. The first two thirds begin with modules that wait."""
    modules = sorted((list(tests) for _, tests in groupby(items, key=_file)), key=_place)
    waiting = [tests for tests in modules if _waits(tests)]
    if len(waiting) == len(modules):
        return list(chain.from_iterable(waiting))
    others = chain.from_iterable(tests for tests in modules if not _waits(tests))
    who_waits = max(1, workers * 2 // 3)
    ordered: list[pytest.Item] = []
    for worker in range(workers):
        part = list(chain.from_iterable(waiting[worker::who_waits])) if worker < who_waits else []
        end = len(items) * (worker + 1) // workers
        ordered += [*part, *islice(others, max(0, end - len(ordered) - len(part)))]
    return [*ordered, *others]


def _waits(module: Sequence[pytest.Item]) -> bool:
    """Whether the tests of a module wait for one of these, or for a Kafka."""
    return module[0].nodeid.startswith(_WAITING) or module[0].get_closest_marker("kafka") is not None


def _place(module: Sequence[pytest.Item]) -> int:
    name = _file(module[0])
    return _LONGEST.index(name) if name in _LONGEST else len(_LONGEST)


def _file(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]
