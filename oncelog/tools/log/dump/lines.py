"""The lines of a log in the format of Kafka's dump tool, and the same as objects for programs.

Owns: how a batch, a record and a control record are printed. Does not own: where they come from (`batches`).
"""

from base64 import b64encode
from dataclasses import dataclass
from typing import Any

from oncelog.protocol.records.batch import BatchHeader
from oncelog.protocol.records.record import Record
from oncelog.tools.log.dump.decoders import Decoded
from oncelog.tools.log.dump.json import to_text

MAX_INT = 2**31 - 1
_CODECS = {0: "none", 1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}


@dataclass(frozen=True, slots=True)
class Title:
    """The first lines of a log."""

    text: str

    def fields(self) -> dict[str, Any] | None:
        return None


@dataclass(frozen=True, slots=True)
class BatchLine:
    header: BatchHeader
    position: int
    is_valid: bool

    @property
    def text(self) -> str:
        header = self.header
        return (
            f"baseOffset: {header.base_offset} lastOffset: {header.last_offset} count: {header.record_count} "
            f"baseSequence: {header.base_sequence} lastSequence: {_last_sequence(header)} "
            f"producerId: {header.producer_id} producerEpoch: {header.producer_epoch} "
            f"partitionLeaderEpoch: {header.partition_leader_epoch} "
            f"isTransactional: {_bool(header.is_transactional)} isControl: {_bool(header.is_control)} "
            f"deleteHorizonMs: {optional_long(self._delete_horizon_ms)} position: {self.position} "
            f"{_timestamp_type(header)}: {header.max_timestamp} size: {header.size_in_bytes} magic: {header.magic} "
            f"compresscodec: {_codec(header)} crc: {header.crc} isvalid: {_bool(self.is_valid)}"
        )

    @property
    def _delete_horizon_ms(self) -> int | None:
        return self.header.base_timestamp if self.header.has_delete_horizon else None

    def fields(self) -> dict[str, Any]:
        header = self.header
        return {
            "kind": "batch",
            "position": self.position,
            "size_bytes": header.size_in_bytes,
            "base_offset": header.base_offset,
            "last_offset": header.last_offset,
            "record_count": header.record_count,
            "base_sequence": header.base_sequence,
            "last_sequence": _last_sequence(header),
            "producer_id": header.producer_id,
            "producer_epoch": header.producer_epoch,
            "partition_leader_epoch": header.partition_leader_epoch,
            "is_transactional": header.is_transactional,
            "is_control": header.is_control,
            "delete_horizon_ms": self._delete_horizon_ms,
            "timestamp_type": _timestamp_type(header),
            "max_timestamp": header.max_timestamp,
            "magic": header.magic,
            "compression": _codec(header),
            "crc": header.crc,
            "is_valid": self.is_valid,
        }


@dataclass(frozen=True, slots=True)
class ControlValue:
    """The content of a control record."""

    name: str
    type_id: int
    coordinator_epoch: int | None = None
    snapshot: str | None = None
    """The header or footer of a snapshot, in Kafka's words."""

    @property
    def text(self) -> str:
        if self.snapshot is not None:
            return f" {self.snapshot}"
        if self.coordinator_epoch is None:
            return f" controlType: {self.name}({self.type_id})"
        return f" endTxnMarker: {self.name} coordinatorEpoch: {self.coordinator_epoch}"


@dataclass(frozen=True, slots=True)
class RecordLine:
    header: BatchHeader
    record: Record
    sequence: int
    control: ControlValue | None
    decoded: Decoded | None
    has_metadata: bool

    @property
    def text(self) -> str:
        record, parts = self.record, []
        if self.has_metadata:
            control = self.control.text if self.control is not None else ""
            header_keys = ",".join(name for name, _ in record.headers)
            parts.append(
                f"| offset: {record.offset} {_timestamp_type(self.header)}: {record.timestamp} "
                f"keySize: {_size(record.key)} valueSize: {_size(record.value)} "
                f"sequence: {self.sequence} headerKeys: [{header_keys}]{control}"
            )
        if self.decoded is not None:
            named = (("key", self.decoded.key), ("payload", self.decoded.value))
            contents = [f"{name}: {_text(content)}" for name, content in named if content is not None]
            if contents and not self.has_metadata:
                parts.append("|")
            parts += contents
        return " ".join(parts)

    def fields(self) -> dict[str, Any]:
        record = self.record
        fields: dict[str, Any] = {"kind": "record", "offset": record.offset}
        if self.has_metadata:
            fields |= {
                "timestamp": record.timestamp,
                "key_bytes": _size(record.key),
                "value_bytes": _size(record.value),
                "sequence": self.sequence,
                "header_keys": [name for name, _ in record.headers],
            }
            if self.control is not None:
                fields |= {"control_type": self.control.name, "coordinator_epoch": self.control.coordinator_epoch}
        if self.decoded is not None:
            fields |= _content("key", record.key, self.decoded.key)
            fields |= _content("value", record.value, self.decoded.value)
        return fields


def _content(name: str, data: bytes | None, decoded: Any) -> dict[str, Any]:
    """Return a value by its name; text that is not the exact bytes is given as base64 too."""
    if not isinstance(decoded, str) or data is None or decoded.encode() == data or "\ufffd" not in decoded:
        return {name: decoded}
    return {name: decoded, f"{name}_base64": b64encode(data).decode()}


def _bool(value: bool) -> str:
    return "true" if value else "false"


def optional_long(value: int | None) -> str:
    return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"


def _timestamp_type(header: BatchHeader) -> str:
    return "LogAppendTime" if header.is_log_append_time else "CreateTime"


def _last_sequence(header: BatchHeader) -> int:
    """Return the last sequence, also for a meaningless negative one, which Kafka counts up too."""
    return add_to_sequence(header.base_sequence, header.last_offset_delta) if header.base_sequence != -1 else -1


def add_to_sequence(sequence: int, count: int) -> int:
    """Return the sum as Kafka's addition in 32 bits, also for numbers that no producer writes."""
    if sequence > _int32(MAX_INT - count):
        return _int32(count - _int32(MAX_INT - sequence) - 1)
    return _int32(sequence + count)


def _int32(value: int) -> int:
    return (value + 2**31) % 2**32 - 2**31


def _codec(header: BatchHeader) -> str:
    return _CODECS.get(header.compression_type, str(header.compression_type))


def _size(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _text(content: Any) -> str:
    return to_text(content) if isinstance(content, dict) else str(content)


LogLine = Title | BatchLine | RecordLine
