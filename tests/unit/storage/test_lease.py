"""Who may write: a lease is taken when it is free, renewed while its owner lives, and noticed when it is lost."""

from collections.abc import Callable, Generator
from copy import copy
from random import Random
from typing import TypeVar

import pytest

from oncelog.broker.assembly.postgres import terms_of
from oncelog.broker.config.settings import load_config
from oncelog.broker.storage.shared.chunks import ChunkWriter
from oncelog.broker.storage.shared.lease import Free, LeaseKeeper, LeaseTerms, epoch_jump, take_lease
from oncelog.broker.storage.shared.statements import Fenced, Moved, RoundsLost, Statements
from oncelog.broker.storage.shared.tables import (
    LOST_EPOCHS,
    NO_NODE,
    AppendRound,
    KeepPlace,
    Lease,
    LookAtLease,
    TakeLease,
    TakenLease,
)
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.machine import System
from oncelog.broker.turns.ports import MonotonicMs
from oncelog.broker.turns.slices import Slices
from tests.fakes.broker import SeededEntropy
from tests.fakes.database import _ROWS, Database
from tests.fakes.tables import FakeTables
from tests.fakes.virtual_time import VirtualTime

T = TypeVar("T")
LEASE_MS = 10_000


class Candidate:
    """A broker that wants the lease, with a connection of its own."""

    def __init__(
        self,
        database: Database,
        time: VirtualTime,
        owner: str,
        node_id: int = NO_NODE,
        tables: FakeTables | None = None,
        random: Callable[[], float] = lambda: 0.5,
    ) -> None:
        self.time = time
        self.seen: list[Lease] = []
        self.lost: list[OSError] = []
        self.free: list[Free] = []
        self.statements = Statements(tables or FakeTables(database, time, time, Random(1)), time, time)
        self.terms = LeaseTerms(owner, LEASE_MS, node_id=node_id, random=random)

    def begin(self) -> Completion[TakenLease]:
        def on_seen(seen: Lease, _: MonotonicMs) -> None:
            self.seen.append(seen)

        def on_taken(_: Lease, free: Free) -> None:
            self.free.append(free)

        taking = take_lease(self.statements, self.time, self.time, self.terms, on_seen, on_taken)
        return Slices(self.time).run_own(taking)

    def take(self) -> TakenLease:
        """The lease, whatever time it takes."""
        return of(self.time, self.begin())

    def keep(self, taken: TakenLease) -> LeaseKeeper:
        keeper = LeaseKeeper(self.statements, self.time, self.time, taken, self.terms)
        keeper.watch(self.lost.append)
        return keeper


def of(time: VirtualTime, completion: Completion[T]) -> T:
    for _ in range(60_000):
        if completion.done:
            break
        time.advance(1)
    return completion.result()


@pytest.fixture
def world() -> Generator[tuple[Database, VirtualTime]]:
    yield Database(), VirtualTime()


World = tuple[Database, VirtualTime]


def test_no_start_waits_for_a_lease_that_is_free(world: World) -> None:
    database, time = world
    candidate = Candidate(database, time, "one")
    taken = candidate.take()
    assert (taken.epoch, taken.is_elsewhere) == (1, False)
    assert time.monotonic_ms() < 1_000
    assert candidate.seen == []


def test_an_owner_that_lives_keeps_the_lease_while_another_waits_and_sees_whose_it_is(world: World) -> None:
    database, time = world
    owner, other = Candidate(database, time, "one", 1), Candidate(database, time, "two", 2)
    owner.keep(owner.take())
    taking = other.begin()
    time.advance(5 * LEASE_MS)
    assert not taking.done
    assert {(seen.owner, seen.node_id) for seen in other.seen} == {("one", 1)}
    assert owner.lost == []


def _ends(database: Database) -> None:
    database.attendant = None


def _says_nothing_more(database: Database) -> None:
    """Its machine is gone: the database does not know that the connection is."""
    database.attendant = FakeTables(database, VirtualTime(), VirtualTime(), Random(1)), database.epoch


@pytest.mark.parametrize(("end", "after_ms", "before_ms"), [(_ends, 700, 1_500), (_says_nothing_more, 9_000, 11_000)])
def test_the_lease_of_a_broker_that_has_ended_is_free_soon_and_that_of_a_lost_machine_when_it_is_over(
    world: World, end: Callable[[Database], None], after_ms: int, before_ms: int
) -> None:
    database, time = world
    assert Candidate(database, time, "one").take().epoch == 1
    end(database)
    other = Candidate(database, time, "two")
    assert other.take().epoch == 2
    assert after_ms <= time.monotonic_ms() <= before_ms


