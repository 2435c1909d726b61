"""Several nodes over one set of tables in virtual time: clients notice a wait, and nothing else."""

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, replace
from random import Random
from typing import Any

import pytest

from oncelog.broker.handlers import current
from oncelog.broker.storage.shared.tables import AppendRound, DropNode, MoveStarts, ReadRounds
from oncelog.broker.succession.standby import Standby
from tests.fakes.database import _EFFECTS, Database
from tests.history.auditor import HistoryError, require_at_least
from tests.simulation.log_auditor import AuditError
from tests.simulation.pair_world import PairWorld

Plant = Callable[[pytest.MonkeyPatch], None]


# The later ones are in `make sim` too.
@pytest.mark.parametrize("first", [0, *(pytest.param(first, marks=pytest.mark.slow) for first in range(2, 26, 4))])
def test_what_clients_were_told_holds_over_several_nodes(first: int) -> None:
    counts: Counter[str] = Counter()
    for seed in range(first, first + (4 if first else 2)):
        counts.update(asdict(PairWorld(seed).run()))
    require_at_least(counts, commits=10, aborts=3, reads=300, take_overs=4, redirected=1, standby_looks=1_000)


def test_a_node_hears_of_what_it_has_asked_whoever_takes_the_lease_meanwhile() -> None:
    """Whatever becomes of a statement that is in flight at a take-over, its node gets an answer."""
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


def _answer_reads_whoever_leads(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(current, "around_handler", lambda lease, api, handle: handle)


def _begin_with_an_old_view(patch: pytest.MonkeyPatch) -> None:
    def old(self: Database, statement: ReadRounds) -> Any:
        return [found for found in read(self, statement) if found.number < self.newest]

    read = Database.read_rounds
    patch.setitem(_EFFECTS, ReadRounds, old)


def _follow_the_next_leader_as_the_one_before(patch: pytest.MonkeyPatch) -> None:
    begin = Standby.begin

    def steady(self: Standby[Any]) -> None:
        if self.follower is None:
            begin(self)

    patch.setattr(Standby, "begin", steady)


def _mark_no_round_as_one_to_follow(patch: pytest.MonkeyPatch) -> None:
    def forgetful(self: Database, statement: AppendRound) -> bool:
        return self.append_round(replace(statement, is_followed=False))

    patch.setitem(_EFFECTS, AppendRound, forgetful)


def _let_a_deposed_leader_append(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Database, "may_write", lambda self, epoch: True)


PLANTS: list[Plant] = [
    _answer_reads_whoever_leads,
    _begin_with_an_old_view,
    _follow_the_next_leader_as_the_one_before,
    _mark_no_round_as_one_to_follow,
    _let_a_deposed_leader_append,
]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__.strip("_"))
@pytest.mark.interpreted
def test_a_planted_fault_is_caught_within_sixty_seeds(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises((AuditError, HistoryError)):
        for seed in range(60):
            PairWorld(seed).run()
