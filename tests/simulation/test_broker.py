"""The whole broker in simulation: transactions hold over every stop and loss."""

from collections import Counter
from dataclasses import asdict

from tests.history.auditor import require_at_least
from tests.simulation.broker_world import BrokerWorld


def test_what_clients_were_told_holds_over_kills_power_cuts_and_lost_answers() -> None:
    counts: Counter[str] = Counter()
    for seed in range(3):
        counts.update(asdict(BrokerWorld(seed).run()))
    # Lives in which nothing happens would prove nothing.
    require_at_least(counts, commits=75, aborts=19, reads=750, stops=19, power_cuts=4)
    require_at_least(counts, generations=4, group_commits=15, clock_jumps=2)
    require_at_least(counts, lost_requests=15, lost_answers=15, cut_frames=15, double_requests=15)
    require_at_least(counts, looks_at_compaction=150, handovers=15, unreadable=3, full_starts=2)
    require_at_least(counts, admitted=75, refused=75)
