"""Metadata records as bytes: Kafka's MetadataRecordSerde (KIP-631).

Owns: the framing (frame version, record type and record version as unsigned varints, then the message) and the list of
records that this broker writes. Invariant: what is not on the list is refused, because skipping it would give another
state than the one that wrote it.
"""

from types import ModuleType
from typing import Any

from protocol.errors import ErrorCode, KafkaError
from protocol.generated import (
    config_record,
    feature_level_record,
    partition_record,
    producer_ids_record,
    remove_topic_record,
    topic_record,
)

_FRAME_VERSION = 1
_MODULES: dict[int, ModuleType] = {
    module.API_KEY: module
    for module in (
        topic_record,
        partition_record,
        config_record,
        remove_topic_record,
        feature_level_record,
        producer_ids_record,
    )
}


def encode_metadata_record(record: Any) -> bytes:
    module = _MODULES[record.API_KEY]
    return b"".join((bytes((_FRAME_VERSION, module.API_KEY, 0)), *module.encode(record, 0)))


def decode_metadata_record(value: memoryview, offset: int) -> Any:
    """Raises KafkaError(CORRUPT_MESSAGE) for a record of an unknown kind."""
    module = _MODULES.get(value[1]) if len(value) > 3 and value[0] == _FRAME_VERSION else None
    if module is None or value[2] not in module.VERSIONS:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"the metadata record at offset {offset} is of an unknown kind")
    record, _ = module.decode(value, value[2], 3)
    return record
