"""The whole broker over tables in virtual time: stops, cuts and take-overs lose nothing; and the auditor bites."""

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import pytest

from oncelog.broker.log.producer_state import ProducerStateManager
from oncelog.broker.storage.producer_snapshot import encode_snapshot
from oncelog.broker.storage.shared import checkpoint
from oncelog.broker.storage.shared.checkpoint import Checkpoints, TakenCheckpoint
from oncelog.broker.storage.shared.log import SharedLog
from oncelog.broker.storage.shared.statements import Statements
from oncelog.broker.storage.shared.tables import (
    AppendRound,
    LogRow,
    MoveStarts,
    ReplaceChunks,
)
from oncelog.broker.turns.completion import Completion
from tests.fakes.database import _EFFECTS, Database
from tests.history.auditor import HistoryError, require_at_least
from tests.simulation.log_auditor import AuditError
from tests.simulation.tables_world import TablesWorld

Plant = Callable[[pytest.MonkeyPatch], None]


# `.ci/run` simulates the seeds behind them.
@pytest.mark.parametrize("first", [0, *(pytest.param(first, marks=pytest.mark.slow) for first in range(4, 24, 4))])
def test_what_clients_were_told_holds_over_tables(first: int) -> None:
    counts: Counter[str] = Counter()
    for seed in range(first, first + 4):
        counts.update(asdict(TablesWorld(seed).run()))
    require_at_least(counts, commits=25, aborts=6, reads=600, stops=10, group_commits=10)
    require_at_least(counts, cuts=20, checkpoints=8, compacted_starts=4, lost_leases=1, stops_in_a_statement=1)
    require_at_least(counts, full_disks=1)


def _answer_before_the_row(patch: pytest.MonkeyPatch) -> None:
    def hasty(self: Statements, row: AppendRound) -> Completion[None]:
        self.ask(row)
        return Completion.of(None)

    patch.setattr(Statements, "append", hasty)


def _take_a_lost_answer_for_a_yes(patch: pytest.MonkeyPatch) -> None:
    def trusting(self: Statements, row: AppendRound) -> Completion[None]:
        appended: Completion[None] = Completion()
        self._tables.run(row).then(lambda _: appended.complete(None))
        return appended

    patch.setattr(Statements, "append", trusting)


def _let_anybody_write(patch: pytest.MonkeyPatch) -> None:
    """As without a lock on the lease, or with one that a take-over does not wait for."""
    patch.setattr(Database, "may_write", lambda self, epoch: True)


def _trim_a_round_too_many(patch: pytest.MonkeyPatch) -> None:
    def greedy(self: Checkpoints, taken: TakenCheckpoint) -> Any:
        wanted, on_written = statement(self, taken)
        return replace(wanted, trimmed=wanted.trimmed + 1), on_written

    statement = Checkpoints.statement
    patch.setattr(Checkpoints, "statement", greedy)


def _forget_the_producers(patch: pytest.MonkeyPatch) -> None:
    def forgetful(log: SharedLog) -> LogRow:
        return row(log)._replace(snapshot=encode_snapshot(ProducerStateManager()).rows, producer_batches=b"")

    row = checkpoint._row
    patch.setattr(checkpoint, "_row", forgetful)


def _write_a_round_twice(patch: pytest.MonkeyPatch) -> None:
    def twice(self: Database, statement: AppendRound) -> bool:
        _, before = self.journal.get(statement.number, (0, b""))
        self.journal[statement.number] = statement.epoch, before + b"".join(statement.bodies)
        self.halves[statement.number] = statement.half
        return True

    patch.setitem(_EFFECTS, AppendRound, twice)


def _forget_a_start(patch: pytest.MonkeyPatch) -> None:
    def forgetful(self: Database, statement: MoveStarts) -> bool:
        return True

    patch.setitem(_EFFECTS, MoveStarts, forgetful)


def _replace_chunks_in_two_steps(patch: pytest.MonkeyPatch) -> None:
    """A broker that ends in between has deleted the old ones."""

    def halved(self: Database, statement: ReplaceChunks) -> bool:
        self.replace_chunks(replace(statement, added=()))
        self.in_flight.append(lambda database: database.replace_chunks(replace(statement, ids=())))
        return True

    patch.setitem(_EFFECTS, ReplaceChunks, halved)


PLANTS: list[Plant] = [
    _answer_before_the_row,
    _take_a_lost_answer_for_a_yes,
    _let_anybody_write,
    _trim_a_round_too_many,
    _forget_the_producers,
    _write_a_round_twice,
    _forget_a_start,
    _replace_chunks_in_two_steps,
]


@pytest.mark.sampled(8)
@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__.strip("_"))
@pytest.mark.interpreted
def test_a_planted_fault_is_caught_within_sixty_seeds(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises((AuditError, HistoryError)):
        for seed in range(60):
            TablesWorld(seed).run()
