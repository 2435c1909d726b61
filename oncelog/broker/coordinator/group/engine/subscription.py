"""What members of the classic consumer protocol send and receive, as far as the broker can interpret it.

Owns: decoding the `ConsumerProtocolSubscription` of a join, encoding and decoding `ConsumerProtocolAssignment`. To a
classic group both are opaque except for the topics; a group that changes its protocol (KIP-848) needs all of them.
Bytes that cannot be decoded belong to a client with its own protocol.
"""

from collections.abc import Mapping, Sequence
from struct import Struct
from types import ModuleType
from typing import Any

from oncelog.protocol import state_record_codec
from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.generated import consumer_protocol_assignment, consumer_protocol_subscription
from oncelog.protocol.generated.consumer_protocol_assignment import ConsumerProtocolAssignment, TopicPartition
from oncelog.protocol.generated.consumer_protocol_subscription import ConsumerProtocolSubscription

CONSUMER = "consumer"
_VERSION = Struct(">h")


def read_subscription(metadata: bytes) -> ConsumerProtocolSubscription | None:
    read: ConsumerProtocolSubscription | None = _read(consumer_protocol_subscription, metadata)
    return read


def read_assignment(assignment: bytes) -> ConsumerProtocolAssignment | None:
    read: ConsumerProtocolAssignment | None = _read(consumer_protocol_assignment, assignment)
    return read


def encode_assignment(partitions: Mapping[str, Sequence[int]], metadata: bytes) -> bytes:
    """Encode an assignment in the version of the member's subscription."""
    version = min(_VERSION.unpack_from(metadata)[0], consumer_protocol_assignment.VERSIONS[-1])
    topics = [TopicPartition(name, numbers) for name, numbers in partitions.items()]
    return state_record_codec.encode_value(ConsumerProtocolAssignment(topics), version)


def _read(module: ModuleType, data: bytes) -> Any:
    if len(data) < _VERSION.size:
        return None
    # Later versions only append: the known part is decoded.
    version = min(_VERSION.unpack_from(data)[0], module.VERSIONS[-1])
    try:
        message, _ = module.decode(memoryview(data), version, _VERSION.size)
    except ProtocolError:
        return None
    return message
