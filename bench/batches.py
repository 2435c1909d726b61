"""Record batches with one record, made a hundred times faster than by encoding each.

Owns: one template and the fields that differ from batch to batch. Invariant: each has a correct checksum.
"""

import struct

from crc32c import crc32c

from oncelog.broker.turns.ports import WallMs
from oncelog.protocol.records.batch import (
    BASE_TIMESTAMP_AT,
    CRC_AT,
    CRC_COVERS_FROM,
    FLAGS_AT,
    PRODUCER_ID_AT,
    TRANSACTIONAL_MASK,
    encode_batch,
)
from oncelog.protocol.records.record import Record

NOW_MS = WallMs(1_700_000_000_000)
_TIMESTAMPS = struct.Struct(">qq")
_PRODUCER = struct.Struct(">qhi")


class BatchMaker:
    """Assigns each producer's sequences."""

    def __init__(self, value_bytes: int = 100) -> None:
        self._template = bytes(encode_batch([Record(0, NOW_MS, None, bytes(value_bytes), ())]))
        self._sequences: dict[int, int] = {}

    @property
    def size_bytes(self) -> int:
        return len(self._template)

    def next(self, producer_id: int = -1, *, transactional: bool = False, timestamp_ms: int = NOW_MS) -> memoryview:
        batch = bytearray(self._template)
        if transactional:
            batch[FLAGS_AT] |= TRANSACTIONAL_MASK
        _TIMESTAMPS.pack_into(batch, BASE_TIMESTAMP_AT, timestamp_ms, timestamp_ms)
        if producer_id >= 0:
            sequence = self._sequences.get(producer_id, 0)
            self._sequences[producer_id] = sequence + 1
            _PRODUCER.pack_into(batch, PRODUCER_ID_AT, producer_id, 0, sequence)
        struct.pack_into(">I", batch, CRC_AT, crc32c(memoryview(batch)[CRC_COVERS_FROM:]))
        return memoryview(bytes(batch))

    def forget(self) -> None:
        """Free the sequences, which are not part of a broker's memory: no batch may be made afterwards."""
        self._sequences = {}
