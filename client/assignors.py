"""Partition assignment by the leader of a classic group, as Java's assignors do it.

Owns: `range` and `roundrobin`, and the encoding of subscriptions and assignments. Pure functions.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from struct import Struct, error

from oncelog.client.records import TopicPartition
from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.generated import consumer_protocol_assignment, consumer_protocol_subscription
from oncelog.protocol.generated.consumer_protocol_assignment import ConsumerProtocolAssignment
from oncelog.protocol.generated.consumer_protocol_assignment import TopicPartition as AssignedTopic
from oncelog.protocol.generated.consumer_protocol_subscription import ConsumerProtocolSubscription

_VERSION = Struct(">h")
# Version 1 is what all recent clients read; later ones serve cooperative and rack-aware assignors.
_SUBSCRIPTION_VERSION = 1

Assignment = dict[str, list[TopicPartition]]
Assignor = Callable[[Mapping[str, Sequence[str]], Mapping[str, int]], Assignment]


def assign_range(subscriptions: Mapping[str, Sequence[str]], partition_counts: Mapping[str, int]) -> Assignment:
    """Topic by topic, consecutive partitions to the members in order; the first members get the remainder."""
    assignment: Assignment = {member: [] for member in subscriptions}
    for topic in _topics(subscriptions, partition_counts):
        members = sorted(member for member, topics in subscriptions.items() if topic in topics)
        share, left = divmod(partition_counts[topic], len(members))
        start = 0
        for index, member in enumerate(members):
            stop = start + share + (index < left)
            assignment[member] += [TopicPartition(topic, partition) for partition in range(start, stop)]
            start = stop
    return assignment


def assign_round_robin(subscriptions: Mapping[str, Sequence[str]], partition_counts: Mapping[str, int]) -> Assignment:
    """All partitions in order, one at a time to each member that subscribes to the topic."""
    assignment: Assignment = {member: [] for member in subscriptions}
    members = sorted(subscriptions)
    turn = 0
    for topic in _topics(subscriptions, partition_counts):
        for partition in range(partition_counts[topic]):
            while topic not in subscriptions[members[turn % len(members)]]:
                turn += 1
            assignment[members[turn % len(members)]].append(TopicPartition(topic, partition))
            turn += 1
    return assignment


ASSIGNORS: dict[str, Assignor] = {"range": assign_range, "roundrobin": assign_round_robin}


def _topics(subscriptions: Mapping[str, Sequence[str]], partition_counts: Mapping[str, int]) -> list[str]:
    return sorted({topic for topics in subscriptions.values() for topic in topics if topic in partition_counts})


def encode_subscription(topics: Iterable[str]) -> bytes:
    message = ConsumerProtocolSubscription(topics=sorted(topics))
    return _VERSION.pack(_SUBSCRIPTION_VERSION) + b"".join(
        consumer_protocol_subscription.encode(message, _SUBSCRIPTION_VERSION)
    )


def decode_subscription(data: bytes) -> list[str]:
    """The topics a member subscribes to; raises ProtocolError."""
    version = _version(data, consumer_protocol_subscription.VERSIONS.stop - 1)
    message, _ = consumer_protocol_subscription.decode(memoryview(data), version, _VERSION.size)
    return list(message.topics)


def encode_assignment(partitions: Iterable[TopicPartition]) -> bytes:
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    message = ConsumerProtocolAssignment(assigned_partitions=[AssignedTopic(*each) for each in sorted(topics.items())])
    return _VERSION.pack(_SUBSCRIPTION_VERSION) + b"".join(
        consumer_protocol_assignment.encode(message, _SUBSCRIPTION_VERSION)
    )


def decode_assignment(data: bytes) -> list[TopicPartition]:
    """A member's assignment; empty if the leader gave it nothing. Raises ProtocolError."""
    if not data:
        return []
    version = _version(data, consumer_protocol_assignment.VERSIONS.stop - 1)
    message, _ = consumer_protocol_assignment.decode(memoryview(data), version, _VERSION.size)
    return [
        TopicPartition(each.topic, partition) for each in message.assigned_partitions for partition in each.partitions
    ]


def _version(data: bytes, highest: int) -> int:
    """A later version starts with the fields of an earlier one."""
    try:
        version = int(_VERSION.unpack_from(data)[0])
    except error as problem:
        raise ProtocolError(f"{len(data)} bytes are not a subscription or assignment") from problem
    return max(0, min(version, highest))
