"""The whole broker over a store elsewhere: partitions that come and go lose nothing."""

from collections import Counter
from dataclasses import asdict

from tests.history.auditor import require_at_least
from tests.simulation.shared_world import SharedWorld


def test_responses_to_clients_hold_while_partitions_come_and_go() -> None:
    counts: Counter[str] = Counter()
    for seed in range(2):
        counts.update(asdict(SharedWorld(seed).run()))
    require_at_least(counts, commits=30, aborts=8, reads=500, stops=5, group_commits=5)
    require_at_least(counts, refused_commits=20, lost_partitions=60, gained_partitions=60, handovers=5)
