"""The assignors `sticky` and `cooperative-sticky`: as even as possible, with few moves.

Owns: which of several members that claim a partition has it, the even shares, and what must be revoked before another
else may have it. Pure functions. Invariants: each partition has at most one owner; no move of one partition could make
the shares more even; a cooperative assignment gives no member what another one still holds (KIP-429).
"""

from collections.abc import Iterator, Mapping, Sequence

from oncelog.client.groups.subscriptions import Subscription
from oncelog.client.values.records import TopicPartition

Assignment = dict[str, list[TopicPartition]]


def assign_sticky(subscriptions: Mapping[str, Subscription], partition_counts: Mapping[str, int]) -> Assignment:
    """Assign partitions so that each member keeps its own, unless another one has two fewer."""
    subscribers = {
        topic: sorted(member for member, each in subscriptions.items() if topic in each.topics)
        for topic in sorted({topic for each in subscriptions.values() for topic in each.topics})
        if topic in partition_counts
    }
    assignment: Assignment = {member: [] for member in sorted(subscriptions)}
    kept = set()
    for place, member in sorted(_owners(subscriptions).items()):
        if member in subscribers.get(place.topic, ()) and place.partition < partition_counts[place.topic]:
            assignment[member].append(place)
            kept.add(place)
    free = [
        place
        for topic in sorted(subscribers, key=lambda each: (len(subscribers[each]), each))
        for place in (TopicPartition(topic, index) for index in range(partition_counts[topic]))
        if place not in kept
    ]
    for place in free:
        assignment[_least_loaded(assignment, subscribers[place.topic])].append(place)
    while (move := next(_moves(assignment, subscribers), None)) is not None:
        place, giver, taker = move
        assignment[giver].remove(place)
        assignment[taker].append(place)
    return assignment


def assign_cooperative_sticky(
    subscriptions: Mapping[str, Subscription], partition_counts: Mapping[str, int]
) -> Assignment:
    """Assign as `sticky`, but what moves from one member to another is unassigned at first: its holder revokes it and
    joins again, and the next assignment gives it to the other."""
    owners = _owners(subscriptions)
    holders: dict[TopicPartition, set[str]] = {}
    for member, subscription in subscriptions.items():
        for place in subscription.owned:
            holders.setdefault(place, set()).add(member)
    return {
        member: [place for place in places if owners.get(place) == member or not holders.get(place, set()) - {member}]
        for member, places in assign_sticky(subscriptions, partition_counts).items()
    }


def _owners(subscriptions: Mapping[str, Subscription]) -> dict[TopicPartition, str]:
    """Return the owner of each partition: of two members that claim it the one of the newer generation; of one
    generation, neither."""
    claims: dict[TopicPartition, list[tuple[int, str]]] = {}
    for member, subscription in subscriptions.items():
        for place in subscription.owned:
            claims.setdefault(place, []).append((subscription.generation_id, member))
    owners = {}
    for place, found in claims.items():
        newest = max(generation_id for generation_id, _ in found)
        members = {member for generation_id, member in found if generation_id == newest}
        if len(members) == 1:
            owners[place] = members.pop()
    return owners


def _least_loaded(assignment: Assignment, members: Sequence[str]) -> str:
    return min(members, key=lambda member: (len(assignment[member]), member))


def _moves(
    assignment: Assignment, subscribers: Mapping[str, Sequence[str]]
) -> Iterator[tuple[TopicPartition, str, str]]:
    """Yield moves that make the shares more even, from the largest share first."""
    for giver in sorted(assignment, key=lambda member: (-len(assignment[member]), member)):
        # One partition of each topic: all of them may go to the same members.
        for place in {each.topic: each for each in assignment[giver]}.values():
            taker = _least_loaded(assignment, subscribers[place.topic])
            if len(assignment[giver]) - len(assignment[taker]) >= 2:
                yield place, giver, taker
