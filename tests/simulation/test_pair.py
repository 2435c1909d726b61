"""Several nodes over one set of tables in virtual time: clients notice a wait, and nothing else; and the auditor bites."""

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, replace
from random import Random
from typing import Any

import pytest

from oncelog.broker.handlers import current
from oncelog.broker.storage.shared import lease
from oncelog.broker.storage.shared.lease import LeaseKeeper, LeaseTerms, LeaseWatch
from oncelog.broker.storage.shared.tables import AppendRound, Lease, ReadRounds
from oncelog.broker.succession.follower import MetadataFollower
from oncelog.broker.turns.ports import MonotonicMs
from tests.fakes.node import Term
from tests.fakes.tables import _EFFECTS, Database
from tests.history.auditor import HistoryError, require_at_least
from tests.simulation.pair_world import PairWorld, WatchedDatabase

Plant = Callable[[pytest.MonkeyPatch], None]


# The later ones are in `make sim` too.
@pytest.mark.parametrize("first", [0, *(pytest.param(first, marks=pytest.mark.slow) for first in range(2, 26, 4))])
def test_what_clients_were_told_holds_over_several_nodes(first: int) -> None:
    counts: Counter[str] = Counter()
    for seed in range(first, first + (4 if first else 2)):
        counts.update(asdict(PairWorld(seed).run()))
    require_at_least(counts, commits=10, aborts=3, reads=300, take_overs=4, redirected=1, standby_looks=1_000)


def _answer_reads_whoever_leads(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(current, "around_handler", lambda lease, api, handle: handle)


def _count_an_answer_from_its_arrival(patch: pytest.MonkeyPatch) -> None:
    confirm = LeaseKeeper._confirm
    patch.setattr(LeaseKeeper, "_confirm", lambda self, _: confirm(self, self._clock.monotonic_ms()))


def _count_a_new_connection_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        LeaseKeeper, "_shown_count", property(lambda self: self._connection_count, lambda self, _: None), raising=False
    )


def _count_through_a_renewal(patch: pytest.MonkeyPatch) -> None:
    is_free = LeaseWatch.is_free

    def forgetful(self: LeaseWatch, seen: Lease, asked_at_ms: MonotonicMs, answered_at_ms: MonotonicMs) -> bool:
        self._seen = seen
        return is_free(self, seen, asked_at_ms, answered_at_ms)

    patch.setattr(LeaseWatch, "is_free", forgetful)


def _count_through_a_gap_between_looks(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(lease, "_LOOKS_LOST_MS", 10**9)


def _take_what_is_unattended_for_a_moment(patch: pytest.MonkeyPatch) -> None:
    """A leader that must connect again has no time for that."""
    begin = LeaseWatch.__init__
    patch.setattr(LeaseWatch, "__init__", lambda self, terms: begin(self, replace(terms, unattended_ms=60)))


def _wait_for_less_than_an_attempt(patch: pytest.MonkeyPatch) -> None:
    """Owner and others agree on it."""
    begin = LeaseTerms.__init__

    def hasty(self: LeaseTerms, *what: Any, **named: Any) -> None:
        begin(self, *what, **named, unattended_ms=60)

    patch.setattr(LeaseTerms, "__init__", hasty)


def _take_a_lease_that_was_renewed(patch: pytest.MonkeyPatch) -> None:
    take = WatchedDatabase.take_lease

    def blind(self: WatchedDatabase, random: Random, seen: Lease | None = None) -> int | None:
        return take(self, random, None)

    patch.setattr(WatchedDatabase, "take_lease", blind)


def _begin_with_an_old_view(patch: pytest.MonkeyPatch) -> None:
    def old(self: Database, statement: ReadRounds) -> Any:
        return [found for found in read(self, statement) if found.number < self.newest]

    read = Database.read_rounds
    patch.setitem(_EFFECTS, ReadRounds, old)


def _follow_the_next_leader_as_the_one_before(patch: pytest.MonkeyPatch) -> None:
    serve = Term._on_seen_lease

    def steady(self: Term, seen: Lease) -> None:
        if self._standby is None:
            serve(self, seen)

    patch.setattr(Term, "_on_seen_lease", steady)


def _follow_a_round_in_five_not(patch: pytest.MonkeyPatch) -> None:
    def forgetful(self: Database, statement: AppendRound) -> bool:
        return self.append_round(replace(statement, is_followed=statement.is_followed and statement.number % 5 > 0))

    patch.setitem(_EFFECTS, AppendRound, forgetful)


def _skip_what_was_trimmed(patch: pytest.MonkeyPatch) -> None:
    replay = MetadataFollower._replay

    def careless(self: MetadataFollower, batches: Any) -> None:
        self.next_offset = max(self.next_offset, next(lease_batches(batches)))
        replay(self, batches)

    patch.setattr(MetadataFollower, "_replay", careless)


def lease_batches(batches: Any) -> Any:
    from oncelog.protocol.records.batch import iter_batches

    return (header.base_offset for header, _ in iter_batches(memoryview(batches)))


def _let_a_deposed_leader_append(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Database, "may_write", lambda self, epoch: True)


PLANTS: list[Plant] = [
    _answer_reads_whoever_leads,
    _count_an_answer_from_its_arrival,
    _count_a_new_connection_at_once,
    _count_through_a_renewal,
    _count_through_a_gap_between_looks,
    _take_what_is_unattended_for_a_moment,
    _wait_for_less_than_an_attempt,
    _take_a_lease_that_was_renewed,
    _begin_with_an_old_view,
    _follow_the_next_leader_as_the_one_before,
    _follow_a_round_in_five_not,
    _skip_what_was_trimmed,
    _let_a_deposed_leader_append,
]


@pytest.mark.sampled(13)
@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__.strip("_"))
@pytest.mark.interpreted
def test_a_planted_fault_is_caught_within_sixty_seeds(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises(HistoryError):
        for seed in range(60):
            PairWorld(seed).run()
