"""The meaning of record keys and values, topic by topic, as the decoders of Kafka's dump tool print it in JSON.

Owns: the choice of decoder, and the text for what it cannot decode. Does not own: the formats (`protocol`), JSON.
Left out: records of tiered storage, and of Kafka's own controllers: this broker writes none of them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from struct import Struct, error
from types import ModuleType
from typing import Any

from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.records.record import Record
from oncelog.protocol.state_record_codec import prefix
from oncelog.tools.log.dump.json import as_json

_GROUP_RECORDS = {
    0: "legacy_offset_commit",
    1: "offset_commit",
    2: "group_metadata",
    3: "consumer_group_metadata",
    5: "consumer_group_member_metadata",
    6: "consumer_group_target_assignment_metadata",
    7: "consumer_group_target_assignment_member",
    8: "consumer_group_current_member_assignment",
    10: "share_group_member_metadata",
    11: "share_group_metadata",
    12: "share_group_target_assignment_metadata",
    13: "share_group_target_assignment_member",
    14: "share_group_current_member_assignment",
    15: "share_group_state_partition_metadata",
    16: "consumer_group_regular_expression",
    17: "streams_group_metadata",
    19: "streams_group_member_metadata",
    20: "streams_group_target_assignment_metadata",
    21: "streams_group_target_assignment_member",
    22: "streams_group_current_member_assignment",
    23: "streams_group_topology",
}
_TRANSACTION_RECORDS = {0: "transaction_log"}
_SHARE_RECORDS = {0: "share_snapshot", 1: "share_update"}
_METADATA_RECORDS = {
    0: "register_broker_record",
    2: "topic_record",
    3: "partition_record",
    4: "config_record",
    5: "partition_change_record",
    9: "remove_topic_record",
    10: "delegation_token_record",
    11: "user_scram_credential_record",
    12: "feature_level_record",
    14: "client_quota_record",
    15: "producer_ids_record",
    18: "access_control_entry_record",
    19: "remove_access_control_entry_record",
    22: "remove_user_scram_credential_record",
    26: "remove_delegation_token_record",
}
_METADATA_FRAME_VERSION = 1
_MEMBER_FIELDS = {"subscription": "consumer_protocol_subscription", "assignment": "consumer_protocol_assignment"}
_INT, _LONG = Struct(">i"), Struct(">q")
_CLASSES = "org.apache.kafka.tools.api."


@dataclass(frozen=True, slots=True)
class Decoded:
    """A decoded key and value: text, a number, or JSON; None is not printed."""

    key: Any
    value: Any


Decode = Callable[[Record], Decoded]
"""Decodes a record, or raises ProtocolError if it is of another kind."""


class NoSuchDecoder(Exception):
    """Raised for an unknown decoder; the message names those that exist."""


# --- records of users -------------------------------------------------------------------------------------------------


def by_class(key_class: str, value_class: str) -> Decode:
    """Return a decoder by the names of Kafka's own decoder classes; others would need a JVM. Raises NoSuchDecoder."""
    decode_key, decode_value = _class_decoder(key_class), _class_decoder(value_class)

    def decode(record: Record) -> Decoded:
        return Decoded(
            None if record.key is None else decode_key(record.key),
            None if record.value is None else decode_value(record.value),
        )

    return decode


def _class_decoder(name: str) -> Callable[[bytes], Any]:
    short_name = name.removeprefix(_CLASSES)
    decoders: dict[str, Callable[[bytes], Any]] = {
        "StringDecoder": lambda data: data.decode(errors="replace"),
        "IntegerDecoder": lambda data: _number(_INT, data),
        "LongDecoder": lambda data: _number(_LONG, data),
    }
    if short_name not in decoders:
        known = ", ".join(decoders)
        raise NoSuchDecoder(
            f"{name} is a Java class, which cannot be loaded here; supported are {known} of {_CLASSES}*"
        )
    return decoders[short_name]


def _number(layout: Struct, data: bytes) -> int:
    try:
        return int(layout.unpack_from(data)[0])
    except error:
        raise ProtocolError(f"{len(data)} bytes are not a number of {layout.size} bytes") from None


# --- records of coordinators ------------------------------------------------------------------------------------------


def offsets(record: Record) -> Decoded:
    """Decode a record of `__consumer_offsets`."""
    return _coordinator_record(record, _GROUP_RECORDS)


