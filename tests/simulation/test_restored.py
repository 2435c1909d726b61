"""The whole broker over tables that go back to an earlier state: what is lost is noticed."""

from collections import Counter
from dataclasses import asdict

import pytest

from tests.history.auditor import require_at_least
from tests.simulation.restored_world import RestoredWorld


# `.ci/run` simulates the seeds behind them.
@pytest.mark.parametrize("first", [0, *(pytest.param(first, marks=pytest.mark.slow) for first in range(6, 30, 6))])
def test_what_is_lost_with_the_tables_is_noticed_and_all_else_holds(first: int) -> None:
    counts: Counter[str] = Counter()
    for seed in range(first, first + 6):
        counts.update(asdict(RestoredWorld(seed).run()))
    require_at_least(counts, commits=20, aborts=4, reads=400, restores=6, noticed=1, lost_rounds=2, forgotten=6)
