"""The batches of a log as the auditor wants them, from the bytes of its files."""

from collections.abc import Iterator
from pathlib import Path

from oncelog.protocol.records.batch import check_crc, iter_batches
from oncelog.protocol.records.control import ControlRecordType, decode_end_txn_marker
from oncelog.protocol.records.record import decode_records
from tests.history.events import LogBatch


def batches_of(records: memoryview) -> Iterator[LogBatch]:
    for header, batch in iter_batches(records):
        marker: bool | None = None
        values: tuple[bytes, ...] = ()
        if header.is_control:
            marker = decode_end_txn_marker(batch)[0] is ControlRecordType.COMMIT
        else:
            values = tuple(record.value or b"" for record in decode_records(batch))
        yield LogBatch(
            base_offset=header.base_offset,
            last_offset=header.last_offset,
            identity=(header.producer_id, header.producer_epoch),
            base_sequence=header.base_sequence,
            is_transactional=header.is_transactional,
            values=values,
            marker=marker,
            timestamp_ms=header.max_timestamp,
            is_intact=check_crc(batch),
            leader_epoch=header.partition_leader_epoch,
        )


def read_files(directory: Path) -> list[LogBatch]:
    """A partition's log as it lies on disk."""
    found: list[LogBatch] = []
    for path in sorted(directory.glob("*.log")):
        found += batches_of(memoryview(path.read_bytes()))
    return found
