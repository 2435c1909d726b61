"""Another store over the same tables has what was acknowledged, and the one before acknowledges nothing more."""

from random import Random

import pytest

from oncelog.broker.log.partition_log import PartitionLog
from oncelog.broker.storage.producer_snapshot import encode_snapshot
from oncelog.broker.storage.shared.lease import LeaseTerms
from oncelog.broker.storage.shared.log import SharedLog
from oncelog.broker.storage.shared.opening import JournalGap
from oncelog.broker.storage.shared.statements import Fenced
from oncelog.broker.storage.shared.store import SharedLogStore, open_store
from oncelog.broker.storage.shared.tables import AttendLease, ReadRounds, RenewLease, Round
from oncelog.broker.turns.slices import Slices
from oncelog.protocol.generated.create_topics_request import CreatableTopic, CreateTopicsRequest
from tests.fakes.database import _EFFECTS, Database
from tests.fakes.logs import batch
from tests.fakes.tables import FakeTables
from tests.fakes.tables_broker import TablesBroker
from tests.fakes.virtual_time import VirtualTime
from tests.unit.storage.stores import Stored, named
from tests.unit.storage.test_stores import filled

STORES = ("tables", "tables, most of it in chunks that must be fetched", "PostgreSQL")


def taken_over(stored: Stored) -> tuple[PartitionLog, PartitionLog, list[OSError]]:
    """The log of the broker before, that of the next one, which is at work, and what makes the first one end."""
    before, failures, store = stored.log, stored.failures, stored.store
    assert isinstance(store, SharedLogStore)
    store.lease.give_back()  # as if it was over, while its owner keeps running
    stored.failures = []
    stored._begin()
    stored.log = stored.create(0)
    stored.manager.begin_serving()
    return before, stored.log, failures


def facts_of(stored: Stored, log: PartitionLog) -> list[object]:
    stored.log = log
    snapshot, shared = encode_snapshot(log.producer_state), log.stored
    assert isinstance(shared, SharedLog)
    return [
        [(header.base_offset, data) for header, data in stored.replayed(log.log_start_offset)],
        (log.log_start_offset, log.log_end_offset, log.high_watermark, log.last_stable_offset),
        (snapshot.rows, snapshot.batches),
        log.epochs.entries,
        shared.aborted_between(0, log.log_end_offset),
        [segment.base_offset for segment in shared.segments],
    ]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", named(STORES))
@pytest.mark.parametrize("seed", range(12))
def test_the_next_broker_has_what_was_acknowledged_and_continues_and_the_one_before_does_not(
    name: str, seed: int
) -> None:
    stored = Stored(name, segment_bytes=700)
    stored.log.lead(3)
    filled(stored, seed)
    stored.settle()
    first = stored.log
    expected = facts_of(stored, first)
    before, after, failures = taken_over(stored)
    assert facts_of(stored, after) == expected

    late = before.append(batch(1), wall_ms=stored.clock.wall_ms())
    stored.settle()
    assert failures and before.high_watermark <= late.base_offset

    stored.log = after
    appended = after.append(batch(2), wall_ms=stored.clock.wall_ms())
    stored.settle()
    assert appended.base_offset == late.base_offset
    assert after.high_watermark == appended.last_offset + 1 and not stored.failures


@pytest.mark.parametrize("is_overtaken", [True, False])
def test_what_does_not_join_is_damage_unless_another_broker_leads_by_now(
    is_overtaken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that slept while it read has one half from before, and one from after the next one has emptied it."""

    def later(database: Database, statement: ReadRounds) -> list[Round]:
        if is_overtaken:
            database.take_lease(Random(0))
        return [Round(statement.above + 2, b"", 0)]

    monkeypatch.setitem(_EFFECTS, ReadRounds, later)
    time = VirtualTime()
    tables = FakeTables(Database(), time, time, Random(0), takes_time=False)
    opening = Slices(time).run_own(open_store(tables, time, time, [].append, terms=LeaseTerms("owner")))
    while not opening.done:
        time.advance(1)
    assert type(opening.error) is (Fenced if is_overtaken else JournalGap)


def test_a_stop_says_of_a_stored_round_that_the_lease_is_not_confirmed() -> None:
    """PostgreSQL has answered, so no records need to be looked for."""
    broker = TablesBroker()
    broker.tables.refused = (AttendLease, RenewLease)
    broker.time.advance(11_000)
    wanted = CreatableTopic(name="topic", num_partitions=1, replication_factor=1)
    broker.send(CreateTopicsRequest(topics=[wanted], timeout_ms=1_000), 5)
    broker.time.settle()
    found = broker.store.close({}, cleanly=True)
    assert str(found) == "the last records are stored, and PostgreSQL has not confirmed the lease since"
