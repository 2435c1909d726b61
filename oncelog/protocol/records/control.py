"""Control records: the COMMIT and ABORT markers that end a transaction in a partition (KIP-98).

One record per batch, 78 bytes in all. Key: version 0 and the type; value: version 0 and the coordinator epoch. The
batch is transactional and control, carries producer id and epoch, and has no sequence.
"""

from enum import IntEnum
from struct import Struct, error

from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.records.batch import CONTROL_MASK, TRANSACTIONAL_MASK, assemble_batch
from oncelog.protocol.records.record import Record, decode_records, encode_record

_KEY = Struct(">hh")
_VALUE = Struct(">hi")


class ControlRecordType(IntEnum):
    ABORT = 0
    COMMIT = 1


_NO_HEADERS = b"\x00"
_BEFORE_VALUE = {
    kind: encode_record(Record(0, 0, _KEY.pack(0, kind), bytes(_VALUE.size)), 0, 0)[: -_VALUE.size - len(_NO_HEADERS)]
    for kind in ControlRecordType
}
"""The bytes of a marker's only record before its value and headers: nothing else of it ever differs."""


def encode_end_txn_marker(
    producer_id: int,
    producer_epoch: int,
    control_type: ControlRecordType,
    coordinator_epoch: int,
    timestamp: int,
    *,
    base_offset: int = 0,
    leader_epoch: int = 0,
) -> bytes:
    """Encode a whole marker batch."""
    return assemble_batch(
        _BEFORE_VALUE[control_type] + _VALUE.pack(0, coordinator_epoch) + _NO_HEADERS,
        attributes=TRANSACTIONAL_MASK | CONTROL_MASK,
        record_count=1,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        partition_leader_epoch=leader_epoch,
    )


def decode_end_txn_marker(batch: memoryview) -> tuple[ControlRecordType, int]:
    """Return the type and coordinator epoch of a marker; raises ProtocolError for any other control record."""
    records = decode_records(batch)
    if not records:
        raise ProtocolError("a control batch without a record is not a marker")
    record = records[0]
    try:
        _, control_type = _KEY.unpack_from(record.key or b"")
        _, coordinator_epoch = _VALUE.unpack_from(record.value or b"")
        return ControlRecordType(control_type), coordinator_epoch
    except (error, ValueError) as problem:
        raise ProtocolError(f"the control record at offset {record.offset} is not a marker: {problem}") from problem
