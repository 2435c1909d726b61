"""Recompresses a producer's batch with the topic's codec (`compression.type`).

Owns: the decision and the new bytes. Invariants
- Only the body and what depends on it change: length, codec, checksum.
- A batch is rebuilt of a body whose records `batch_validation` has counted, whatever the validation: a new checksum
  over a part of the records would make their loss look intact.
As in Kafka's LogValidator, a batch is rebuilt when the codecs differ, never for another level.
"""

from oncelog.broker.log.batch_validation import AT_ONCE_BYTES, CheckedBody, LongBatch, checked_at_once
from oncelog.broker.log.log_config import LogConfig
from oncelog.broker.turns.ports import WallMs
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.records.batch import COMPRESSION_MASK, HEADER_SIZE, BatchHeader, assemble_batch, read_header
from oncelog.protocol.records.compression import CODECS, compress


def codec_of(config: LogConfig, header: BatchHeader) -> int:
    """The codec that the batch will have."""
    match config.compression_type:
        case "producer":
            return header.compression_type
        case "uncompressed":
            return 0
        case name:
            return CODECS[name]


def recompressed(
    batch: memoryview, header: BatchHeader, config: LogConfig, wall_ms: WallMs
) -> tuple[memoryview, BatchHeader]:
    """Return the batch in the topic's codec, unchanged if it already is. Raises LongBatch, and KafkaError for a batch
    whose records are not those that its header announces, or that becomes too large."""
    if header.compression_type == codec_of(config, header):
        return batch, header
    if len(batch) > AT_ONCE_BYTES:
        raise LongBatch(config)
    return rebuilt(checked_at_once(batch, header, config, wall_ms), header, config)


def rebuilt(body: CheckedBody, header: BatchHeader, config: LogConfig) -> tuple[memoryview, BatchHeader]:
    """A batch of these records, uncompressed here, in the topic's codec. Raises MESSAGE_TOO_LARGE."""
    codec = codec_of(config, header)
    data = compress(codec, body, config.compression_levels.get(codec)) if codec else body
    size_bytes = HEADER_SIZE + len(data)
    if size_bytes > config.max_message_bytes:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the batch has {size_bytes} bytes in the topic's codec {config.compression_type}, "
            f"max.message.bytes is {config.max_message_bytes}",
        )
    whole = memoryview(
        assemble_batch(
            bytes(data),
            attributes=header.attributes & ~COMPRESSION_MASK | codec,
            record_count=header.record_count,
            base_timestamp=header.base_timestamp,
            max_timestamp=header.max_timestamp,
            base_offset=header.base_offset,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            partition_leader_epoch=header.partition_leader_epoch,
        )
    )
    return whole, read_header(whole)
