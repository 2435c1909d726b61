"""Partition assignment by the leader of a classic group, as Java's assignors do it.

Owns: `range` and `roundrobin`, and the table of all assignors with what a member says for each. Pure functions.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from oncelog.client.groups.sticky import Assignment, assign_cooperative_sticky, assign_sticky
from oncelog.client.groups.subscriptions import (
    Subscription,
    decode_sticky_subscription,
    decode_subscription,
    encode_cooperative_subscription,
    encode_sticky_subscription,
    encode_subscription,
)
from oncelog.client.values.records import TopicPartition


def assign_range(subscriptions: Mapping[str, Subscription], partition_counts: Mapping[str, int]) -> Assignment:
    """Assign, topic by topic, consecutive partitions to the members in order; the first members get the remainder."""
    assignment: Assignment = {member: [] for member in subscriptions}
    for topic in _topics(subscriptions, partition_counts):
        members = sorted(member for member, each in subscriptions.items() if topic in each.topics)
        share, left = divmod(partition_counts[topic], len(members))
        start = 0
        for index, member in enumerate(members):
            stop = start + share + (index < left)
            assignment[member] += [TopicPartition(topic, partition) for partition in range(start, stop)]
            start = stop
    return assignment


def assign_round_robin(subscriptions: Mapping[str, Subscription], partition_counts: Mapping[str, int]) -> Assignment:
    """Assign all partitions in order, one at a time to each member that subscribes to the topic."""
    assignment: Assignment = {member: [] for member in subscriptions}
    members = sorted(subscriptions)
    turn = 0
    for topic in _topics(subscriptions, partition_counts):
        for partition in range(partition_counts[topic]):
            while topic not in subscriptions[members[turn % len(members)]].topics:
                turn += 1
            assignment[members[turn % len(members)]].append(TopicPartition(topic, partition))
            turn += 1
    return assignment


def _topics(subscriptions: Mapping[str, Subscription], partition_counts: Mapping[str, int]) -> list[str]:
    return sorted({topic for each in subscriptions.values() for topic in each.topics if topic in partition_counts})


@dataclass(frozen=True, slots=True)
class Assignor:
    assign: Callable[[Mapping[str, Subscription], Mapping[str, int]], Assignment]
    encode: Callable[[Subscription], bytes] = encode_subscription
    decode: Callable[[bytes], Subscription] = decode_subscription
    is_cooperative: bool = False
    """True if members keep their partitions while they join, and give up only what the new assignment leaves out
    (KIP-429)."""


ASSIGNORS = {
    "range": Assignor(assign_range),
    "roundrobin": Assignor(assign_round_robin),
    "sticky": Assignor(assign_sticky, encode_sticky_subscription, decode_sticky_subscription),
    "cooperative-sticky": Assignor(assign_cooperative_sticky, encode_cooperative_subscription, is_cooperative=True),
}
