"""A partition's producer state as a file, named after the offset that it stands for.

Owns: the way from `ProducerState` to Kafka's snapshot format (version 1) and back. Invariant: loading gives the state
that was stored, all five batches of each producer included.

Kafka stores one row per producer, and so forgets four of its five batches on a restart. Here a producer has a row per
batch, the oldest first: Kafka's own reader, which puts rows into a map, ends with the newest and sees what it expects.
"""

from struct import Struct

from crc32c import crc32c

from broker.log.producer_state import NO_OFFSET, AppendedBatch, ProducerState, ProducerStateManager

SUFFIX = ".snapshot"
VERSION = 1
# producer id, epoch, last sequence, last offset, offset delta, timestamp, coordinator epoch, transaction's first offset
_ROW = Struct(">qhiqiqiq")
_HEADER = Struct(">hIi")
_CRC_COVERS_FROM = 6
_SEQUENCES = 2**31


def encode_snapshot(producers: ProducerStateManager) -> bytes:
    rows = [row for state in producers.producers() for row in _rows(state)]
    body = len(rows).to_bytes(4, "big") + b"".join(rows)
    return VERSION.to_bytes(2, "big") + crc32c(body).to_bytes(4, "big") + body


def _rows(state: ProducerState) -> list[bytes]:
    def row(last_sequence: int, last_offset: int, offset_delta: int, timestamp: int) -> bytes:
        return _ROW.pack(
            state.producer_id,
            state.producer_epoch,
            last_sequence,
            last_offset,
            offset_delta,
            timestamp,
            state.coordinator_epoch,
            state.current_transaction_first_offset,
        )

    rows = [
        row(batch.last_sequence, batch.last_offset, batch.last_offset - batch.first_offset, batch.timestamp)
        for batch in state.batches
    ]
    if not state.batches:
        rows.append(row(-1, NO_OFFSET, 0, state.last_timestamp))
    elif state.batches[-1].timestamp != state.last_timestamp:
        # A marker came after the last batch: its timestamp is one more row of the same batch.
        last = state.batches[-1]
        offset_delta = last.last_offset - last.first_offset
        rows.append(row(last.last_sequence, last.last_offset, offset_delta, state.last_timestamp))
    return rows


def load_snapshot(data: bytes, now_ms: int) -> ProducerStateManager:
    """Raises ValueError if `data` is not a whole, undamaged snapshot of a known version."""
    if len(data) < _HEADER.size:
        raise ValueError(f"it has only {len(data)} bytes")
    version, crc, row_count = _HEADER.unpack_from(data)
    if version != VERSION:
        raise ValueError(f"its version is {version}, only {VERSION} is known here")
    if crc32c(data[_CRC_COVERS_FROM:]) != crc:
        raise ValueError("its checksum does not match")
    if len(data) != _HEADER.size + row_count * _ROW.size:
        raise ValueError(f"it announces {row_count} rows in {len(data)} bytes")
    states: dict[int, ProducerState] = {}
    for row in _ROW.iter_unpack(data[_HEADER.size :]):
        state = states.get(row[0])
        if state is None:
            state = states[row[0]] = ProducerState(row[0], row[1])
            state.last_seen_ms = now_ms
        _add_row(state, row)
    manager = ProducerStateManager()
    for state in states.values():
        manager.restore(state)
    manager.restored()
    return manager


def _add_row(state: ProducerState, row: tuple[int, ...]) -> None:
    _, epoch, last_sequence, last_offset, offset_delta, timestamp, coordinator_epoch, first_offset = row
    state.producer_epoch = epoch
    state.coordinator_epoch = coordinator_epoch
    state.current_transaction_first_offset = first_offset
    state.last_timestamp = timestamp
    if last_offset >= 0 and last_offset != state.last_offset:
        first_sequence = (last_sequence - offset_delta) % _SEQUENCES if last_sequence >= 0 else -1
        state.batches.append(
            AppendedBatch(first_sequence, last_sequence, last_offset - offset_delta, last_offset, timestamp)
        )
