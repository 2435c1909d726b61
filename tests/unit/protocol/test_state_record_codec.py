"""Keys and values of coordinator records, byte for byte as Kafka keeps them."""

from uuid import UUID

import pytest

from oncelog.protocol import state_record_codec
from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.generated import (
    group_metadata_key,
    offset_commit_key,
    share_snapshot_key,
    share_snapshot_value,
    share_update_key,
    transaction_log_key,
    transaction_log_value,
)
from oncelog.protocol.generated.transaction_log_value import PartitionsSchema, TransactionLogValue

ONGOING = TransactionLogValue(
    producer_id=5,
    producer_epoch=2,
    transaction_timeout_ms=60_000,
    transaction_status=1,
    transaction_partitions=[PartitionsSchema(topic="t", partition_ids=[0, 3])],
    transaction_last_update_timestamp_ms=1_000,
    transaction_start_timestamp_ms=999,
)
HEAD = "0000000000000005 0002 0000ea60 01"
TIMES = "00000000000003e8 00000000000003e7"


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (transaction_log_key.TransactionLogKey(transactional_id="id"), "0000 0002 6964"),
        (offset_commit_key.OffsetCommitKey(group="g", topic="t", partition=7), "0001 0001 67 0001 74 00000007"),
        (group_metadata_key.GroupMetadataKey(group="g"), "0002 0001 67"),
        (share_snapshot_key.ShareSnapshotKey("g", UUID(int=1), 2), f"0000 0001 67 {1:032x} 00000002"),
        (share_update_key.ShareUpdateKey("g", UUID(int=1), 2), f"0001 0001 67 {1:032x} 00000002"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_key_starts_with_its_type(message: object, expected: str) -> None:
    assert state_record_codec.encode_key(message) == bytes.fromhex(expected)


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (0, f"0000 {HEAD} 00000001 0001 74 00000002 00000000 00000003 {TIMES}"),
        (1, f"0001 {HEAD} 02 02 74 03 00000000 00000003 00 {TIMES} 00"),
    ],
)
def test_a_value_starts_with_the_version_of_its_schema(version: int, expected: str) -> None:
    encoded = state_record_codec.encode_value(ONGOING, version)
    assert encoded == bytes.fromhex(expected)
    assert state_record_codec.decode(transaction_log_value, encoded) == ONGOING


def test_what_version_1_adds_travels_in_tags() -> None:
    value = TransactionLogValue(transaction_partitions=None, previous_producer_id=4, client_transaction_version=2)
    encoded = state_record_codec.encode_value(value, 1)
    assert encoded.endswith(bytes.fromhex("02 00 08 0000000000000004 02 02 0002"))
    assert state_record_codec.decode(transaction_log_value, encoded) == value


def test_a_share_snapshot_says_how_many_deliveries_are_complete_if_that_is_known() -> None:
    value = share_snapshot_value.ShareSnapshotValue(start_offset=5, delivery_complete_count=2)
    encoded = state_record_codec.encode_value(value, 0)
    assert encoded.endswith(bytes.fromhex("01 01 00 04 00000002"))
    assert state_record_codec.decode(share_snapshot_value, encoded) == value


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x00\x07", b"\xff\xff", b"\x00\x00\x00\x05ab"])
def test_records_that_are_not_what_they_claim_are_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        state_record_codec.decode(transaction_log_value, data)
    with pytest.raises(ProtocolError):
        state_record_codec.decode(transaction_log_key, data, 0)
