"""The newest records of a coordinator's log give the shard that all of its records give."""

from collections.abc import Iterator
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from oncelog.broker.coordinator.group.engine.shard import GroupShard
from oncelog.broker.coordinator.group.kinds import kind_of_record
from oncelog.broker.coordinator.group.records import CommittedOffset, offset_record
from oncelog.broker.coordinator.newest import NewestRecords
from oncelog.broker.coordinator.runtime import CoordinatorRecord
from oncelog.broker.log.values import NO_TRANSACTION, EndMarker, Writer
from oncelog.broker.turns.ports import WallMs
from oncelog.protocol.records.record import Record
from tests.fakes.coordinator_log import MemoryCoordinatorLog

GROUPS = ("a", "b")
PRODUCERS = (7, 8)
NOW = WallMs(0)


class Commit(NamedTuple):
    group_id: str
    partition: int
    producer_id: int
    """−1: in no transaction."""
    is_deletion: bool = False


class End(NamedTuple):
    producer_id: int
    committed: bool


partitions = st.integers(0, 1)
steps = st.lists(
    st.builds(Commit, st.sampled_from(GROUPS), partitions, st.sampled_from((-1, *PRODUCERS)))
    | st.builds(Commit, st.sampled_from(GROUPS), partitions, st.just(-1), st.just(True))
    | st.builds(End, st.sampled_from(PRODUCERS), st.booleans()),
    max_size=30,
)


@given(steps)
def test_offsets_are_those_of_the_whole_log_committed_and_pending(done: list[Commit | End]) -> None:
    """The offsets agree whichever transactions were open, ended or overtaken, and whichever offsets were deleted."""
    live, log = GroupShard(0, kind_of_record), MemoryCoordinatorLog()
    for number, step in enumerate(done):
        if isinstance(step, End):
            marker = EndMarker(step.producer_id, 0, step.committed, 0)
            live.replay_end_transaction_marker(marker, log.append_end_txn_marker(marker, NOW).base_offset)
        else:
            committed = None if step.is_deletion else CommittedOffset(number, -1, "", 0)
            record = offset_record(step.group_id, ("t", step.partition), committed)
            writer = NO_TRANSACTION if step.producer_id < 0 else Writer(step.producer_id, 0, 2)
            offset = log.append_own([Record(0, 0, record.key, record.value)], NOW, writer).base_offset
            live.replay(record, offset=offset, producer_id=step.producer_id)
    assert _seen(loaded(log)) == _seen(live)


def loaded(log: MemoryCoordinatorLog) -> GroupShard:
    newest, shard = NewestRecords(), GroupShard(0, kind_of_record)
    for header, batch in log.batches():
        newest.add(header, batch)
    for record, producer_id in newest.take():
        assert record.key is not None
        shard.replay(CoordinatorRecord(record.key, record.value), offset=record.offset, producer_id=producer_id)
    return shard


def _seen(shard: GroupShard) -> list[object]:
    return list(_lines(shard))


def _lines(shard: GroupShard) -> Iterator[object]:
    for group_id in GROUPS:
        yield dict(shard.offsets(group_id)), set(shard.pending_partitions(group_id))
    for producer_id in PRODUCERS:  # what a commit that comes later makes of those that are open
        shard.replay_end_transaction_marker(EndMarker(producer_id, 0, True, 0), 1000)
        yield [dict(shard.offsets(group_id)) for group_id in GROUPS]


def test_an_overtaken_record_is_not_kept() -> None:
    """However many there are of a key, one is taken."""
    log = MemoryCoordinatorLog()
    for number in range(100):
        record = offset_record("a", ("t", 0), CommittedOffset(number, -1, "", 0))
        log.append_own([Record(0, 0, record.key, record.value)], NOW, NO_TRANSACTION)
    newest = NewestRecords()
    for header, batch in log.batches():
        newest.add(header, batch)
    assert [(record.offset, producer_id) for record, producer_id in newest.take()] == [(99, -1)]
    assert newest.take() == []
