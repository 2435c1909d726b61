"""The whole broker over tables that go back to an earlier state: what is lost is noticed; and the auditor bites."""

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict

import pytest

from oncelog.broker.assembly.broker import StartError
from oncelog.broker.cluster import metadata_log
from oncelog.broker.coordinator.transaction.producer_ids import ProducerIdManager
from oncelog.broker.storage.shared.tables import AppendRound
from tests.fakes.database import _EFFECTS, Database
from tests.fakes.tables import FakeTables
from tests.history.auditor import HistoryError, require_at_least
from tests.simulation.log_auditor import AuditError
from tests.simulation.restored_world import RestoredWorld

Plant = Callable[[pytest.MonkeyPatch], None]


# `.ci/run` simulates the seeds behind them.
@pytest.mark.parametrize("first", [0, *(pytest.param(first, marks=pytest.mark.slow) for first in range(6, 30, 6))])
def test_what_is_lost_with_the_tables_is_noticed_and_all_else_holds(first: int) -> None:
    counts: Counter[str] = Counter()
    for seed in range(first, first + 6):
        counts.update(asdict(RestoredWorld(seed).run()))
    require_at_least(counts, commits=20, aborts=4, reads=400, restores=6, noticed=1, lost_rounds=2, forgotten=6)


def _append_behind_a_round_that_is_gone(patch: pytest.MonkeyPatch) -> None:
    def anyhow(self: Database, statement: AppendRound) -> bool:
        if statement.number in self.journal:
            return False
        self.journal[statement.number] = statement.epoch, b"".join(statement.bodies)
        self.halves[statement.number] = statement.half
        return True

    patch.setitem(_EFFECTS, AppendRound, anyhow)


def _count_nothing_beside_rounds(patch: pytest.MonkeyPatch) -> None:
    on_answer = FakeTables._on_answer
    patch.setattr(FakeTables, "_on_answer", lambda self, answered, answer, number: on_answer(self, answered, answer, 0))


def _go_on_in_the_next_epoch(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(metadata_log, "_LOST_STARTS", 1)


def _go_on_with_the_next_producer_id(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(metadata_log, "next_series", lambda producer_id: producer_id)


def _let_producers_of_the_past_go_on(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ProducerIdManager, "is_from_before", lambda self, producer_id: False)


def _take_it_for_the_same_database(patch: pytest.MonkeyPatch) -> None:
    restore = Database.restore

    def silent(self: Database, statements: int) -> int:
        tick = restore(self, statements)
        self.is_elsewhere = False
        return tick

    patch.setattr(Database, "restore", silent)


PLANTS: list[Plant] = [
    _append_behind_a_round_that_is_gone,
    _count_nothing_beside_rounds,
    _go_on_in_the_next_epoch,
    _go_on_with_the_next_producer_id,
    _let_producers_of_the_past_go_on,
    _take_it_for_the_same_database,
]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__.strip("_"))
@pytest.mark.interpreted
def test_a_planted_fault_is_caught_within_sixty_seeds(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises((AuditError, HistoryError, StartError)):
        for seed in range(60):
            RestoredWorld(seed).run()
