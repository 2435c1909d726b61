"""Faults to plant where several nodes share one set of tables: the simulation must notice each of them.

Owns: the list. Each is a small change to one function, as a mistake in it would be.
"""

from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from oncelog.broker.apis.table import API_TABLE
from oncelog.broker.cluster.nodes import Client, NodeAddress, Nodes
from oncelog.broker.handlers import current
from oncelog.broker.log.store import HeldLease
from oncelog.broker.requests.context import Handler
from oncelog.broker.storage.shared import statements
from oncelog.broker.storage.shared.lease import LeaseKeeper
from oncelog.broker.storage.shared.tables import LOST_EPOCHS, AppendRound, FollowMetadata, Lease, ReadRounds, Statement
from oncelog.broker.succession import term
from oncelog.broker.succession.clients import Clients
from oncelog.broker.succession.leader_seen import LeaderSeen
from oncelog.broker.succession.roster import Roster
from oncelog.broker.succession.standby import Standby
from oncelog.broker.turns.completion import Completion
from oncelog.protocol.api_keys import ApiKey
from tests.fakes.database import _EFFECTS, Database
from tests.fakes.tables import FakeTables
from tests.simulation.log_faults import Plant


def answer_reads_whoever_leads(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(current, "around_handler", lambda *arguments: arguments[-1])


def name_oneself_whoever_leads(patch: pytest.MonkeyPatch) -> None:
    def at_once(lease: HeldLease, api: ApiKey, handle: Handler) -> Handler:
        return handle if API_TABLE[api].names_leader else around_handler(lease, api, handle)

    around_handler = current.around_handler
    patch.setattr(current, "around_handler", at_once)


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


def number_rounds_in_the_database(patch: pytest.MonkeyPatch) -> None:
    """The database numbers rounds by a column that counts by itself, and without a look at the lease."""

    def numbered(self: Database, statement: Statement[Any]) -> Any:
        if not isinstance(statement, AppendRound) or self.may_write(statement.epoch):
            return execute(self, statement)
        newest = self.newest
        half_before = self.halves.get(newest, statement.half_before)
        return self.append_round(replace(statement, number=newest + 1, half_before=half_before))

    execute = Database.execute
    patch.setattr(Database, "execute", numbered)


def take_the_lease_in_the_epoch_of_before(patch: pytest.MonkeyPatch) -> None:
    """Take the lease in the previous epoch: the old leader's statements look like the new one's."""

    def same(self: Database, random: Random, seen: Lease | None = None, jump: int = LOST_EPOCHS) -> int | None:
        epoch = take_lease(self, random, seen, jump)
        if epoch is not None and epoch > 1:
            self.epoch = epoch = epoch - 1
        return epoch

    take_lease = Database.take_lease
    patch.setattr(Database, "take_lease", same)


def name_at_once_who_led_last(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LeaderSeen, "when_seen", lambda self: Completion.of(None))


def name_who_led_last_once_nobody_is_seen(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LeaderSeen, "forget", LeaderSeen.release)


def name_the_next_leader_once_it_is_followed(patch: pytest.MonkeyPatch) -> None:
    def late(self: Clients[Any], node_id: int) -> None:
        self._leader_node_id = node_id

    patch.setattr(Clients, "name_leader", late)


def depose_no_node(patch: pytest.MonkeyPatch) -> None:
    """One whose lease was taken is listed until its time is over."""
    patch.setattr(Database, "depose", lambda self, owner, now_us: None)


def list_nodes_that_have_ended(patch: pytest.MonkeyPatch) -> None:
    def seen_by(self: Nodes, client: Client) -> list[NodeAddress]:
        return [each._replace(is_gone=False) for each in all_seen_by(self, client)]

    all_seen_by = Nodes.seen_by
    patch.setattr(Nodes, "seen_by", seen_by)


def lead_without_a_look_at_the_nodes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Roster, "look_now", lambda self: Completion.of(None))


def look_with_a_view_that_is_older_than_its_lock(patch: pytest.MonkeyPatch) -> None:
    """It waits for a checkpoint, and finds the journal empty and the chunks of before."""

    def late(self: Database, statement: FollowMetadata) -> Any:
        found = follow(self, statement)
        return found._replace(chunks=[]) if found.chunks and statement.above else found

    follow = Database.follow_metadata
    patch.setitem(_EFFECTS, FollowMetadata, late)


def take_the_lease_of_a_newer_release(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(FakeTables, "_knows", lambda self, database: True)


def end_at_a_look_that_is_cancelled(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(statements, "_WAITED_OUT", ())


def keep_the_lease_once_it_is_needed(patch: pytest.MonkeyPatch) -> None:
    """A start that takes longer than a lease has lost it by then."""

    class Late:
        def __init__(self, *of_keeper: Any) -> None:
            self._of_keeper = of_keeper
            self.statements, _, _, self.taken, _ = of_keeper

        @property
        def keeper(self) -> LeaseKeeper:
            statements, clock, scheduler, taken, terms = self._of_keeper
            return LeaseKeeper(statements, scheduler, clock, taken, terms)

    patch.setattr(term, "keep_lease", Late)


def take_a_cancelled_statement_for_a_full_disk(patch: pytest.MonkeyPatch) -> None:
    """Take a cancelled statement for a full disk: the driver of a deposed leader cancels what is in flight."""
    patch.setattr(statements.Statements, "end", lambda self: None)


PLANTS: list[Plant] = [
    answer_reads_whoever_leads,
    name_oneself_whoever_leads,
    begin_with_an_old_view,
    follow_the_next_leader_as_the_one_before,
    mark_no_round_as_one_to_follow,
    let_a_deposed_leader_append,
    number_rounds_in_the_database,
    take_the_lease_in_the_epoch_of_before,
    name_at_once_who_led_last,
    name_who_led_last_once_nobody_is_seen,
    name_the_next_leader_once_it_is_followed,
    depose_no_node,
    list_nodes_that_have_ended,
    lead_without_a_look_at_the_nodes,
    look_with_a_view_that_is_older_than_its_lock,
    take_the_lease_of_a_newer_release,
    end_at_a_look_that_is_cancelled,
    keep_the_lease_once_it_is_needed,
    take_a_cancelled_statement_for_a_full_disk,
]
FOUND_BY: Mapping[Plant, str] = {
    name_oneself_whoever_leads: "I34",
    number_rounds_in_the_database: "nothing was lost",
    take_the_lease_in_the_epoch_of_before: "I29",
    name_at_once_who_led_last: "I33",
    name_who_led_last_once_nobody_is_seen: "I33",
    name_the_next_leader_once_it_is_followed: "I33",
    depose_no_node: "I35",
    list_nodes_that_have_ended: "I35",
    lead_without_a_look_at_the_nodes: "I35",
    look_with_a_view_that_is_older_than_its_lock: "I31",
    take_the_lease_of_a_newer_release: "I36",
    end_at_a_look_that_is_cancelled: "I37",
    keep_the_lease_once_it_is_needed: "I30",
    take_a_cancelled_statement_for_a_full_disk: "I37",
}
"""The invariant that finds each, before any other or alone."""
