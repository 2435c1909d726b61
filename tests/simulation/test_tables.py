"""The whole broker over tables in virtual time: stops, cuts and take-overs lose nothing."""

from collections import Counter
from dataclasses import asdict

from tests.history.auditor import require_at_least
from tests.simulation.tables_world import TablesWorld


def test_what_clients_were_told_holds_over_tables() -> None:
    counts: Counter[str] = Counter()
    for seed in range(4):
        counts.update(asdict(TablesWorld(seed).run()))
    require_at_least(counts, commits=25, aborts=6, reads=600, stops=10, group_commits=10)
    require_at_least(counts, cuts=20, checkpoints=8, compacted_starts=4, lost_leases=1, stops_in_a_statement=1)
    require_at_least(counts, full_disks=1)
