"""The entries of `.txnindex`, `.snapshot` and our `.batches`: aborted transactions, and producer state.

Owns: reading them entry by entry. The broker's own readers reject a bad file as a whole; a dump shows how far it is
good.
"""

from collections.abc import Iterator
from struct import Struct
from typing import Any

from oncelog.broker.storage import transaction_index
from oncelog.broker.storage.producer_snapshot import BATCHES_HEADER, BATCHES_ROW, BATCHES_VERSION, CRC_COVERS_FROM
from oncelog.broker.storage.producer_snapshot import HEADER as SNAPSHOT_HEADER
from oncelog.broker.storage.producer_snapshot import ROW as SNAPSHOT_ROW
from oncelog.broker.storage.producer_snapshot import VERSION as SNAPSHOT_VERSION
from oncelog.protocol.checksum import crc32c
from oncelog.protocol.records.batch import SEQUENCE_MASK
from oncelog.tools.log.dump.entries import EntryLine
from oncelog.tools.log.dump.findings import Findings, Problem
from oncelog.tools.log.dump.indexes import note_odd_size, whole_entries
from oncelog.tools.log.dump.lines import optional_long


def dump_transaction_index(data: bytes, shown_path: str, findings: Findings) -> Iterator[EntryLine]:
    entry = transaction_index.ENTRY
    names = ("version", "producerId", "firstOffset", "lastOffset", "lastStableOffset")
    for slot, values in enumerate(entry.iter_unpack(whole_entries(data, entry.size))):
        version, *rest = values
        if version != transaction_index.VERSION:
            problem = f"entry {slot} has the unknown version {version}"
            findings.problems.append(Problem(shown_path, problem, slot * entry.size))
        version >>= 8  # Kafka reads only the first byte, and stops if it is greater than 0
        if version > transaction_index.VERSION:
            return
        yield EntryLine("aborted_transaction", tuple(zip(names, (version, *rest), strict=True)))
    note_odd_size(data, entry.size, shown_path, findings)


def dump_producer_snapshot(data: bytes, shown_path: str, findings: Findings) -> Iterator[EntryLine]:
    problem = _snapshot_problem(data, SNAPSHOT_HEADER, SNAPSHOT_ROW, SNAPSHOT_VERSION)
    if problem is not None:
        findings.problems.append(Problem(shown_path, problem))
        return
    for values in SNAPSHOT_ROW.iter_unpack(data[SNAPSHOT_HEADER.size :]):
        producer_id, epoch, last_sequence, last_offset, offset_delta, timestamp, coordinator_epoch, first_offset = (
            values
        )
        line: tuple[tuple[str, Any], ...] = (
            ("producerId", producer_id),
            ("producerEpoch", epoch),
            ("coordinatorEpoch", coordinator_epoch),
            ("currentTxnFirstOffset", optional_long(first_offset if first_offset >= 0 else None)),
            ("lastTimestamp", timestamp),
        )
        if last_offset >= 0:
            line += _batch_values(last_sequence, last_offset, offset_delta, timestamp)
        yield EntryLine("producer", line)


def _batch_values(
    last_sequence: int, last_offset: int, offset_delta: int, timestamp: int
) -> tuple[tuple[str, int], ...]:
    return (
        ("firstSequence", (last_sequence - offset_delta) & SEQUENCE_MASK),
        ("lastSequence", last_sequence),
        ("lastOffset", last_offset),
        ("offsetDelta", offset_delta),
        ("timestamp", timestamp),
    )


def dump_producer_batches(data: bytes, shown_path: str, findings: Findings) -> Iterator[EntryLine]:
    """Our file with all cached batches of a producer, beside Kafka's snapshot, which has only the newest."""
    problem = _snapshot_problem(data, BATCHES_HEADER, BATCHES_ROW, BATCHES_VERSION)
    if problem is not None:
        findings.problems.append(Problem(shown_path, problem))
        return
    for producer_id, *batch in BATCHES_ROW.iter_unpack(data[BATCHES_HEADER.size :]):
        yield EntryLine("producer_batch", (("producerId", producer_id), *_batch_values(*batch)))


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
