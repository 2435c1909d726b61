"""Several nodes over one set of tables in virtual time: clients notice a wait, and nothing else."""

from collections import Counter
from dataclasses import asdict
from random import Random

from oncelog.broker.storage.shared.tables import DropNode, MoveStarts
from tests.history.auditor import require_at_least
from tests.simulation.pair_world import PairWorld
from tests.support.samples import in_proportion, lives

LIVES = 2


@lives(range(1, 2), LIVES)
def test_responses_to_clients_hold_over_several_nodes(seeds: range) -> None:
    counts: Counter[str] = Counter()
    for seed in seeds:
        counts.update(asdict(PairWorld(seed).run()))
    least = {"commits": 10, "aborts": 3, "reads": 300, "take_overs": 4, "redirected": 1, "standby_looks": 20}
    require_at_least(counts, **in_proportion(seeds, LIVES, **least))


def test_a_statement_is_answered_though_the_lease_is_taken_meanwhile() -> None:
    """A statement that is in flight at a take-over is always answered."""
    for seed in range(20):
        world = PairWorld(seed)
        node, epoch = world.nodes[world.database.node_id - 1], world.database.epoch
        assert node.tables is not None
        asked = [node.tables.run(each) for each in (DropNode(node.node_id, ""), MoveStarts(epoch, {}))]
        world._excuse(node, 0)
        world.database.take_lease(Random(seed))
        for _ in range(1_000):
            world._step()
        assert all(each.done for each in asked)
