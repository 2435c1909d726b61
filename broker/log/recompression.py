"""Recompresses a producer's batch with the topic's codec (`compression.type`).

Owns: the decision and the new bytes. Invariant: only the body and what depends on it change: length, codec, checksum.
As in Kafka's LogValidator, a batch is rebuilt when the codecs differ, never for another level.
"""

from oncelog.broker.log.batch_validation import decompressed
from oncelog.broker.log.log_config import LogConfig
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.records.batch import COMPRESSION_MASK, HEADER_SIZE, BatchHeader, assemble_batch, read_header
from oncelog.protocol.records.compression import CODECS, compress

_UNCOMPRESSED = "uncompressed"


def recompressed(batch: memoryview, header: BatchHeader, config: LogConfig) -> tuple[memoryview, BatchHeader]:
    """The batch in the topic's codec, unchanged if it already is. Raises MESSAGE_TOO_LARGE if it becomes too large."""
    codec = 0 if config.compression_type == _UNCOMPRESSED else CODECS[config.compression_type]
    if header.compression_type == codec:
        return batch, header
    body: bytes | memoryview = batch[HEADER_SIZE:]
    if header.compression_type:
        body = decompressed(header.compression_type, batch[HEADER_SIZE:])
    if codec:
        body = compress(codec, bytes(body), config.compression_levels.get(codec))
    data = assemble_batch(
        bytes(body),
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
    if len(data) > config.max_message_bytes:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the batch has {len(data)} bytes in the topic's codec {config.compression_type}, "
            f"max.message.bytes is {config.max_message_bytes}",
        )
    view = memoryview(data)
    return view, read_header(view)
