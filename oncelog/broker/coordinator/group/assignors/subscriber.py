"""The input of an assignor: members with their subscriptions and their previous target.

Owns: the shapes. An assignor is a pure function of them, and does not depend on the order of the members.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

TopicPartitions = Mapping[UUID, frozenset[int]]


@dataclass(frozen=True, slots=True)
class Subscriber:
    member_id: str
    instance_id: str | None
    topics: frozenset[UUID]
    """The ids of subscribed topics that exist."""
    assigned: TopicPartitions
    """The last target assignment; may include topics that the member no longer reads, or that no longer exist."""


Assignor = Callable[[Sequence[Subscriber], Mapping[UUID, int]], dict[str, TopicPartitions]]
"""Computes the partitions of each member from subscribers and the partition count of each topic."""
