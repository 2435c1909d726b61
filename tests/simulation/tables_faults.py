"""Faults to plant in the store over tables: the simulation must notice each of them.

Owns: the list. Each is a small change to one function, as a mistake in it would be.
"""

from dataclasses import replace
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
from tests.simulation.log_faults import Plant


def answer_before_the_row(patch: pytest.MonkeyPatch) -> None:
    def hasty(self: Statements, row: AppendRound) -> Completion[None]:
        self.ask(row)
        return Completion.of(None)

    patch.setattr(Statements, "append", hasty)


def take_a_lost_answer_for_a_yes(patch: pytest.MonkeyPatch) -> None:
    def trusting(self: Statements, row: AppendRound) -> Completion[None]:
        appended: Completion[None] = Completion()
        self._tables.run(row).then(lambda _: appended.complete(None))
        return appended

    patch.setattr(Statements, "append", trusting)


def let_anybody_write(patch: pytest.MonkeyPatch) -> None:
    """Let any epoch write, as without a lock on the lease, or with one that a take-over does not wait for."""
    patch.setattr(Database, "may_write", lambda self, epoch: True)


def trim_a_round_too_many(patch: pytest.MonkeyPatch) -> None:
    def greedy(self: Checkpoints, taken: TakenCheckpoint) -> Any:
        wanted, on_written = statement(self, taken)
        return replace(wanted, trimmed=wanted.trimmed + 1), on_written

    statement = Checkpoints.statement
    patch.setattr(Checkpoints, "statement", greedy)


def forget_the_producers(patch: pytest.MonkeyPatch) -> None:
    def forgetful(log: SharedLog) -> LogRow:
        return row(log)._replace(snapshot=encode_snapshot(ProducerStateManager()).rows, producer_batches=b"")

    row = checkpoint._row
    patch.setattr(checkpoint, "_row", forgetful)


def write_a_round_twice(patch: pytest.MonkeyPatch) -> None:
    def twice(self: Database, statement: AppendRound) -> bool:
        _, before = self.journal.get(statement.number, (0, b""))
        self.journal[statement.number] = statement.epoch, before + b"".join(statement.bodies)
        self.halves[statement.number] = statement.half
        return True

    patch.setitem(_EFFECTS, AppendRound, twice)


def forget_a_start(patch: pytest.MonkeyPatch) -> None:
    def forgetful(self: Database, statement: MoveStarts) -> bool:
        return True

    patch.setitem(_EFFECTS, MoveStarts, forgetful)


def replace_chunks_in_two_steps(patch: pytest.MonkeyPatch) -> None:
    """A broker that ends in between has deleted the old ones."""

    def halved(self: Database, statement: ReplaceChunks) -> bool:
        self.replace_chunks(replace(statement, added=()))
        self.in_flight.append(lambda database: database.replace_chunks(replace(statement, ids=())))
        return True

    patch.setitem(_EFFECTS, ReplaceChunks, halved)


PLANTS: list[Plant] = [
    answer_before_the_row,
    take_a_lost_answer_for_a_yes,
    let_anybody_write,
    trim_a_round_too_many,
    forget_the_producers,
    write_a_round_twice,
    forget_a_start,
    replace_chunks_in_two_steps,
]
