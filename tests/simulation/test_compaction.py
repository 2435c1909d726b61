"""Compaction in simulation: it takes what Kafka lets it take and nothing else, whatever stops it; the rules bite."""

from collections import Counter
from dataclasses import asdict

import pytest

from oncelog.protocol.errors import KafkaError
from tests.history.auditor import require_at_least
from tests.simulation.compaction_faults import PLANTS
from tests.simulation.log_auditor import AuditError
from tests.simulation.log_faults import Plant, planted, seeds_for
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


@pytest.mark.sampled(5)
@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
@pytest.mark.interpreted
def test_a_planted_fault_is_caught_within_two_hundred_seeds(plant: Plant) -> None:
    with planted(plant), pytest.raises((AuditError, KafkaError)):
        for seed in seeds_for(plant, 200):
            LogWorld(seed, COMPACTION).run(STEPS)
