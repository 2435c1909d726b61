"""The whole broker in simulation: transactions hold over every stop and loss; and the auditor bites."""

from collections import Counter
from dataclasses import asdict

import pytest

from oncelog.broker.assembly.broker import StartError
from tests.history.auditor import HistoryError, require_at_least
from tests.simulation.broker_faults import PLANTS
from tests.simulation.broker_world import BrokerWorld
from tests.simulation.log_auditor import AuditError
from tests.simulation.log_faults import Plant, planted, seeds_for
from tests.support.samples import sampled


# The later ones are in `make sim` too.
@pytest.mark.parametrize("first", [0, *(pytest.param(first, marks=pytest.mark.slow) for first in range(4, 24, 4))])
def test_what_clients_were_told_holds_over_kills_power_cuts_and_lost_answers(first: int) -> None:
    counts: Counter[str] = Counter()
    for seed in range(first, first + 4):
        counts.update(asdict(BrokerWorld(seed).run()))
    # Lives in which nothing happens would prove nothing.
    require_at_least(counts, commits=100, aborts=25, reads=1_000, stops=25, power_cuts=5)
    require_at_least(counts, generations=5, group_commits=20, clock_jumps=3)
    require_at_least(counts, lost_requests=20, lost_answers=20, cut_frames=20, double_requests=20)
    require_at_least(counts, looks_at_compaction=200, handovers=20, unreadable=5, full_starts=3)
    require_at_least(counts, admitted=100, refused=100)


# A life takes seconds.
@pytest.mark.parametrize("plant", sampled(PLANTS, 12), ids=lambda plant: plant.__name__)
@pytest.mark.interpreted
def test_a_planted_fault_is_caught_within_two_hundred_seeds(plant: Plant) -> None:
    with planted(plant), pytest.raises((AuditError, HistoryError, StartError)):
        for seed in seeds_for(plant, 200):
            BrokerWorld(seed).run()
