"""What is committed at once, as at a start and a clean stop, is acknowledged only if no other broker has led."""

from collections.abc import Generator
from random import Random

import pytest

from oncelog.broker.storage.shared.statements import Fenced, Moved, RoundsLost
from oncelog.broker.storage.shared.tables import RenewLease
from tests.fakes.database import Database
from tests.fakes.logs import batch
from tests.unit.storage.tables_store import TablesStore

SLEPT_MS = 2 * 10**9


@pytest.fixture
def stored() -> Generator[TablesStore]:
    """A store with a batch that no round has, over tables that remember what they were."""
    database = Database(tick=lambda: 0)
    store = TablesStore(database)
    store.append(batch(1))
    store.run_until_done(store.append(batch(1)))
    store.append(batch(1))
    yield store


def database_of(stored: TablesStore) -> Database:
    return stored.tables._database


def test_a_lease_that_is_ours_is_not_asked_for(stored: TablesStore) -> None:
    stored.rounds.run_now()
    assert not any(isinstance(statement, RenewLease) for statement in stored.tables.sent_now)
    assert stored.logs[0].high_watermark == stored.logs[0].log_end_offset


def test_a_broker_that_slept_past_its_lease_renews_it_before_it_acknowledges(stored: TablesStore) -> None:
    stored.clock.time_ms += SLEPT_MS
    stored.rounds.run_now()
    assert isinstance(stored.tables.sent_now[-1], RenewLease)
    assert stored.logs[0].high_watermark == stored.logs[0].log_end_offset


def test_nothing_is_acknowledged_if_another_may_have_led_in_what_is_lost(stored: TablesStore) -> None:
    stored.clock.time_ms += SLEPT_MS
    database = database_of(stored)
    database.take_lease(Random(0))
    database.note()
    database.restore(1)
    acknowledged = stored.logs[0].high_watermark
    with pytest.raises(Moved):
        stored.rounds.run_now()
    assert stored.logs[0].high_watermark == acknowledged < stored.logs[0].log_end_offset
    assert [type(each) for each in stored.failures] == [Moved]


def test_nothing_is_acknowledged_without_an_answer_about_the_lease(stored: TablesStore) -> None:
    stored.clock.time_ms += SLEPT_MS
    stored.tables.refused = (RenewLease,)
    with pytest.raises(OSError, match="no space left"):
        stored.rounds.run_now()
    assert stored.logs[0].high_watermark < stored.logs[0].log_end_offset


def test_nothing_is_written_behind_another_leader(stored: TablesStore) -> None:
    database_of(stored).take_lease(Random(0))
    with pytest.raises(Fenced):
        stored.rounds.run_now()
    assert stored.logs[0].high_watermark < stored.logs[0].log_end_offset


def test_the_next_start_learns_of_rounds_whose_loss_was_found_at_a_stop(stored: TablesStore) -> None:
    """Server and timeline are those of before if the files of the server were put back."""
    database = database_of(stored)
    del database.journal[max(database.journal)]
    with pytest.raises(RoundsLost):
        stored.rounds.run_now()
    assert database.is_elsewhere
