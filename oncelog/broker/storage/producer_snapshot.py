"""A partition's producer state in two files, named after their offset.

Owns: encoding `ProducerState` as Kafka's snapshot format (version 1) and the batches file beside it, and decoding.
Invariant: loading both gives the state that was stored.

`.snapshot` is Kafka's file, byte for byte: a row per producer, with its newest batch only. Kafka thus forgets four of
the five batches that identify retries; `.batches` keeps them all. It has the CRC of its snapshot; a snapshot without
producers has no `.batches`.
"""

from dataclasses import dataclass
from struct import Struct

from oncelog.broker.log.producer_state import NO_OFFSET, AppendedBatch, ProducerState, ProducerStateManager
from oncelog.broker.turns.ports import MonotonicMs
from oncelog.protocol.checksum import crc32c
from oncelog.protocol.records.batch import SEQUENCE_MASK

SUFFIX = ".snapshot"
BATCHES_SUFFIX = ".batches"
SUFFIXES = (SUFFIX, BATCHES_SUFFIX)
VERSION = 1
HEADER = Struct(">hIi")
"""Version, CRC-32C of everything after it, number of rows."""
ROW = Struct(">qhiqiqiq")
"""Producer id, epoch, last sequence, last offset, offset delta, timestamp, coordinator epoch, first offset of the open
transaction."""
BATCHES_VERSION = 1
BATCHES_HEADER = Struct(">hIIi")
"""Version, CRC-32C of everything after it, the snapshot's CRC, number of batches."""
BATCHES_ROW = Struct(">qiqiq")
"""Producer id, last sequence, last offset, offset delta, timestamp."""
CRC_COVERS_FROM = 6
"""In both files."""


@dataclass(frozen=True, slots=True)
class ProducerSnapshot:
    rows: bytes
    """The `.snapshot` file."""
    batches: bytes
    """The `.batches` file; none if it is empty."""


def encode_snapshot(producers: ProducerStateManager) -> ProducerSnapshot:
    states = list(producers.producers())
    body = len(states).to_bytes(4, "big") + b"".join(map(_row, states))
    crc = crc32c(body)
    rows = VERSION.to_bytes(2, "big") + crc.to_bytes(4, "big") + body
    return ProducerSnapshot(rows, _encode_batches(states, crc) if states else b"")


def _row(state: ProducerState) -> bytes:
    last = state.batches[-1] if state.batches else None
    return ROW.pack(
        state.producer_id,
        state.producer_epoch,
        state.last_sequence,
        state.last_offset,
        last.last_offset - last.first_offset if last is not None else 0,
        state.last_timestamp,
        state.coordinator_epoch,
        state.current_transaction_first_offset,
    )


def _encode_batches(states: list[ProducerState], snapshot_crc: int) -> bytes:
    rows = [
        BATCHES_ROW.pack(
            state.producer_id,
            batch.last_sequence,
            batch.last_offset,
            batch.last_offset - batch.first_offset,
            batch.timestamp,
        )
        for state in states
        for batch in state.batches
    ]
    body = snapshot_crc.to_bytes(4, "big") + len(rows).to_bytes(4, "big") + b"".join(rows)
    return BATCHES_VERSION.to_bytes(2, "big") + crc32c(body).to_bytes(4, "big") + body


def load_snapshot(data: bytes, monotonic_ms: MonotonicMs) -> ProducerStateManager:
    """The state with one batch per producer. Raises ValueError if `data` is not a whole, undamaged snapshot."""
    _check(data, HEADER, ROW, VERSION)
    manager = ProducerStateManager()
    for row in ROW.iter_unpack(data[HEADER.size :]):
        producer_id, epoch, last_sequence, last_offset, offset_delta, timestamp, coordinator_epoch, first_offset = row
        state = ProducerState(producer_id, epoch)
        state.last_seen_ms = monotonic_ms
        state.coordinator_epoch = coordinator_epoch
        state.current_transaction_first_offset = first_offset
        state.last_timestamp = timestamp
        if last_offset != NO_OFFSET:
            state.batches.append(_batch(last_sequence, last_offset, offset_delta, timestamp))
        manager.restore(state)
    manager.restored()
    return manager


def open_producers(data: bytes) -> set[int]:
    """The producers with an open transaction. Raises ValueError as `load_snapshot` does."""
    _check(data, HEADER, ROW, VERSION)
    return {row[0] for row in ROW.iter_unpack(data[HEADER.size :]) if row[-1] != NO_OFFSET}


def load_batches(manager: ProducerStateManager, snapshot: bytes, data: bytes | None) -> None:
    """Give each producer of `snapshot` all of its batches.

    Raises ValueError, changing nothing, if `data` is missing, damaged, or belongs to another snapshot.
    """
    _, snapshot_crc, count = HEADER.unpack_from(snapshot)
    if not count and data is None:
        return
    if data is None:
        raise ValueError("it is missing")
    _check(data, BATCHES_HEADER, BATCHES_ROW, BATCHES_VERSION)
    if BATCHES_HEADER.unpack_from(data)[2] != snapshot_crc:
        raise ValueError("it belongs to another snapshot")
    batches: dict[int, list[AppendedBatch]] = {}
    for producer_id, *row in BATCHES_ROW.iter_unpack(data[BATCHES_HEADER.size :]):
        batches.setdefault(producer_id, []).append(_batch(*row))
    for producer_id, its_batches in batches.items():
        state = manager.producer(producer_id)
        if state is not None:
            state.batches = its_batches


def _check(data: bytes, header: Struct, row: Struct, known_version: int) -> None:
    if len(data) < header.size:
        raise ValueError(f"it has only {len(data)} bytes")
    version, crc, *_, row_count = header.unpack_from(data)
    if version != known_version:
        raise ValueError(f"its version is {version}, only {known_version} is supported")
    if crc32c(data[CRC_COVERS_FROM:]) != crc:
        raise ValueError("its checksum does not match")
    if len(data) != header.size + row_count * row.size:
        raise ValueError(f"its header says {row_count} rows, it has {len(data)} bytes")


def _batch(last_sequence: int, last_offset: int, offset_delta: int, timestamp: int) -> AppendedBatch:
    first_sequence = (last_sequence - offset_delta) & SEQUENCE_MASK if last_sequence >= 0 else -1
    return AppendedBatch(first_sequence, last_sequence, last_offset - offset_delta, last_offset, timestamp)
