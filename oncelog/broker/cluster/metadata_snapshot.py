"""Snapshots of the metadata log (KIP-630): the state that the records below an offset add up to, in files beside the
log.

Owns: the files, named `{end offset}-{epoch}.checkpoint` and written as Kafka writes its own: a SnapshotHeader control
record, metadata records, a SnapshotFooter. Does not own: when one is taken, and which one is used
(`broker.cluster.metadata_log`).
Invariants
- A file gets its final name only once it is whole and on disk.
- `decode_snapshot` returns all records of a snapshot or raises: a truncated or changed file yields nothing.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from struct import Struct
from typing import Any, NamedTuple

from oncelog.broker.cluster.metadata_records import count_of, decode_metadata_record, encode_metadata_batch
from oncelog.broker.log.store import Blobs
from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.records.batch import check_crc, encode_batch, iter_batches
from oncelog.protocol.records.record import Record, decode_records

_NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
_BATCH_RECORDS = 1_000
_KEY = Struct(">hh")
_HEADER_TYPE, _FOOTER_TYPE = 3, 4
# SnapshotHeaderRecord: version, timestamp of the last record below the end, tagged fields. SnapshotFooterRecord: the
# same without the timestamp.
_HEADER, _FOOTER = Struct(">hqB"), Struct(">hB")
_BATCH_FIELD = Struct(">2sBI")
"""The one tagged field of a header, which Kafka ignores: its number, its size, the checksum of the last batch below the
end. End offset and epoch are counted, and the same in a copy of the log that went on; this is not."""
_BATCH_FIELD_NUMBER = b"\x90\x4e"


class SnapshotId(NamedTuple):
    """Identifies a snapshot: its end offset (exclusive), and the leader epoch in which it was taken."""

    end_offset: int
    epoch: int


class SnapshotFiles:
    """The snapshots in the folder of the metadata log."""

    def __init__(self, blobs: Blobs, folder: str) -> None:
        self._blobs = blobs
        self._folder = folder

    def found(self) -> list[SnapshotId]:
        """Newest first."""
        names = map(_NAME.fullmatch, self._blobs.list_dir(self._folder))
        return sorted((SnapshotId(int(name[1]), int(name[2])) for name in names if name is not None), reverse=True)

    def path(self, snapshot: SnapshotId) -> str:
        return f"{self._folder}/{snapshot.end_offset:020d}-{snapshot.epoch:010d}.checkpoint"

    def read(self, snapshot: SnapshotId) -> bytes:
        """Raises OSError."""
        return self._blobs.read_bytes(self.path(snapshot))

    def write(self, snapshot: SnapshotId, data: bytes) -> None:
        """Durable on return; callable from another thread. Raises OSError."""
        self._blobs.write_atomically(self.path(snapshot), data)

    def keep_only(self, snapshots: Iterable[SnapshotId]) -> None:
        for snapshot in sorted(set(self.found()).difference(snapshots)):
            self._blobs.delete(self.path(snapshot))


class LastBatch(NamedTuple):
    """The batch of the log in which the records of a snapshot end."""

    timestamp_ms: int
    crc: int | None
    """None: a snapshot of Apache Kafka, or of an earlier version, does not name it."""


def encode_snapshot(records: Iterable[Any], last_timestamp_ms: int, epoch: int, last_crc: int | None = None) -> bytes:
    """Timestamp and checksum are of the last batch below the end of the snapshot."""
    header = _HEADER.pack(0, last_timestamp_ms, 0 if last_crc is None else 1)
    if last_crc is not None:
        header += _BATCH_FIELD.pack(_BATCH_FIELD_NUMBER, 4, last_crc)
    batches = [_control(0, _HEADER_TYPE, header, last_timestamp_ms, epoch)]
    offset = 1
    for chunk in in_chunks(records):
        batches.append(encode_metadata_batch(chunk, last_timestamp_ms, offset, epoch))
        offset += sum(map(count_of, chunk))
    batches.append(_control(offset, _FOOTER_TYPE, _FOOTER.pack(0, 0), last_timestamp_ms, epoch))
    return b"".join(batches)


def in_chunks(records: Iterable[Any]) -> Iterator[list[Any]]:
    """Yield the records in groups that one batch should hold."""
    chunk: list[Any] = []
    count = 0
    for record in records:
        chunk.append(record)
        count += count_of(record)
        if count >= _BATCH_RECORDS:
            yield chunk
            chunk, count = [], 0
    if chunk:
        yield chunk


def _control(offset: int, control_type: int, value: bytes, timestamp_ms: int, epoch: int) -> bytes:
    record = Record(offset, timestamp_ms, _KEY.pack(0, control_type), value, ())
    return encode_batch([record], base_offset=offset, control=True, partition_leader_epoch=epoch)


def decode_snapshot(data: bytes, decode: Callable[[memoryview, int], Any] = decode_metadata_record) -> list[Any]:
    """The metadata records, by `decode(value, offset)`; raises ProtocolError or KafkaError unless it is whole.

    Kafka has control records about the voters of its quorum beside the header (KIP-853)."""
    records: list[Any] = []
    control_types: list[int] = []
    size = offset = 0
    for header, batch in iter_batches(memoryview(data)):
        if header.base_offset != offset or not check_crc(batch):
            raise ProtocolError(f"the batch at byte {size} is damaged")
        if control_types[:1] != [_HEADER_TYPE] and not (header.is_control and not control_types):
            raise ProtocolError(f"the batch at byte {size} comes before the header")
        if _FOOTER_TYPE in control_types:
            raise ProtocolError(f"the batch at byte {size} comes after the footer")
        size += len(batch)
        offset = header.next_offset
        if header.is_control:
            control_types += _types_of(batch)
        else:
            records += _decode_batch(batch, decode)
    if control_types[:1] != [_HEADER_TYPE] or control_types[-1] != _FOOTER_TYPE or size != len(data):
        raise ProtocolError(f"it is not whole: {size} of {len(data)} bytes can be read")
    return records


def last_batch_of(data: bytes) -> LastBatch:
    """Return what the header of a whole snapshot says."""
    (_, batch), *_ = iter_batches(memoryview(data))
    value = decode_records(batch)[0].value or b""
    _, timestamp_ms, field_count = _HEADER.unpack_from(value)
    if field_count == 1 and len(value) == _HEADER.size + _BATCH_FIELD.size:
        number, _, crc = _BATCH_FIELD.unpack_from(value, _HEADER.size)
        if number == _BATCH_FIELD_NUMBER:
            return LastBatch(timestamp_ms, crc)
    return LastBatch(timestamp_ms, None)


def _types_of(batch: memoryview) -> Iterator[int]:
    for record in decode_records(batch):
        if record.key is None or len(record.key) != _KEY.size:
            raise ProtocolError("a control record without a type")
        yield int(_KEY.unpack(record.key)[1])


def _decode_batch(batch: memoryview, decode: Callable[[memoryview, int], Any]) -> Iterator[Any]:
    for record in decode_records(batch):
        if record.value is None:
            raise ProtocolError(f"an empty record at offset {record.offset}")
        yield decode(memoryview(record.value), record.offset)
