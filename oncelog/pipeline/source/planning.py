"""Which offsets a batch covers, and how they are parted into tasks.

Owns: the end of the next batch under its limits, and the ranges between two offsets. Pure: it is given positions and
the logs as they are. As Spark's Kafka source: a limit is shared by the partitions according to what each has left, and
`minPartitions` splits the largest.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil
from typing import Literal

from oncelog.client import TopicPartition
from oncelog.pipeline.source.losses import Logs, TopicLog
from oncelog.pipeline.source.offsets import ByPartition, StreamOffset, TopicOffsets

_SMALL_TASK = 5_000
"""The number of offsets below which ranges share a task."""
Positions = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets [start, end) of one partition of the topic that has this id."""

    topic: str
    topic_id: str
    partition: int
    start: int
    end: int


def with_new(known: StreamOffset, starts: Mapping[str, ByPartition], logs: Logs) -> StreamOffset:
    """Return the positions with every partition that is new, which begins at `starts`; ids that were not known are
    now."""
    topics: dict[str, TopicOffsets] = {}
    for name, first in starts.items():
        before = known.get(name) or TopicOffsets("", {}, {})
        new = {partition: offset for partition, offset in first.items() if partition not in before.next}
        topics[name] = replace(
            before, topic_id=logs[name].topic_id, start={**before.start, **new}, next={**before.next, **new}
        )
    return {**known, **topics}


def bounded(logs: Logs, target: Logs) -> Logs:
    """Return the logs as they are, to be read no further than in `target`: partitions that it lacks are left out."""
    return {
        name: TopicLog(
            log.topic_id,
            {partition: log.earliest[partition] for partition in target[name].stable if partition in log.earliest},
            {
                partition: min(log.stable[partition], limit)
                for partition, limit in target[name].stable.items()
                if partition in log.stable
            },
            log.end,
        )
        for name, log in logs.items()
        if name in target
    }


def left(positions: StreamOffset, logs: Logs) -> dict[TopicPartition, int]:
    """Return how many offsets each partition has to be read, from its position to its stable end."""
    return {
        TopicPartition(name, partition): max(0, logs[name].stable.get(partition, position) - position)
        for name, topic in positions.items()
        if name in logs
        for partition, position in topic.next.items()
    }


def advanced(positions: StreamOffset, counts: Positions) -> StreamOffset:
    """Return the positions, each partition's advanced by its count."""
    return {
        name: replace(
            topic,
            next={
                partition: position + counts.get(TopicPartition(name, partition), 0)
                for partition, position in topic.next.items()
            },
        )
        for name, topic in positions.items()
    }


def shared(counts: Positions, most: int) -> Positions:
    """Return at most about `most` in all, each partition's share in proportion to what it has; a share is never 0 if
    there is anything, so that every batch makes progress (rounding as Spark's)."""
    total = sum(counts.values())
    if total <= most:
        return counts
    shares = {}
    for each, count in counts.items():
        share = most * count / total
        shares[each] = min(count, ceil(share) if share < 1 else int(share))
    return shares


def ranges(start: StreamOffset, end: StreamOffset) -> list[OffsetRange]:
    """Return what lies between two offsets, by topic and partition."""
    found = []
    for name, topic in sorted(end.items()):
        before = start.get(name)
        for partition, stop in sorted(topic.next.items()):
            if before is None or _begins_again(before, topic, partition):
                first = topic.start[partition]
            else:
                first = before.next[partition]
            if first < stop:
                found.append(OffsetRange(name, topic.topic_id, partition, first, stop))
    return found


def _begins_again(before: TopicOffsets, topic: TopicOffsets, partition: int) -> bool:
    """Whether reading between the two offsets begins where the second says: in a partition that is new or has lost
    records, or in a topic that was created again."""
    return (
        partition not in before.next
        or before.lost.get(partition, 0) != topic.lost.get(partition, 0)
        or bool(before.topic_id and before.topic_id != topic.topic_id)
    )


def edges(found: Iterable[OffsetRange], edge: Literal["start", "end"]) -> StreamOffset:
    """Return the beginnings or the ends of ranges as positions, to be compared with the logs."""
    topics: dict[str, TopicOffsets] = {}
    for each in found:
        offset = each.start if edge == "start" else each.end
        before = topics.get(each.topic) or TopicOffsets(each.topic_id, {}, {})
        topics[each.topic] = replace(before, next={**before.next, each.partition: offset})
    return topics


def split(whole: Sequence[OffsetRange], least: int | None, most_records: int | None) -> list[OffsetRange]:
    """Return the same offsets in at least `least` ranges, of at most `most_records` each; None is no limit."""
    if most_records is not None:
        whole = [part for each in whole for part in _parts(each, ceil((each.end - each.start) / most_records))]
    if least is None or len(whole) >= least:
        return list(whole)
    total = sum(each.end - each.start for each in whole)
    return [part for each in whole for part in _parts(each, max(1, round((each.end - each.start) / total * least)))]


def grouped(parts: Sequence[OffsetRange], least: int | None, most_records: int | None) -> list[tuple[OffsetRange, ...]]:
    """Return the same ranges as tasks: those that follow each other share one while they are small together, since a
    task costs as much as reading some ten thousand records. There are no fewer than `least` tasks, if there are as many
    ranges."""
    most = _SMALL_TASK if most_records is None else min(_SMALL_TASK, most_records)
    tasks: list[list[OffsetRange]] = []
    size = 0
    may_share = max(0, len(parts) - (least or 1))
    for each in parts:
        count = each.end - each.start
        if tasks and may_share and size + count <= most:
            tasks[-1].append(each)
            size += count
            may_share -= 1
        else:
            tasks.append([each])
            size = count
    return [tuple(each) for each in tasks]


def _parts(whole: OffsetRange, count: int) -> Iterable[OffsetRange]:
    size = whole.end - whole.start
    count = min(count, size)
    cuts = [whole.start + size * index // count for index in range(count + 1)]
    return [replace(whole, start=start, end=end) for start, end in pairwise(cuts)]
