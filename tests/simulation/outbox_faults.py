"""Faults to plant where rows of SQL transactions become records: the simulation must notice each of them.

Owns: the list. Each is a small change to one function, as a mistake in it would be.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from oncelog.broker.outbox import feeder
from oncelog.broker.outbox.feeder import Feeder
from oncelog.broker.outbox.rows import Sorted
from oncelog.broker.storage.shared.outbox import SharedOutbox
from oncelog.broker.storage.shared.statements import Statements
from oncelog.broker.storage.shared.tables import AppendRound, OutboxRow, Statement
from oncelog.broker.turns.completion import Completion
from tests.fakes.database import _EFFECTS, Database
from tests.simulation.log_faults import Plant


@dataclass(frozen=True)
class _DeleteRows(Statement[bool]):
    """Deletes rows in a statement of its own, as no correct feed needs to."""

    epoch: int
    ids: tuple[int, ...]


def _delete_rows(database: Database, statement: _DeleteRows) -> bool:
    for row_id in statement.ids:
        database.outbox.pop(row_id, None)
    return True


def delete_in_a_statement_before(patch: pytest.MonkeyPatch) -> None:
    def split(self: Statements, row: AppendRound) -> Completion[None]:
        if not row.taken:
            return append(self, row)
        deleted = self.write(_DeleteRows(row.epoch, row.taken))
        return deleted.flat_map(lambda _: append(self, replace(row, taken=())))

    append = Statements.append
    patch.setitem(_EFFECTS, _DeleteRows, _delete_rows)
    patch.setattr(Statements, "append", split)


def delete_in_a_statement_after(patch: pytest.MonkeyPatch) -> None:
    def split(self: Statements, row: AppendRound) -> Completion[None]:
        if not row.taken:
            return append(self, row)
        appended = append(self, replace(row, taken=()))
        return appended.flat_map(lambda _: self.write(_DeleteRows(row.epoch, row.taken)))

    append = Statements.append
    patch.setitem(_EFFECTS, _DeleteRows, _delete_rows)
    patch.setattr(Statements, "append", split)


def delete_without_the_lease(patch: pytest.MonkeyPatch) -> None:
    def loose(self: Database, statement: Any) -> Any:
        if isinstance(statement, AppendRound) and not self.may_write(statement.epoch):
            for row_id in statement.taken:
                self.outbox.pop(row_id, None)
        return execute(self, statement)

    execute = Database.execute
    patch.setattr(Database, "execute", loose)


def write_a_round_whose_rows_are_gone(patch: pytest.MonkeyPatch) -> None:
    """Write a round even if its rows are gone, and look for more rows before it is written, which finds the same
    again.
    """

    def trusting(self: Database, statement: AppendRound) -> bool:
        there = tuple({row_id for row_id in statement.taken if row_id in self.outbox})
        return append_round(self, replace(statement, taken=there))

    def hasty(self: SharedOutbox, ids: Sequence[int]) -> Completion[None]:
        take(self, ids)
        return Completion.of(None)

    append_round, take = Database.append_round, SharedOutbox.take
    patch.setitem(_EFFECTS, AppendRound, trusting)
    patch.setattr(SharedOutbox, "take", hasty)


def look_again_before_the_round_is_written(patch: pytest.MonkeyPatch) -> None:
    """The statement finds that its rows are gone, and the broker ends."""

    def hasty(self: SharedOutbox, ids: Sequence[int]) -> Completion[None]:
        take(self, ids)
        return Completion.of(None)

    take = SharedOutbox.take
    patch.setattr(SharedOutbox, "take", hasty)


def take_a_lost_answer_for_a_no(patch: pytest.MonkeyPatch) -> None:
    """The rows are looked for again, and so is what has been written."""

    def forgetful(self: Statements, row: AppendRound) -> Completion[None]:
        appended: Completion[None] = Completion()
        self._tables.run(row).then(lambda _: appended.complete(None))
        return appended

    patch.setattr(Statements, "append", forgetful)


def stop_at_a_refused_row(patch: pytest.MonkeyPatch) -> None:
    def held_up(rows: Sequence[OutboxRow], *rest: Any) -> Sorted:
        found = sort_rows(rows, *rest)
        if not found.refused:
            return found
        first = min(row_id for row_id, _ in found.refused)
        return sort_rows([row for row in rows if row.id < first], *rest)

    sort_rows = feeder.sort_rows
    patch.setattr(feeder, "sort_rows", held_up)


def pass_by_what_becomes_visible_late(patch: pytest.MonkeyPatch) -> None:
    """Skip rows that become visible late, as a poller does that keeps the greatest id."""

    def by_position(self: Feeder, rows: Sequence[OutboxRow]) -> list[Completion[None]]:
        known = getattr(self._outbox, "newest", 0)
        self._outbox.newest = max(known, *(row.id for row in rows))  # type: ignore[attr-defined]
        return feed(self, [row for row in rows if row.id > known])

    feed = Feeder._feed
    patch.setattr(Feeder, "_feed", by_position)


def refuse_twice(patch: pytest.MonkeyPatch) -> None:
    """A row that is refused is written to its log, too."""

    def both(self: Feeder, rows: Sequence[OutboxRow]) -> list[Completion[None]]:
        fed = feed(self, rows)
        return [*fed, self._outbox.refuse([(rows[0].id, "at random")])] if rows[0].id % 50 == 0 else fed

    feed = Feeder._feed
    patch.setattr(Feeder, "_feed", both)


def look_again_at_what_cannot_be_read(patch: pytest.MonkeyPatch) -> None:
    """Nothing is found, and nothing is said."""
    patch.setattr(Feeder, "_find_unreadable", lambda self: self._end_look(may_be_more=False))


def refuse_the_first_row_for_one_that_cannot_be_read(patch: pytest.MonkeyPatch) -> None:
    def hasty(self: Feeder) -> None:
        self._outbox.ids(1).then(lambda ids: self._refuse_unreadable(ids.result()[0], "a row"))

    patch.setattr(Feeder, "_find_unreadable", hasty)


def try_for_ever_to_move_a_row(patch: pytest.MonkeyPatch) -> None:
    """Retry a row for ever, as a broker does that waits for any error to pass."""
    patch.setattr(SharedOutbox, "_leave", lambda self, row_id, error: None)


PLANTS: list[Plant] = [
    delete_in_a_statement_before,
    look_again_at_what_cannot_be_read,
    refuse_the_first_row_for_one_that_cannot_be_read,
    delete_without_the_lease,
    delete_in_a_statement_after,
    try_for_ever_to_move_a_row,
    write_a_round_whose_rows_are_gone,
    look_again_before_the_round_is_written,
    stop_at_a_refused_row,
    take_a_lost_answer_for_a_no,
    pass_by_what_becomes_visible_late,
    refuse_twice,
]
"""What is noticed only once a row has waited for ten minutes is none of every third, which run always."""
