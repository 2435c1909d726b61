"""What members of a classic group say to each other through the coordinator: subscriptions and assignments, as bytes.

Owns: the encodings, of Java's client: ConsumerProtocolSubscription and -Assignment, and what assignors put into the
user data. Pure functions. Every one that decodes raises ProtocolError.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from struct import Struct, error

from oncelog.client.values.records import TopicPartition
from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.generated import consumer_protocol_assignment, consumer_protocol_subscription
from oncelog.protocol.generated.consumer_protocol_assignment import ConsumerProtocolAssignment
from oncelog.protocol.generated.consumer_protocol_assignment import TopicPartition as AssignedTopic
from oncelog.protocol.generated.consumer_protocol_subscription import ConsumerProtocolSubscription
from oncelog.protocol.generated.consumer_protocol_subscription import TopicPartition as OwnedTopic
from oncelog.protocol.message import count, read_count, read_string, string

NO_GENERATION = -1
_VERSION = Struct(">h")
_INT32 = Struct(">i")
# Version 1 is what all recent clients read; 2 has the generation, which cooperative assignors need.
_PLAIN_VERSION = 1
_COOPERATIVE_VERSION = 2


@dataclass(frozen=True, slots=True)
class Subscription:
    """The topics and the partitions of a member. `generation_id` is that of the assignment which gave it `owned`."""

    topics: Sequence[str]
    owned: Sequence[TopicPartition] = ()
    generation_id: int = NO_GENERATION


def encode_subscription(subscription: Subscription) -> bytes:
    """Encode the topics alone, for assignors that start from nothing."""
    return _encode(ConsumerProtocolSubscription(topics=sorted(subscription.topics)), _PLAIN_VERSION)


def encode_sticky_subscription(subscription: Subscription) -> bytes:
    """Encode the topics with the last assignment as user data: it is not owned while the group rebalances
    (StickyAssignor)."""
    topics = _by_topic(subscription.owned)
    data = bytearray(count(topics))
    for name, partitions in topics:
        data += string(name) + count(partitions) + b"".join(map(_INT32.pack, partitions))
    data += _INT32.pack(subscription.generation_id)
    message = ConsumerProtocolSubscription(topics=sorted(subscription.topics), user_data=bytes(data))
    return _encode(message, _PLAIN_VERSION)


def encode_cooperative_subscription(subscription: Subscription) -> bytes:
    """Encode the topics with what this member keeps while the group rebalances (KIP-429). The generation is in the user
    data as well, for leaders that do not know version 2."""
    message = ConsumerProtocolSubscription(
        topics=sorted(subscription.topics),
        user_data=_INT32.pack(subscription.generation_id),
        owned_partitions=[OwnedTopic(*each) for each in _by_topic(subscription.owned)],
        generation_id=subscription.generation_id,
    )
    return _encode(message, _COOPERATIVE_VERSION)


def decode_subscription(data: bytes) -> Subscription:
    """Decode a subscription of any client and assignor but `sticky`."""
    message = _decode(data)
    generation_id = message.generation_id
    if generation_id < 0 and message.user_data is not None and len(message.user_data) == _INT32.size:
        generation_id = _INT32.unpack(message.user_data)[0]
    owned = [TopicPartition(each.topic, index) for each in message.owned_partitions for index in each.partitions]
    return Subscription(list(message.topics), owned, generation_id)


def decode_sticky_subscription(data: bytes) -> Subscription:
    """Decode a subscription whose user data is the last assignment; user data that makes no sense counts as none, as in
    Java."""
    message = _decode(data)
    try:
        owned, generation_id = _decode_sticky(memoryview(message.user_data or b""))
    except (ProtocolError, UnicodeDecodeError, error):
        return Subscription(list(message.topics))
    return Subscription(list(message.topics), owned, generation_id)


def _decode_sticky(view: memoryview) -> tuple[list[TopicPartition], int]:
    owned = []
    topic_count, position = read_count(view, 0)
    for _ in range(topic_count):
        name, position = read_string(view, position)
        partition_count, position = read_count(view, position)
        for _ in range(partition_count):
            owned.append(TopicPartition(name, _INT32.unpack_from(view, position)[0]))
            position += _INT32.size
    # Java's first version ends here.
    return owned, _INT32.unpack_from(view, position)[0] if position < len(view) else NO_GENERATION


def encode_assignment(partitions: Iterable[TopicPartition]) -> bytes:
    message = ConsumerProtocolAssignment(assigned_partitions=[AssignedTopic(*each) for each in _by_topic(partitions)])
    return _VERSION.pack(_PLAIN_VERSION) + b"".join(consumer_protocol_assignment.encode(message, _PLAIN_VERSION))


def decode_assignment(data: bytes) -> list[TopicPartition]:
    """Decode a member's assignment; it is empty if the leader gave it nothing."""
    if not data:
        return []
    version = _version(data, consumer_protocol_assignment.VERSIONS.stop - 1)
    message, _ = consumer_protocol_assignment.decode(memoryview(data), version, _VERSION.size)
    return [
        TopicPartition(each.topic, partition) for each in message.assigned_partitions for partition in each.partitions
    ]


def _encode(message: ConsumerProtocolSubscription, version: int) -> bytes:
    return _VERSION.pack(version) + b"".join(consumer_protocol_subscription.encode(message, version))


def _decode(data: bytes) -> ConsumerProtocolSubscription:
    version = _version(data, consumer_protocol_subscription.VERSIONS.stop - 1)
    message, _ = consumer_protocol_subscription.decode(memoryview(data), version, _VERSION.size)
    return message


def _by_topic(partitions: Iterable[TopicPartition]) -> list[tuple[str, list[int]]]:
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    return list(topics.items())


def _version(data: bytes, highest: int) -> int:
    """Return the version to decode by: a later one starts with the fields of an earlier one."""
    try:
        version = int(_VERSION.unpack_from(data)[0])
    except error as problem:
        raise ProtocolError(f"{len(data)} bytes are not a subscription or assignment") from problem
    return max(0, min(version, highest))
