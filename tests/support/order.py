"""The order in which workers take tests: two of three begin with those that wait, the third with what needs a core.

In the order of their names, the last half minute of `make test` was tests that wait (six workers on two cores).
"""

from collections.abc import Sequence
from itertools import chain, groupby, islice

import pytest

_WAITING = ("tests/console/", "tests/daemon/", "tests/interop/")
"""What waits for a daemon, a client or a deadline rather than for a core."""


def waiting_first(items: Sequence[pytest.Item], workers: int) -> list[pytest.Item]:
    """Of as many equal parts as there are workers: modules that wait are at the beginning of the first two thirds."""
    modules = [list(tests) for _, tests in groupby(items, key=lambda item: item.path)]
    waiting = [tests for tests in modules if tests[0].nodeid.startswith(_WAITING)]
    others = chain.from_iterable(tests for tests in modules if not tests[0].nodeid.startswith(_WAITING))
    who_waits = max(1, workers * 2 // 3)
    ordered: list[pytest.Item] = []
    for worker in range(workers):
        part = list(chain.from_iterable(waiting[worker::who_waits])) if worker < who_waits else []
        end = len(items) * (worker + 1) // workers
        ordered += [*part, *islice(others, max(0, end - len(ordered) - len(part)))]
    return [*ordered, *others]
