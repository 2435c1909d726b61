"""Faults to plant where the tables go back to an earlier state: the simulation must notice each of them.

Owns: the list. Each is a small change to one function of the broker or the client, as a mistake in it would be.
"""

from typing import Any

import pytest

from oncelog.broker.cluster import metadata_log
from oncelog.broker.coordinator.transaction.producer_ids import ProducerIdManager
from oncelog.broker.storage.shared.tables import AppendRound
from oncelog.client.session import TransactionalSession
from tests.fakes.database import _EFFECTS, Database
from tests.fakes.tables import FakeTables
from tests.simulation.log_faults import Plant


def append_behind_a_round_that_is_gone(patch: pytest.MonkeyPatch) -> None:
    def anyhow(self: Database, statement: AppendRound) -> bool:
        if statement.number in self.journal:
            return False
        self.journal[statement.number] = statement.epoch, b"".join(statement.bodies)
        self.halves[statement.number] = statement.half
        return True

    patch.setitem(_EFFECTS, AppendRound, anyhow)


def count_nothing_beside_rounds(patch: pytest.MonkeyPatch) -> None:
    on_answer = FakeTables._on_answer

    def uncounted(self: FakeTables, answered: Any, answer: Any, _written: int, appended: int) -> None:
        on_answer(self, answered, answer, 0, appended)

    patch.setattr(FakeTables, "_on_answer", uncounted)


def go_on_in_the_next_epoch(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(metadata_log, "lost_epochs", lambda before, after: 0)


def go_on_with_the_next_producer_id(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(metadata_log, "next_series", lambda producer_id, wall_ms: producer_id)


def let_producers_of_the_past_go_on(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ProducerIdManager, "is_from_before", lambda self, producer_id: False)


def keep_positions_under_another_producer_id(patch: pytest.MonkeyPatch) -> None:
    """A session continues where it was, and not where its group is."""

    async def stay(self: TransactionalSession[Any, Any, Any, Any]) -> None:
        await self._producer._make_ready()

    patch.setattr(TransactionalSession, "_follow_the_group", stay)


def take_it_for_the_same_database(patch: pytest.MonkeyPatch) -> None:
    restore = Database.restore

    def silent(self: Database, statements: int) -> int:
        tick = restore(self, statements)
        self.is_elsewhere = False
        return tick

    patch.setattr(Database, "restore", silent)


PLANTS: list[Plant] = [
    append_behind_a_round_that_is_gone,
    count_nothing_beside_rounds,
    go_on_in_the_next_epoch,
    go_on_with_the_next_producer_id,
    let_producers_of_the_past_go_on,
    take_it_for_the_same_database,
    keep_positions_under_another_producer_id,
]
OF_SEVERAL_NODES: list[Plant] = [take_it_for_the_same_database]
"""The faults that only several nodes can show, or that they should find as well."""
