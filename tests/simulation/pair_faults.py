"""Faults to plant where several nodes share one set of tables: the simulation must notice each of them.

Owns: the list. Each is a small change to one function, as a mistake in it would be.
"""

from dataclasses import replace
from typing import Any

import pytest

from oncelog.broker.handlers import current
from oncelog.broker.storage.shared.tables import AppendRound, ReadRounds
from oncelog.broker.succession.standby import Standby
from tests.fakes.database import _EFFECTS, Database
from tests.simulation.log_faults import Plant


def answer_reads_whoever_leads(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(current, "around_handler", lambda lease, api, handle: handle)


def begin_with_an_old_view(patch: pytest.MonkeyPatch) -> None:
    def old(self: Database, statement: ReadRounds) -> Any:
        return [found for found in read(self, statement) if found.number < self.newest]

    read = Database.read_rounds
    patch.setitem(_EFFECTS, ReadRounds, old)


def follow_the_next_leader_as_the_one_before(patch: pytest.MonkeyPatch) -> None:
    begin = Standby.begin

    def steady(self: Standby[Any]) -> None:
        if self.follower is None:
            begin(self)

    patch.setattr(Standby, "begin", steady)


def mark_no_round_as_one_to_follow(patch: pytest.MonkeyPatch) -> None:
    def forgetful(self: Database, statement: AppendRound) -> bool:
        return self.append_round(replace(statement, is_followed=False))

    patch.setitem(_EFFECTS, AppendRound, forgetful)


def let_a_deposed_leader_append(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Database, "may_write", lambda self, epoch: True)


PLANTS: list[Plant] = [
    answer_reads_whoever_leads,
    begin_with_an_old_view,
    follow_the_next_leader_as_the_one_before,
    mark_no_round_as_one_to_follow,
    let_a_deposed_leader_append,
]
