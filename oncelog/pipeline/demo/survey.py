"""The purchases topic in the log: the length of each partition, and which ranges were committed or aborted.

Owns: reading that for the plan of the job and for the picture. Does not own: records, or their sums.
Invariant: the spans of a strip are contiguous, from its first offset to its end.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from oncelog.client import Consumer, TopicPartition
from oncelog.client.consuming.raw_batches import Fate


@dataclass(frozen=True, slots=True)
class Span:
    """Neighbouring batches of one fate; a marker is its own span, because it ends a transaction."""

    first_offset: int
    next_offset: int
    fate: Fate


@dataclass(frozen=True, slots=True)
class Strip:
    partition: int
    spans: tuple[Span, ...]

    @property
    def next_offset(self) -> int:
        return self.spans[-1].next_offset if self.spans else 0


def merge_spans(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Return the spans in offset order, with neighbours of the same fate merged, except markers."""
    result: list[Span] = []
    for span in spans:
        if result and result[-1].fate == span.fate != "marker":
            result[-1] = replace(result[-1], next_offset=span.next_offset)
        else:
            result.append(span)
    return tuple(result)


async def survey(bootstrap: str, topic: str) -> list[Strip]:
    """Return every partition, batch by batch. Raises KafkaError."""
    strips = []
    async with Consumer(bootstrap_servers=bootstrap) as consumer:
        for partition in sorted(await consumer.partitions_for(topic)):
            spans = [
                Span(batch.header.base_offset, batch.header.last_offset + 1, batch.fate)
                async for batch in consumer.raw_batches(partition)
            ]
            strips.append(Strip(partition.partition, merge_spans(spans)))
    return strips


async def count_offsets(bootstrap: str, topic: str) -> int:
    """Return how many offsets the topic's partitions have together. Raises KafkaError."""
    async with Consumer(bootstrap_servers=bootstrap, isolation_level="read_uncommitted") as consumer:
        partitions: list[TopicPartition] = await consumer.partitions_for(topic)
        ends = await consumer.end_offsets(partitions)
    return sum(ends.values())
