"""I1 to I6, I25: what a log is to its clients: one record at an offset, nothing lost, doubled, invented or moved."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise

from tests.history.events import NOT_SAID, Bounds, Leading, Partition
from tests.history.facts import Facts


def i1_an_offset_has_one_value_for_ever(facts: Facts) -> Iterator[str]:
    values: dict[tuple[Partition, int], bytes] = {}
    for poll in facts.history.polls:
        for offset, value in poll.records:
            if values.setdefault((poll.partition, offset), value) != value:
                yield f"{poll.partition} at {offset}: {value!r} and {values[poll.partition, offset]!r}"
    for partition, batches in facts.history.logs.items():
        for batch in batches:
            for place, value in enumerate(batch.values, batch.base_offset):
                if values.setdefault((partition, place), value) != value:
                    yield f"{partition} at {place}: {values[partition, place]!r} was read, {value!r} is there"


def i2_what_is_read_was_sent_to_that_partition(facts: Facts) -> Iterator[str]:
    for poll in facts.history.polls:
        for offset, value in poll.records:
            send = facts.sends.get((poll.partition, value))
            if send is None or send.span.invoked_at > poll.span.completed_at:
                yield f"{poll.partition} at {offset}: {value!r}"


def i3_a_value_is_there_once(facts: Facts) -> Iterator[str]:
    places: dict[tuple[Partition, bytes], set[int]] = defaultdict(set)
    for poll in facts.history.polls:
        for offset, value in poll.records:
            places[poll.partition, value].add(offset)
    for partition, batches in facts.history.logs.items():
        for batch in batches:
            for place, value in enumerate(batch.values, batch.base_offset):
                places[partition, value].add(place)
    for (partition, value), offsets in places.items():
        if len(offsets) > 1:
            yield f"{partition}: {value!r} at {sorted(offsets)}"


def i4_nothing_that_was_acknowledged_is_lost(facts: Facts) -> Iterator[str]:
    for partition, view in facts.final.items():
        there = Counter(view.values())
        for send in facts.history.sends:
            if send.partition != partition or there[send.value]:
                continue
            if send.transaction is None:
                if send.span.is_ok:
                    yield f"{partition}: {send.value!r}, acknowledged at {send.offset}"
            elif facts.transactions[send.transaction].is_told_committed:
                yield f"{partition}: {send.value!r} of the committed {send.transaction}"


def i5_a_session_keeps_its_order(facts: Facts) -> Iterator[str]:
    last: dict[tuple[str, Partition], tuple[int, bytes]] = {}
    for send in sorted(facts.sends.values(), key=lambda send: send.span.invoked_at):
        offset = facts.offset_of.get((send.partition, send.value))
        if offset is None:
            continue
        before = last.get((send.session, send.partition))
        if before is not None and before[0] > offset:
            yield f"{send.partition}: {send.value!r} at {offset}, sent after {before[1]!r} at {before[0]}"
        last[send.session, send.partition] = offset, send.value


def i6_bounds_cover_what_was_acknowledged_and_never_go_back(facts: Facts) -> Iterator[str]:
    """A transaction's records count from its end: until then they may be acknowledged and not durable yet."""
    by_partition: dict[Partition, list[Bounds]] = defaultdict(list)
    for bounds in sorted(facts.history.bounds, key=lambda bounds: bounds.span.completed_at):
        by_partition[bounds.partition].append(bounds)
        if bounds.last_stable_offset > bounds.high_watermark:
            yield f"{bounds.partition}: stable to {bounds.last_stable_offset}, durable to {bounds.high_watermark}"
    for partition, seen in by_partition.items():
        for name in ("log_start_offset", "last_stable_offset", "high_watermark"):
            yield from _falls(partition, name, seen)
    for partition, seen in by_partition.items():
        acknowledged = sorted(
            (facts.durable_at(send), send.offset)
            for send in facts.history.sends
            if send.partition == partition and send.span.is_ok
        )
        end, index = -1, 0
        for bounds in sorted(seen, key=lambda bounds: bounds.span.invoked_at):
            while index < len(acknowledged) and acknowledged[index][0] < bounds.span.invoked_at:
                end = max(end, acknowledged[index][1])
                index += 1
            if end >= bounds.high_watermark:
                yield f"{partition}: {end} was acknowledged, and the high watermark is {bounds.high_watermark}"


def i25_leader_epochs_rise_with_each_start_and_records_follow_them(facts: Facts) -> Iterator[str]:
    highest: dict[Partition, Leading] = {}
    for leading in sorted(facts.history.leading, key=lambda leading: leading.span.completed_at):
        before = highest.get(leading.partition)
        if before is None or leading.epoch >= before.epoch:
            highest[leading.partition] = leading
        elif before.span.precedes(leading.span):
            yield f"{leading.partition}: the leader epoch fell from {before.epoch} to {leading.epoch}"
    starts: dict[tuple[Partition, int], int] = {}
    for leading in facts.history.leading:
        if leading.start is not None:
            first = starts.setdefault((leading.partition, leading.epoch), leading.start)
            if first != leading.start:
                yield f"{leading.partition}: epoch {leading.epoch} in start {first} and in start {leading.start}"
    for partition, batches in facts.history.logs.items():
        for one, two in pairwise(batches):
            if two.leader_epoch < one.leader_epoch:
                yield f"{partition} at {two.base_offset}: epoch {two.leader_epoch} after {one.leader_epoch}"


def _falls(partition: Partition, name: str, seen: list[Bounds]) -> Iterator[str]:
    """Report falls in the order of the answers; a request from before the highest was answered may see less."""
    highest: Bounds | None = None
    for bounds in seen:
        value = getattr(bounds, name)
        if value == NOT_SAID:
            continue
        if highest is None or value >= getattr(highest, name):
            highest = bounds
        elif highest.span.precedes(bounds.span):
            yield f"{partition}: {name} fell from {getattr(highest, name)} to {value}"
