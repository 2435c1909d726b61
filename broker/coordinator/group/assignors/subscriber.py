"""What an assignor is asked: members with their subscriptions and what was meant for them so far.

Owns: the shapes. An assignor is a plain function of them: the same question, whatever the order of the members, gets
the same answer.
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
    """Only topics that exist."""
    assigned: TopicPartitions
    """What the last target assignment gave it; may hold topics that it does not read any more, or that are gone."""


Assignor = Callable[[Sequence[Subscriber], Mapping[UUID, int]], dict[str, TopicPartitions]]
"""From subscribers, and how many partitions each topic has, to the partitions of each member."""
