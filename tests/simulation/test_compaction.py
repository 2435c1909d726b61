"""Compaction in simulation: it takes what Kafka lets it take and nothing else, whatever stops it."""

from collections import Counter
from dataclasses import asdict

import pytest

from tests.history.auditor import require_at_least
from tests.simulation.log_mixes import COMPACTION
from tests.simulation.log_world import LogWorld

STEPS = 150
SEEDS = 60


@pytest.mark.sampled(3)
@pytest.mark.parametrize("first", range(0, SEEDS, 20))
def test_every_reader_gets_what_was_committed_over_rounds_and_stops(first: int) -> None:
    counts: Counter[str] = Counter()
    for seed in range(first, first + 20):
        counts.update(asdict(LogWorld(seed, COMPACTION).run(STEPS)))
    # Lives in which nothing is compacted would prove nothing.
    require_at_least(counts, looks_at_compaction=200, tables=200, stops=50, power_cuts=50)
