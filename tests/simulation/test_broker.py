"""The whole broker in simulation: transactions hold over every stop and loss."""

from collections import Counter
from dataclasses import asdict

from tests.history.auditor import require_at_least
from tests.simulation.broker_world import BrokerWorld
from tests.support.samples import in_proportion, lives

LIVES = 3


@lives(range(1, 3), LIVES)
def test_what_clients_were_told_holds_over_kills_power_cuts_and_lost_answers(seeds: range) -> None:
    counts: Counter[str] = Counter()
    for seed in seeds:
        counts.update(asdict(BrokerWorld(seed).run()))
    # Lives in which nothing happens would prove nothing.
    require_at_least(counts, **in_proportion(seeds, LIVES, commits=75, aborts=19, reads=750, stops=19, power_cuts=4))
    require_at_least(counts, **in_proportion(seeds, LIVES, generations=4, group_commits=15, clock_jumps=2))
    require_at_least(
        counts, **in_proportion(seeds, LIVES, lost_requests=15, lost_answers=15, cut_frames=15, double_requests=15)
    )
    require_at_least(
        counts, **in_proportion(seeds, LIVES, looks_at_compaction=150, handovers=15, unreadable=3, full_starts=2)
    )
    require_at_least(counts, **in_proportion(seeds, LIVES, admitted=75, refused=75))


@lives(range(2, 3), LIVES)
def test_a_broker_on_a_backup_knows_all_that_the_one_knew_from_which_it_was_taken(seeds: range) -> None:
    """After each kill the next broker starts on a backup that was taken in that moment, in the middle of transactions:
    its state is that of the one before, and no response that clients got is untrue on it.
    """
    counts: Counter[str] = Counter()
    for seed in seeds:
        counts.update(asdict(BrokerWorld(seed, from_backups=True).run()))
    require_at_least(counts, **in_proportion(seeds, LIVES, commits=75, aborts=19, backups=3))
