"""The whole broker over tables that go back to an earlier state: what is lost is noticed."""

from collections import Counter
from dataclasses import asdict

from tests.history.auditor import require_at_least
from tests.simulation.restored_pair_world import RestoredPairWorld
from tests.simulation.restored_world import RestoredWorld
from tests.support.samples import in_proportion, lives

LIVES = 6


@lives(range(1), LIVES)
def test_what_is_lost_with_the_tables_is_noticed_and_all_else_holds(seeds: range) -> None:
    counts: Counter[str] = Counter()
    for seed in seeds:
        counts.update(asdict(RestoredWorld(seed).run()))
    require_at_least(
        counts,
        **in_proportion(
            seeds,
            LIVES,
            commits=20,
            aborts=4,
            reads=400,
            restores=6,
            noticed=1,
            lost_rounds=2,
            forgotten=6,
            copied_batches=30,
        ),
    )


def test_what_is_lost_with_the_tables_is_noticed_by_several_nodes() -> None:
    counts: Counter[str] = Counter()
    for seed in range(2):
        counts.update(asdict(RestoredPairWorld(seed).run()))
    require_at_least(counts, commits=10, aborts=3, reads=150, restores=2, take_overs=4, lost_rounds=1, forgotten=1)