@pytest.mark.parametrize("jump_ms", [-20_000, 0, 20_000])
@pytest.mark.parametrize(("end", "expected"), [(_ends, Free.UNATTENDED), (_says_nothing_more, Free.OVER)])
def test_why_a_lease_was_free_is_what_was_seen_however_the_clock_of_the_database_is_set(
    world: World, end: Callable[[Database], None], expected: Free, jump_ms: int
) -> None:
    database, time = world
    clock = VirtualTime()
    clock.leap(100_000)
    tables = FakeTables(database, time, clock, Random(1))
    assert Candidate(database, time, "one", tables=tables).take().epoch == 1
    end(database)
    clock.leap(jump_ms)
    other = Candidate(database, time, "two", tables=tables)
    other.take()
    assert other.free == [expected]


def test_an_owner_that_connects_again_in_time_keeps_the_lease(world: World) -> None:
    """After a cut no connection attends to the lease for a moment."""
    database, time = world
    owner, other = Candidate(database, time, "one"), Candidate(database, time, "two")
    keeper = owner.keep(owner.take())
    taking = other.begin()
    for _ in range(20):
        time.advance(997)
        database.attendant = None
    time.advance(5_000)
    assert not taking.done
    assert owner.lost == []
    assert keeper.is_ours


def test_a_lease_that_was_given_back_is_free_at_once(world: World) -> None:
    database, time = world
    owner, other = Candidate(database, time, "one"), Candidate(database, time, "two")
    owner.keep(owner.take()).give_back()
    begun_ms = time.monotonic_ms()
    assert other.take().epoch == 2
    assert time.monotonic_ms() - begun_ms < 500
    time.advance(LEASE_MS)
    assert owner.lost == []


def test_of_two_that_want_it_one_has_it(world: World) -> None:
    database, time = world
    both = [Candidate(database, time, "one").begin(), Candidate(database, time, "two").begin()]
    time.advance(30_000)
    taken = sorted(each.result().epoch for each in both if each.error is None)
    assert taken in ([1], [1, 2])  # the second has it once the first, which renews nothing, is over


def test_who_has_slept_past_the_lease_learns_it_with_the_next_renewal(world: World) -> None:
    database, time = world
    sleeper = Candidate(database, time, "one")
    taken = sleeper.take()
    database.attendant = None
    assert Candidate(database, time, "two").take().epoch == 2
    sleeper.keep(taken)
    time.advance(LEASE_MS)
    assert [type(each) for each in sleeper.lost] == [Fenced]


def test_who_appends_nothing_learns_with_the_next_renewal_that_the_database_is_older(world: World) -> None:
    database, time = world
    idle = Candidate(database, time, "one")
    idle.keep(idle.take())
    database.epoch -= 1  # a backup of before was put back
    time.advance(LEASE_MS)
    assert [type(each) for each in idle.lost] == [RoundsLost]
    database.attendant = None
    assert Candidate(database, time, "two").take().is_elsewhere


def test_a_database_that_goes_back_twice_never_gives_the_epoch_of_a_lost_leadership_again(world: World) -> None:
    database, time = world
    database.tick = time.monotonic_ms
    database.note()
    given = set()
    for start in range(20):
        candidate = Candidate(database, time, f"start {start}", random=Random(start).random)
        given.add(candidate.take().epoch)
        database.restore(1)
    assert len(given) == 20 and database.epoch == 0


def test_a_start_draws_by_the_randomness_of_its_machine() -> None:
    time, config = VirtualTime(), load_config()[0]
    system = System(time, SeededEntropy(1), time, None, None, [].append)
    terms = terms_of(config, system)
    assert terms.random == system.entropy.random and len({epoch_jump(terms.random) for _ in range(9)}) == 9


def test_an_epoch_has_room_for_a_thousand_losses_of_the_largest_distance() -> None:
    """A million leaderships fit between them: the id of a chunk is a number of 64 bits, with the epoch above 32."""
    epoch = 1_000_000 + 1_000 * epoch_jump(lambda: 1 - 2**-53)
    writer = ChunkWriter(epoch, 1)
    assert epoch << 32 <= writer._last_id < 2**63 - 2**32


@pytest.mark.parametrize("of_attendance", [True, False])
def test_a_leader_with_one_silent_connection_stays_the_leader(world: World, of_attendance: bool) -> None:
    """The server gives the connection up before an answer is late for good, and others see that."""
    database, time = world
    tables = FakeTables(database, time, time, Random(1))
    owner = Candidate(database, time, "one", 1, tables)
    keeper = owner.keep(owner.take())
    taking = Candidate(database, time, "two", 2).begin()
    time.advance(1_000)
    tables.drop_packets(of_attendance=of_attendance)
    time.advance(3_000)
    for _ in range(20_000):
        time.advance(1)
        assert keeper.is_ours and not taking.done


