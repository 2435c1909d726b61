"""The whole broker in simulation: transactions hold over every stop and loss; and the auditor bites."""

from collections import Counter
from dataclasses import asdict

import pytest

from broker.assembly import StartError
from tests.history.auditor import HistoryError, require_at_least
from tests.simulation.broker_faults import PLANTS
from tests.simulation.broker_world import BrokerWorld
from tests.simulation.log_auditor import AuditError
from tests.simulation.log_faults import Plant, planted


@pytest.mark.parametrize("first", range(0, 24, 8))
def test_what_clients_were_told_holds_over_kills_power_cuts_and_lost_answers(first: int) -> None:
    counts: Counter[str] = Counter()
    for seed in range(first, first + 8):
        counts.update(asdict(BrokerWorld(seed).run()))
    # Lives in which nothing happens would prove nothing.
    require_at_least(counts, commits=200, aborts=50, unknowns=1, reads=2_000, stops=50, power_cuts=10)
    require_at_least(counts, lost_requests=50, lost_answers=50, cut_frames=50, double_requests=50, late_requests=1)


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_a_planted_fault_is_caught_within_two_hundred_seeds(plant: Plant) -> None:
    with planted(plant), pytest.raises((AuditError, HistoryError, StartError)):
        for seed in range(200):
            BrokerWorld(seed).run()
