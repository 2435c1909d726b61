"""The entries of `.txnindex`, `.snapshot` and our `.batches`: aborted transactions, and producer state.

Owns: reading them entry by entry. The broker's own readers reject a bad file as a whole; a dump shows how far it is
good.
"""

from collections.abc import Iterator
from struct import Struct

from oncelog.broker.storage import transaction_index
from oncelog.broker.storage.producer_snapshot import BATCHES_HEADER, BATCHES_ROW, BATCHES_VERSION, CRC_COVERS_FROM
from oncelog.broker.storage.producer_snapshot import HEADER as SNAPSHOT_HEADER
from oncelog.broker.storage.producer_snapshot import ROW as SNAPSHOT_ROW
from oncelog.broker.storage.producer_snapshot import VERSION as SNAPSHOT_VERSION
from oncelog.protocol.checksum import crc32c
from oncelog.protocol.records.batch import SEQUENCE_MASK
from oncelog.tools.log.dump.findings import Findings
from oncelog.tools.log.dump.indexes import note_odd_size, whole_entries
from oncelog.tools.terminal import Row

_ABORTED = ("version", "producer_id", "first_offset", "last_offset", "last_stable_offset")


def dump_transaction_index(data: bytes, path: str, findings: Findings) -> Iterator[Row]:
    entry = transaction_index.ENTRY
    for slot, (version, *rest) in enumerate(entry.iter_unpack(whole_entries(data, entry.size))):
        if version != transaction_index.VERSION:
            findings.add_problem(path, f"entry {slot} has the unknown version {version}", slot * entry.size)
            return
        yield {"kind": "aborted_transaction", **dict(zip(_ABORTED, (version, *rest), strict=True))}
    note_odd_size(data, entry.size, path, findings)


def dump_producer_snapshot(data: bytes, path: str, findings: Findings) -> Iterator[Row]:
    problem = _snapshot_problem(data, SNAPSHOT_HEADER, SNAPSHOT_ROW, SNAPSHOT_VERSION)
    if problem is not None:
        findings.add_problem(path, problem)
        return
    for values in SNAPSHOT_ROW.iter_unpack(data[SNAPSHOT_HEADER.size :]):
        producer_id, epoch, last_sequence, last_offset, offset_delta, timestamp, coordinator_epoch, first_offset = (
            values
        )
        row = {
            "kind": "producer",
            "producer_id": producer_id,
            "producer_epoch": epoch,
            "coordinator_epoch": coordinator_epoch,
            "current_txn_first_offset": first_offset if first_offset >= 0 else None,
            "last_timestamp": timestamp,
        }
        if last_offset >= 0:
            row |= _batch_values(last_sequence, last_offset, offset_delta, timestamp)
        yield row


def _batch_values(last_sequence: int, last_offset: int, offset_delta: int, timestamp: int) -> Row:
    return {
        "first_sequence": (last_sequence - offset_delta) & SEQUENCE_MASK,
        "last_sequence": last_sequence,
        "last_offset": last_offset,
        "offset_delta": offset_delta,
        "timestamp": timestamp,
    }


def dump_producer_batches(data: bytes, path: str, findings: Findings) -> Iterator[Row]:
    """Yield all cached batches of each producer: our file beside Kafka's snapshot, which has only the newest."""
    problem = _snapshot_problem(data, BATCHES_HEADER, BATCHES_ROW, BATCHES_VERSION)
    if problem is not None:
        findings.add_problem(path, problem)
        return
    for producer_id, *batch in BATCHES_ROW.iter_unpack(data[BATCHES_HEADER.size :]):
        yield {"kind": "producer_batch", "producer_id": producer_id, **_batch_values(*batch)}


def _snapshot_problem(data: bytes, header: Struct, row: Struct, known_version: int) -> str | None:
    if len(data) < header.size:
        return f"Snapshot failed schema validation: {len(data)} bytes hold no header"
    version, crc, *_, count = header.unpack_from(data)
    if version != known_version:
        return f"Snapshot contained an unknown file version {version}"
    computed = crc32c(data[CRC_COVERS_FROM:])
    if crc != computed:
        return f"Snapshot is corrupt (CRC is no longer valid). Stored crc: {crc}. Computed crc: {computed}"
    if len(data) != header.size + count * row.size:
        return f"Snapshot failed schema validation: {count} rows do not make {len(data)} bytes"
    return None
