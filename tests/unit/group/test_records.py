"""Group records as Kafka writes them: golden bytes, older versions, kinds that are left alone."""

from uuid import UUID

import pytest

from oncelog.broker.coordinator.group.classic.membership import restore_group
from oncelog.broker.coordinator.group.classic.states import GroupState
from oncelog.broker.coordinator.group.engine.shard import GroupShard
from oncelog.broker.coordinator.group.kinds import kind_of_record
from oncelog.broker.coordinator.group.records import (
    NO_TIMESTAMP,
    CommittedOffset,
    GenerationChange,
    OffsetChange,
    OffsetKey,
    StoredGroup,
    StoredMember,
    decode,
    decode_group,
    decode_offset,
    group_record,
    offset_record,
)
from oncelog.broker.coordinator.runtime import CoordinatorRecord
from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.generated.group_metadata_value import GroupMetadataValue, MemberMetadata
from oncelog.protocol.generated.offset_commit_value import OffsetCommitValue
from oncelog.protocol.records.record import decode_records
from oncelog.protocol.state_record_codec import encode_value
from oncelog.protocol.topics import CONSUMER_OFFSETS
from tests.clients.group_members import GROUP, Member, form, started

TOPIC_ID = UUID(int=7)


def test_an_offset_is_version_4_with_its_topics_id_in_a_tag() -> None:
    record = offset_record("g", ("t", 2), CommittedOffset(5, 0, "m", 9, topic_id=TOPIC_ID))
    assert record.key == b"\x00\x01" + b"\x00\x01g" + b"\x00\x01t" + b"\x00\x00\x00\x02"
    assert (
        record.value
        == (b"\x00\x04" + (5).to_bytes(8, "big") + bytes(4) + b"\x02m" + (9).to_bytes(8, "big") + b"\x01\x00\x10")
        + TOPIC_ID.bytes
    )


@pytest.mark.parametrize("expire_timestamp_ms", [NO_TIMESTAMP, 20])
@pytest.mark.parametrize("committed", [None, CommittedOffset(5, 3, "m", 9), CommittedOffset(5, 3, "", 9, -1, TOPIC_ID)])
def test_what_an_offset_carries_decoded_is_what_its_bytes_say(
    committed: CommittedOffset | None, expire_timestamp_ms: int
) -> None:
    earlier = offset_record("g", ("t", 2), CommittedOffset(4, 3, "m", 8))
    latest = offset_record("g", ("t", 2), committed and committed._replace(expire_timestamp_ms=expire_timestamp_ms))
    carried, decoded = GroupShard(0, kind_of_record), GroupShard(0, kind_of_record)
    for record in (earlier, latest):
        carried.replay(record, offset=1, producer_id=-1)
        decoded.replay(CoordinatorRecord(record.key, record.value), offset=1, producer_id=-1)
    assert carried.offsets("g") == decoded.offsets("g")


def test_an_offset_with_an_expiry_is_version_1() -> None:
    record = offset_record("g", ("t", 2), CommittedOffset(5, 3, "m", 9, expire_timestamp_ms=20))
    assert record.value == (
        b"\x00\x01" + (5).to_bytes(8, "big") + b"\x00\x01m" + (9).to_bytes(8, "big") + (20).to_bytes(8, "big")
    )


@pytest.mark.parametrize("version", range(5))
def test_offsets_of_every_version_are_read(version: int) -> None:
    value = OffsetCommitValue(offset=5, leader_epoch=3, metadata="m", commit_timestamp=9, expire_timestamp=20)
    read = decode_offset(encode_value(value, version))
    assert (read.offset, read.metadata, read.commit_timestamp_ms) == (5, "m", 9)
    assert read.leader_epoch == (3 if version >= 3 else -1)
    assert read.expire_timestamp_ms == (20 if version == 1 else -1)


@pytest.mark.parametrize("version", range(5))
def test_groups_of_every_version_are_restored(version: int) -> None:
    member = MemberMetadata(
        member_id="m",
        group_instance_id="i",
        client_id="c",
        client_host="/h",
        rebalance_timeout=30,
        session_timeout=20,
        subscription=b"s",
        assignment=b"a",
    )
    value = GroupMetadataValue(protocol_type="consumer", generation=4, protocol="range", leader="m", members=[member])
    group = restore_group("g", decode_group(encode_value(value, version)))
    assert (group.state, group.generation_id, group.leader_id) == (GroupState.STABLE, 4, "m")
    again = group.members["m"]
    assert (again.session_timeout_ms, again.rebalance_timeout_ms) == (20, 30 if version >= 1 else 20)
    assert (again.metadata_for("range"), again.assignment) == (b"s", b"a")
    assert group.static_members == ({"i": "m"} if version >= 3 else {})


def test_a_generation_comes_back_as_it_was_written() -> None:
    members = (
        StoredMember("m", None, "c", "/h", 30, 20, b"s", b"a"),
        StoredMember("n", "i", "c", "/h", 30, 20, b"", b""),
    )
    stored = StoredGroup("consumer", 4, "range", "m", 99, members)
    record = group_record("g", stored)
    assert record.decoded == decode(record) == GenerationChange("g", stored)
    assert record.value is not None
    assert record.value[:2] == b"\x00\x03"
    assert decode_group(record.value) == stored


def test_an_empty_group_has_neither_protocol_nor_leader() -> None:
    broker = started()
    member = Member(broker)
    form(member)
    member.leave()
    log = broker.broker.topics.partition(CONSUMER_OFFSETS, broker.broker.groups.partition_for(GROUP))
    (*_, last), *_ = (decode_records(batch) for _, batch in reversed(list(log.batches())))
    assert last.value is not None
    stored = decode_group(bytes(last.value))
    assert (stored.generation_id, stored.protocol_name, stored.leader_id, stored.members) == (2, None, None, ())
    assert stored.protocol_type == "consumer"


def test_the_older_kind_of_offset_key_is_read() -> None:
    key = b"\x00\x00" + b"\x00\x01g" + b"\x00\x01t" + b"\x00\x00\x00\x02"
    assert decode(CoordinatorRecord(key, None)) == OffsetChange(OffsetKey("g", ("t", 2)), None)


def test_records_of_a_later_kafka_are_left_alone() -> None:
    shard = GroupShard(0, kind_of_record)
    unknown = b"\x00\x63\x00\x01g"
    shard.replay(CoordinatorRecord(unknown, b"x"), offset=0, producer_id=-1)
    assert shard.group_ids() == []


def test_a_record_of_an_unknown_kind_is_an_error() -> None:
    with pytest.raises(ProtocolError):
        decode(CoordinatorRecord(b"\x00", None))
