"""The whole broker over tables in virtual time: stops, cuts and take-overs lose nothing."""

from collections import Counter
from dataclasses import asdict

from tests.history.auditor import require_at_least
from tests.simulation.tables_world import TablesWorld
from tests.support.samples import in_proportion, lives

LIVES = 4


@lives(range(2), LIVES)
def test_what_clients_were_told_holds_over_tables(seeds: range) -> None:
    counts: Counter[str] = Counter()
    for seed in seeds:
        counts.update(asdict(TablesWorld(seed).run()))
    require_at_least(counts, **in_proportion(seeds, LIVES, commits=25, aborts=6, reads=600, stops=10, group_commits=10))
    require_at_least(counts, **in_proportion(seeds, LIVES, cuts=20, checkpoints=8, compacted_starts=4))
    require_at_least(counts, **in_proportion(seeds, LIVES, lost_leases=1, stops_in_a_statement=1, full_disks=1))
