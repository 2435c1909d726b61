"""Gives a batch the timestamp of its append (KIP-32)."""

from oncelog.broker.turns.ports import Buffer
from oncelog.protocol.checksum import crc32c
from oncelog.protocol.records.batch import CRC_AT, LAST_OFFSET_DELTA_AT, MAX_TIMESTAMP_AT, PREFIX, PRODUCER_ID_AT


def with_timestamp(prefix: bytes, batch: memoryview, attributes: int, timestamp: int) -> tuple[Buffer, ...]:
    """The batch after its `prefix`, with these attributes and this timestamp, which the checksum covers."""
    head = b"".join(
        (
            attributes.to_bytes(2, "big"),
            batch[LAST_OFFSET_DELTA_AT:MAX_TIMESTAMP_AT],
            timestamp.to_bytes(8, "big", signed=True),
        )
    )
    rest = batch[PRODUCER_ID_AT:]
    checksum = crc32c(rest, crc32c(head)).to_bytes(4, "big")
    return prefix, batch[PREFIX.size : CRC_AT], checksum, head, rest
