"""The lease among several nodes in virtual time: reads are never old, and no node is deposed without a cause."""

from collections import Counter

import pytest

from tests.history.auditor import require_at_least
from tests.simulation.lease_world import LeaseWorld

LIFE_MS = 20_000


# The later ones are in `make sim` too.
@pytest.mark.parametrize("first", [0, *(pytest.param(first, marks=pytest.mark.slow) for first in range(20, 420, 100))])
def test_the_lease_is_one_nodes_at_a_time_and_stays_with_one_that_is_well(first: int) -> None:
    counts: Counter[str] = Counter()
    for seed in range(first, first + (100 if first else 20)):
        counts.update(LeaseWorld(seed).run(LIFE_MS))
    require_at_least(counts, take_overs=40, led_ms=200_000, restores=5)