def test_an_answer_that_was_lost_has_taken_it_once(world: World) -> None:
    database, time = world
    candidate = Candidate(database, time, "one")
    seen = of(time, candidate.statements.ask(LookAtLease()))
    taking = TakeLease(seen, "one", LEASE_MS, LOST_EPOCHS)
    assert of(time, candidate.statements.ask(taking)) == of(time, candidate.statements.ask(taking))
    assert database.epoch == 1


def test_a_round_behind_one_that_the_database_has_lost_is_not_added_and_not_taken_for_another_brokers(
    world: World,
) -> None:
    database, time = world
    statements = Candidate(database, time, "one").statements
    epoch = Candidate(database, time, "one").take().epoch
    for number in (1, 2):
        of(time, statements.append(AppendRound(epoch, number, (b"",))))
    del database.journal[2]  # a standby was promoted that had not received it
    with pytest.raises(RoundsLost, match="ecords that were acknowledged"):
        of(time, statements.append(AppendRound(epoch, 3, (b"",))))
    assert list(database.journal) == [1]


def test_a_start_after_lost_rounds_knows_of_it_though_the_database_is_where_it_was(world: World) -> None:
    """Server and timeline are the same after a backup of the database's files was restored."""
    database, time = world
    statements = Candidate(database, time, "one").statements
    epoch = Candidate(database, time, "one").take().epoch
    of(time, statements.append(AppendRound(epoch, 1, (b"",))))
    del database.journal[1]
    with pytest.raises(RoundsLost):
        of(time, statements.append(AppendRound(epoch, 2, (b"",))))
    time.settle()
    database.attendant = None
    assert Candidate(database, time, "two").take().is_elsewhere


def test_a_start_hears_that_the_database_is_elsewhere_until_it_has_followed(world: World) -> None:
    database, time = world
    database.is_elsewhere = True
    for owner in ("one", "two"):  # the first has ended before it did anything
        candidate = Candidate(database, time, owner)
        taken = candidate.take()
        assert taken.is_elsewhere
        database.attendant = None
    of(time, candidate.statements.write(KeepPlace(taken.epoch, taken.place)))
    assert not Candidate(database, time, "three").take().is_elsewhere


def test_a_restored_lease_is_not_free_before_the_last_leader_has_noticed(world: World) -> None:
    """A standby of PostgreSQL is promoted, whose tables say that the lease is that of the candidate, or free. The owner
    reads on until it asks.
    """
    for is_given_back in (True, False):
        database, time = Database(), VirtualTime()
        candidate = Candidate(database, time, "two", 2)
        before = candidate.keep(candidate.take())
        if is_given_back:
            before.end()
            before.give_back()
        rows = {name: copy(getattr(database, name)) for name in _ROWS}
        owner = Candidate(database, time, "one", 1)
        before.end()
        database.attendant = None
        keeper = owner.keep(owner.take())
        taking = candidate.begin()
        time.advance(LEASE_MS)
        assert keeper.is_ours and not taking.done
        for name, value in rows.items():
            setattr(database, name, value)
        database.attendant = None
        while not taking.done:
            time.advance(1)
        assert not keeper.is_ours and owner.lost
        assert candidate.free[-1] in (Free.GIVEN_BACK, Free.UNATTENDED)


@pytest.mark.parametrize("is_over", [True, False])
def test_a_lease_that_ran_out_before_the_database_moved_is_not_renewed(world: World, *, is_over: bool) -> None:
    """Another may have led in what the database has lost, and no row of it says so."""
    database, time = world
    tables = FakeTables(database, time, time, Random(1))
    owner = Candidate(database, time, "one", tables=tables)
    keeper = owner.keep(owner.take())
    time.advance(1_000)
    assert keeper.is_ours
    tables.is_away = True
    tables.cut_all()
    time.advance(LEASE_MS if is_over else 1)
    database.restores += 1  # to the rows of this moment: what has happened elsewhere since is gone
    tables.is_away = False
    time.advance(1_000)
    assert [type(each) for each in owner.lost] == ([Moved] if is_over else [])
    assert keeper.is_ours is not is_over


def test_a_lease_that_ran_out_is_kept_where_the_database_is_the_same(world: World) -> None:
    database, time = world
    tables = FakeTables(database, time, time, Random(1))
    owner = Candidate(database, time, "one", tables=tables)
    keeper = owner.keep(owner.take())
    tables.is_away = True
    tables.cut_all()
    time.advance(LEASE_MS)
    assert not keeper.is_ours
    tables.is_away = False
    time.advance(1_000)
    assert keeper.is_ours
    assert owner.lost == []


def test_what_is_cancelled_while_another_leads_is_asked_again(world: World) -> None:
    """It says nothing of the lease: a node that stands by waits as a leader does."""
    database, time = world
    tables = FakeTables(database, time, time, Random(1))
    other = Candidate(database, time, "two", tables=tables)
    Candidate(database, time, "one").take()
    tables.cancel_share = 0.9
    assert other.take().epoch == 2
