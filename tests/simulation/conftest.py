"""A life ends by its budget of steps, so the wall clock ends only what hangs.

Worlds bound their virtual time, `VirtualTime` the turns at one moment of it.
"""

import pytest

from tests.support.patience import SLOW_TIMEOUT_S


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give lives the time of slow tests: on a machine that is fifty times too busy, ten seconds of work take longer
    than the time limit of others."""
    for item in items:
        if item.nodeid.startswith("tests/simulation/") and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(SLOW_TIMEOUT_S))
