"""Rows of SQL transactions under stops, cuts and take-overs: each is one record, or refused."""

from collections import Counter
from dataclasses import asdict

from tests.history.auditor import require_at_least
from tests.simulation.outbox_world import OutboxWorld


def test_each_row_that_was_committed_is_one_record_or_refused() -> None:
    """No stop, cut or take-over loses a row, duplicates one, or publishes one that was rolled back; the records of one
    account keep its order.
    """
    counts: Counter[str] = Counter()
    for seed in range(4):
        counts.update(asdict(OutboxWorld(seed).run()))
    require_at_least(counts, rows=1_500, refused_rows=100, rolled_back_rows=300)
    require_at_least(counts, stops=10, cuts=20, lost_leases=1, stops_in_a_statement=1)
