"""The records of share-partitions, as they are in the log."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.broker.coordinator.runtime import CoordinatorRecord
from oncelog.broker.coordinator.share.records import (
    Snapshot,
    SnapshotChange,
    UpdateChange,
    change_of,
    snapshot_record,
    update_record,
)
from oncelog.broker.coordinator.share.shard import ShareShard
from oncelog.broker.coordinator.share.values import SharePartitionKey, ShareState, StateBatch
from oncelog.broker.turns.ports import WallMs
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.records.record import Record
from oncelog.tools.log.dump.decoders import share_states

KEY = SharePartitionKey("group", UUID(int=1), 2)
INT32, INT64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
BATCHES = st.lists(
    st.builds(StateBatch, INT64, INT64, st.sampled_from((0, 2, 4)), st.integers(0, 2**15 - 1)), max_size=3
).map(tuple)
KEYS = st.builds(SharePartitionKey, st.text(max_size=5), st.uuids(), INT32)
TIMES = st.integers(0, 2**62).map(WallMs)
SNAPSHOTS = st.builds(Snapshot, INT32, st.builds(ShareState, INT32, INT32, INT64, INT32, BATCHES), TIMES, TIMES)


def as_read(record: CoordinatorRecord) -> CoordinatorRecord:
    """The record without what its writer knew."""
    return CoordinatorRecord(record.key, record.value)


@given(KEYS, st.none() | SNAPSHOTS)
def test_a_snapshot_is_read_as_it_was_written(key: SharePartitionKey, snapshot: Snapshot | None) -> None:
    record = snapshot_record(key, snapshot)
    assert change_of(record) == change_of(as_read(record)) == SnapshotChange(key, snapshot)


@given(st.builds(UpdateChange, KEYS, INT32, INT32, INT64, INT32, BATCHES))
def test_an_update_is_read_as_it_was_written(update: UpdateChange) -> None:
    record = update_record(update)
    assert change_of(record) == change_of(as_read(record)) == update


@pytest.mark.parametrize("key", [b"\x00\x07later", update_record(UpdateChange(KEY, 0, 0, 0, 0, ())).key])
def test_a_record_of_a_later_release_and_an_update_without_a_value_change_nothing(key: bytes) -> None:
    shard = ShareShard(0)
    shard.replay(CoordinatorRecord(key, None), offset=0, producer_id=-1)
    assert list(shard.all()) == []
    assert shard.redundant_before == 1


@pytest.mark.parametrize("damaged", [CoordinatorRecord(b"", b""), CoordinatorRecord(b"\x00\x00\x00", b"\x00\x00")])
def test_a_damaged_record_stops_the_replay(damaged: CoordinatorRecord) -> None:
    with pytest.raises(KafkaError) as refused:
        ShareShard(0).replay(damaged, offset=0, producer_id=-1)
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE


def test_the_dump_shows_the_records_as_kafkas_does() -> None:
    update = update_record(UpdateChange(KEY, 3, 1, 5, -1, (StateBatch(5, 9, 2, 1),)))
    shown = share_states(Record(0, 0, update.key, update.value))
    assert shown.key == {
        "type": "1",
        "data": {"groupId": "group", "topicId": "AAAAAAAAAAAAAAAAAAAAAQ", "partition": 2},
    }
    batch = {"firstOffset": 5, "lastOffset": 9, "deliveryState": 2, "deliveryCount": 1}
    assert shown.value == {
        "version": "0",
        "data": {"snapshotEpoch": 3, "leaderEpoch": 1, "startOffset": 5, "stateBatches": [batch]},
    }
    end = snapshot_record(KEY, None)
    assert share_states(Record(0, 0, end.key, end.value)).value == "<DELETE>"
