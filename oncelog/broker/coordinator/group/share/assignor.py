"""The assignor `simple`: every partition has readers, every member has something to read (KIP-932).

Owns: the rule alone. As Kafka's SimpleAssignor: partitions are shared by as many members as it takes for each member to
have one; members with the same subscription share all partitions together, others share each topic by itself.
Invariants
- Balance: of the members that share partitions none has two more than another; each partition has equally many readers.
- Stickiness: within that a member keeps what it has.
- The result does not depend on the order of the members.
"""

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from uuid import UUID

from oncelog.broker.coordinator.group.assignors.subscriber import Subscriber, TopicPartitions

Partition = tuple[UUID, int]


def assign(subscribers: Sequence[Subscriber], assignable: Mapping[UUID, Collection[int]]) -> dict[str, TopicPartitions]:
    """Return the partitions of each member; `assignable` are those whose state is made, by topic."""
    in_order = sorted(subscribers, key=lambda each: each.member_id)
    shared: dict[str, list[Partition]] = {each.member_id: [] for each in in_order}
    if len({each.topics for each in in_order}) == 1:
        _share(in_order, in_order[0].topics, assignable, shared)
    else:
        for topic_id in sorted(frozenset().union(*(each.topics for each in in_order))):
            _share([each for each in in_order if topic_id in each.topics], (topic_id,), assignable, shared)
    return {member_id: _by_topic(partitions) for member_id, partitions in shared.items()}


def _by_topic(partitions: Sequence[Partition]) -> TopicPartitions:
    numbers: dict[UUID, list[int]] = {}
    for topic_id, number in sorted(partitions):
        numbers.setdefault(topic_id, []).append(number)
    return {topic_id: frozenset(those) for topic_id, those in numbers.items()}


def _flat(assigned: TopicPartitions) -> list[Partition]:
    return [(topic_id, number) for topic_id, numbers in assigned.items() for number in numbers]


def _share(
    readers: Sequence[Subscriber],
    topic_ids: Collection[UUID],
    assignable: Mapping[UUID, Collection[int]],
    shared: dict[str, list[Partition]],
) -> None:
    """Add to `shared` the parts of these readers in these topics."""
    partitions = [
        (topic_id, number) for topic_id in sorted(topic_ids) for number in sorted(assignable.get(topic_id, ()))
    ]
    if not partitions:
        return
    # Larger parts go to those that have more already.
    known = frozenset(partitions)
    readers = sorted(readers, key=lambda each: -sum(1 for held in _flat(each.assigned) if held in known))
    sharing = -(-len(readers) // len(partitions))
    wanted = _even_parts(sharing * len(partitions), len(readers))
    parts = _kept(readers, partitions, wanted, sharing)
    _fill(parts, partitions, wanted, sharing)
    for reader, part in zip(readers, parts, strict=True):
        shared[reader.member_id] += part


def _even_parts(total: int, count: int) -> list[int]:
    """Return `count` numbers that differ by at most one and make `total` together, the larger ones first."""
    least, more = divmod(total, count)
    return [least + (index < more) for index in range(count)]


def _kept(
    readers: Sequence[Subscriber], partitions: Sequence[Partition], wanted: Sequence[int], sharing: int
) -> list[dict[Partition, None]]:
    """Return what each reader keeps: not more than its part, and not more readers of one than share it."""
    left = dict.fromkeys(partitions, sharing)
    parts: list[dict[Partition, None]] = []
    for reader, most in zip(readers, wanted, strict=True):
        part: dict[Partition, None] = {}
        for held in sorted(_flat(reader.assigned)):
            if len(part) < most and left.get(held):
                part[held] = None
                left[held] -= 1
        parts.append(part)
    return parts


def _fill(
    parts: Sequence[dict[Partition, None]], partitions: Sequence[Partition], wanted: Sequence[int], sharing: int
) -> None:
    """Give each partition the readers that it lacks, in turn to those that have less than their part."""
    lacking = _lacking(parts, partitions, sharing)
    hungry = deque(index for index, part in enumerate(parts) if len(part) < wanted[index])
    for partition in partitions:
        for _ in range(len(hungry)):
            if not lacking[partition]:
                break
            index = hungry.popleft()
            if partition not in parts[index]:
                parts[index][partition] = None
                lacking[partition] -= 1
            if len(parts[index]) < wanted[index]:
                hungry.append(index)
    for partition, count in lacking.items():
        for _ in range(count):
            _swap(parts, hungry[0], partition)
            if len(parts[hungry[0]]) == wanted[hungry[0]]:
                hungry.popleft()


def _lacking(
    parts: Sequence[dict[Partition, None]], partitions: Sequence[Partition], sharing: int
) -> dict[Partition, int]:
    lacking = dict.fromkeys(partitions, sharing)
    for part in parts:
        for partition in part:
            lacking[partition] -= 1
    return lacking


def _swap(parts: Sequence[dict[Partition, None]], index: int, partition: Partition) -> None:
    """Let another reader take the partition, which all that lack something have already, for one of its own.

    There is such a reader: what this one lacks has all of its readers, so more than `partition` has."""
    for other in parts:
        if partition in other:
            continue
        for given in other:
            if given not in parts[index]:
                del other[given]
                other[partition] = None
                parts[index][given] = None
                return
    raise RuntimeError("no partition can be swapped")
