"""Decoded messages as Kafka's tools print them: JSON with Kafka's field names, and only the fields of the version.

Owns: which fields a version of a record has, and Jackson's string format. Does not own: the decoding. A test compares
the table of fields with the declarations, which the running program does not load.
"""

import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from oncelog.protocol.message import Message

_ALWAYS = (0, 32_767, False)
# (first version, last version, is tagged) of each field that not every version has. Keyed by message and field; fields
# of nested structures are keyed by the structure's name.
FIELDS: Mapping[tuple[str, str], tuple[int, int, bool]] = {
    ("OffsetCommitValue", "leader_epoch"): (3, 32_767, False),
    ("OffsetCommitValue", "expire_timestamp"): (1, 1, False),
    ("OffsetCommitValue", "topic_id"): (4, 32_767, True),
    ("GroupMetadataValue", "current_state_timestamp"): (2, 32_767, False),
    ("MemberMetadata", "group_instance_id"): (3, 32_767, False),
    ("MemberMetadata", "rebalance_timeout"): (1, 32_767, False),
    ("TransactionLogValue", "previous_producer_id"): (1, 32_767, True),
    ("TransactionLogValue", "next_producer_id"): (1, 32_767, True),
    ("TransactionLogValue", "next_producer_epoch"): (1, 32_767, True),
    ("TransactionLogValue", "client_transaction_version"): (1, 32_767, True),
    ("PartitionChangeRecord", "isr"): (0, 32_767, True),
    ("PartitionChangeRecord", "leader"): (0, 32_767, True),
    ("PartitionChangeRecord", "replicas"): (0, 32_767, True),
    ("PartitionChangeRecord", "removing_replicas"): (0, 32_767, True),
    ("PartitionChangeRecord", "adding_replicas"): (0, 32_767, True),
    ("PartitionChangeRecord", "leader_recovery_state"): (0, 32_767, True),
    ("PartitionChangeRecord", "directories"): (1, 32_767, True),
    ("PartitionChangeRecord", "eligible_leader_replicas"): (2, 32_767, True),
    ("PartitionChangeRecord", "last_known_elr"): (2, 32_767, True),
    ("ConsumerGroupMetadataValue", "metadata_hash"): (0, 32_767, True),
    ("ConsumerGroupTargetAssignmentMetadataValue", "assignment_timestamp"): (0, 32_767, True),
    ("ConsumerGroupMemberMetadataValue", "classic_member_metadata"): (0, 32_767, True),
    ("TopicPartitions", "assignment_epochs"): (0, 32_767, True),
    ("ShareGroupTargetAssignmentMetadataValue", "assignment_timestamp"): (0, 32_767, True),
    ("StreamsGroupMetadataValue", "validated_topology_epoch"): (0, 32_767, True),
    ("StreamsGroupMetadataValue", "last_assignment_configs"): (0, 32_767, True),
    ("StreamsGroupTargetAssignmentMetadataValue", "assignment_timestamp"): (0, 32_767, True),
    ("TaskIds", "assignment_epochs"): (0, 32_767, True),
    ("ShareSnapshotValue", "delivery_complete_count"): (0, 32_767, True),
    ("ShareUpdateValue", "delivery_complete_count"): (0, 32_767, True),
    ("PartitionRecord", "leader_recovery_state"): (0, 32_767, True),
    ("PartitionRecord", "directories"): (1, 32_767, False),
    ("PartitionRecord", "eligible_leader_replicas"): (2, 32_767, True),
    ("PartitionRecord", "last_known_elr"): (2, 32_767, True),
    ("RegisterBrokerRecord", "is_migrating_zk_broker"): (2, 32_767, False),
    ("RegisterBrokerRecord", "in_controlled_shutdown"): (1, 32_767, False),
    ("RegisterBrokerRecord", "log_dirs"): (3, 32_767, True),
    ("RegisterBrokerRecord", "cordoned_log_dirs"): (4, 32_767, True),
    ("ConsumerProtocolSubscription", "owned_partitions"): (1, 32_767, False),
    ("ConsumerProtocolSubscription", "generation_id"): (2, 32_767, False),
    ("ConsumerProtocolSubscription", "rack_id"): (3, 32_767, False),
}
# Tagged fields of ours, which Kafka's tools ignore.
NOT_KAFKAS = frozenset({("TransactionLogValue", "last_producer_epoch"), ("TransactionLogValue", "is_settled")})
_LOWER_CASE_ESCAPE = re.compile(r"(?<!\\)((?:\\\\)*)\\u00([01][a-f])")


def as_json(value: Any, version: int) -> Any:
    """Return a field's value, or a whole message, as JSON types; tagged fields with their default are left out."""
    match value:
        case Message():
            return _message_as_json(value, version)
        case UUID():
            return urlsafe_b64encode(value.bytes).decode().rstrip("=")
        case bytes() | bytearray() | memoryview():
            return b64encode(value).decode()
        case tuple() | list():
            return [as_json(element, version) for element in value]
    return value


def _message_as_json(message: Message, version: int) -> dict[str, Any]:
    message_type = type(message)
    default = message_type()
    fields = {}
    for name in message_type.FIELDS:
        if (message_type.__name__, name) in NOT_KAFKAS:
            continue
        first, last, is_tagged = FIELDS.get((message_type.__name__, name), _ALWAYS)
        value = getattr(message, name)
        if first <= version <= last and not (is_tagged and value == getattr(default, name)):
            fields[_camel_case(name)] = as_json(value, version)
    return fields


def _camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def to_text(value: Any) -> str:
    """Return JSON as Jackson writes it: without spaces, everything but control characters unescaped."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return _LOWER_CASE_ESCAPE.sub(lambda found: f"{found[1]}\\u00{found[2].upper()}", text)
