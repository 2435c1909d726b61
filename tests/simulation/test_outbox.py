"""Rows of SQL transactions under stops, cuts and take-overs: each is one record, or refused."""

from collections import Counter
from dataclasses import asdict

from tests.history.auditor import require_at_least
from tests.simulation.outbox_world import OutboxWorld
from tests.support.samples import in_proportion, lives

LIVES = 4


@lives(range(1, 3), LIVES)
def test_each_row_that_was_committed_is_one_record_or_refused(seeds: range) -> None:
    """No stop, cut or take-over loses a row, duplicates one, or publishes one that was rolled back; the records of one
    account keep its order.
    """
    counts: Counter[str] = Counter()
    for seed in seeds:
        counts.update(asdict(OutboxWorld(seed).run()))
    require_at_least(counts, **in_proportion(seeds, LIVES, rows=1_500, refused_rows=100, rolled_back_rows=300))
    require_at_least(counts, **in_proportion(seeds, LIVES, stops=10, cuts=20, lost_leases=1, stops_in_a_statement=1))
