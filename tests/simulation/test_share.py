"""Share groups under faults: responses to members hold, and the auditor catches planted faults (test_plants)."""

from collections import Counter

from tests.history.auditor import require_at_least
from tests.simulation.share_world import ShareWorld


def test_responses_to_share_consumers_hold_through_kills_and_power_cuts() -> None:
    counts: Counter[str] = Counter()
    for seed in range(6):
        counts.update(ShareWorld(seed).run())
    require_at_least(counts, stops=20, power_cuts=5, acquisitions=300, accepted=300, rejected=100, released=100)
    require_at_least(counts, renewed=100, gaps=50, refused=200, redelivered=300, aborted=10)