def transactions(record: Record) -> Decoded:
    """Decode a record of `__transaction_state`."""
    return _coordinator_record(record, _TRANSACTION_RECORDS)


def share_states(record: Record) -> Decoded:
    """Decode a record of `__share_group_state`."""
    return _coordinator_record(record, _SHARE_RECORDS)


def _coordinator_record(record: Record, kinds: Mapping[int, str]) -> Decoded:
    if record.key is None:
        raise ProtocolError("the record has no key: this is not a coordinator's log")
    try:
        kind = prefix(record.key)
        name = kinds.get(kind)
        if name is None:
            return Decoded(f"Unknown record type {kind} at offset {record.offset}, skipping.", None)
        key, _ = _decoded(_module(f"{name}_key"), record.key, 0, "key", kind)
        key_json = {"type": str(kind), "data": as_json(f"{name}_key", key, 0)}
        if record.value is None:
            return Decoded(key_json, "<DELETE>")
        return Decoded(key_json, _coordinator_value(name, kind, record.value))
    except ProtocolError as problem:
        return Decoded(f"Error at offset {record.offset}, skipping. {problem}", None)


def _decoded(module: ModuleType, data: bytes, version: int, part: str, told_version: int) -> tuple[Any, int]:
    try:
        decoded: tuple[Any, int] = module.decode(memoryview(data), version, 2)
    except ProtocolError as problem:
        raise ProtocolError(
            f"Could not read record with version {told_version} from {part}'s buffer due to: {problem}."
        ) from None
    return decoded


def _coordinator_value(name: str, kind: int, data: bytes) -> dict[str, Any]:
    # Values of record type 0 are laid out as version 0 of those of type 1.
    is_legacy = name == "legacy_offset_commit"
    value_name = "offset_commit_value" if is_legacy else f"{name}_value"
    module = _module(value_name)
    version = prefix(data)
    if version not in module.VERSIONS or (is_legacy and version):
        raise ProtocolError(f"Found an unknown record version {version} for {kind} type")
    value, _ = _decoded(module, data, version, "value", version)
    fields = as_json(value_name, value, version)
    if name == "group_metadata" and value.protocol_type == "consumer":
        for member, member_fields in zip(value.members, fields["members"], strict=True):
            for field, message in _MEMBER_FIELDS.items():
                member_fields[field] = _consumer_protocol(message, getattr(member, field)) or member_fields[field]
    return {"version": str(version), "data": fields}


def _consumer_protocol(name: str, data: bytes) -> dict[str, Any] | None:
    """Return a consumer's description of itself; None if the bytes are something else."""
    module = _module(name)
    try:
        version = min(prefix(data), module.VERSIONS.stop - 1)  # a later version may only append fields
        message, _ = module.decode(memoryview(data), version, 2)
    except ProtocolError:
        return None
    return as_json(name, message, version)


# --- records of metadata ----------------------------------------------------------------------------------------------


def metadata(record: Record) -> Decoded:
    """Decode a record of `__cluster_metadata`, which has no key."""
    data = record.value or b""
    try:
        name, version = _metadata_kind(data)
        try:
            message, end = _module(name).decode(memoryview(data), version, 3)
        except ProtocolError:
            raise ProtocolError(f"Failed to deserialize record with type {data[1]}") from None
        if end != len(data):
            raise ProtocolError(f"Found {len(data) - end} byte(s) of garbage after {data[1]}")
    except ProtocolError as problem:
        return Decoded(None, f"Error at {record.offset}, skipping. {problem}")
    return Decoded(None, {"type": name.upper(), "version": version, "data": as_json(name, message, version)})


def _metadata_kind(data: bytes) -> tuple[str, int]:
    """Return type and version of a record from its first three bytes, with the frame version: unsigned varints, one
    byte each in every record of ours."""
    if len(data) < 3:
        raise ProtocolError(f"{len(data)} bytes are not a metadata record")
    if data[0] != _METADATA_FRAME_VERSION:
        raise ProtocolError(
            f"Could not deserialize metadata record due to unknown frame version {data[0]}"
            f"(only frame version {_METADATA_FRAME_VERSION} is supported)"
        )
    name = _METADATA_RECORDS.get(data[1])
    if name is None:
        raise ProtocolError(f"records of type {data[1]} are unknown here")
    return name, data[2]


def _module(name: str) -> ModuleType:
    """Import a module at its first record: few logs contain all of them."""
    return import_module(f"oncelog.protocol.generated.{name}")
