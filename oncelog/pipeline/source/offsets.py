"""The offset of a stream: what Spark writes to the checkpoint, and all that a restart needs to know.

Owns: its form. For each topic it has the topic's id, where reading began (last, if records were lost since), where the
next batch begins, and how many offsets were lost on the way, by partition. Invariants
- The offset before the first batch is the same whenever Spark asks: it names no topic. Where the first batch begins is
  part of where it ends, and Spark records that before any of the batch runs. So a first batch that is run again covers
  the same range, whatever retention has done in between.
- Two offsets are equal exactly when their JSON is: Spark compares texts.

Offsets of Spark's own Kafka source (`{"topic": {"0": 5}}`) can be read too, so that a query can be moved with its
checkpoint; they lack the topic's id.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

VERSION = 1
ByPartition = Mapping[int, int]


class ForeignOffset(Exception):
    """Raised if the checkpoint holds an offset of another source."""


@dataclass(frozen=True, slots=True)
class TopicOffsets:
    """One topic. `start` and `next` have the same partitions; `lost` has those that have lost anything."""

    topic_id: str
    """The topic's id; empty where it is not known."""
    start: ByPartition
    next: ByPartition
    lost: ByPartition = field(default_factory=dict)


StreamOffset = Mapping[str, TopicOffsets]
INITIAL: StreamOffset = MappingProxyType({})


def to_json(offset: StreamOffset) -> dict[str, Any]:
    """Return the offset as JSON has it: sorted, and with partitions as text."""
    topics: dict[str, Any] = {}
    for name, topic in sorted(offset.items()):
        parts = {"start": topic.start, "next": topic.next, "lost": topic.lost}
        topics[name] = {"id": topic.topic_id} | {part: _texts(numbers) for part, numbers in parts.items() if numbers}
    return {"version": VERSION, "topics": topics}


def from_json(value: Mapping[str, Any]) -> StreamOffset:
    """Return the offset in a checkpoint. Raises ForeignOffset."""
    if value.get("version") == VERSION and isinstance(value.get("topics"), dict):
        return {
            name: TopicOffsets(topic["id"], *(_numbers(topic.get(part, {})) for part in ("start", "next", "lost")))
            for name, topic in value["topics"].items()
        }
    if value and all(_is_kafkas(partitions) for partitions in value.values()):
        return {name: TopicOffsets("", _numbers(parts), _numbers(parts)) for name, parts in value.items()}
    raise ForeignOffset(
        f"the checkpoint holds {str(value)[:200]!r}, no offset of this source: it belongs to another query or to a "
        "newer version; start with a new checkpointLocation, and startingOffsets where that one ended"
    )


def _is_kafkas(partitions: object) -> bool:
    return isinstance(partitions, dict) and all(
        name.isdecimal() and type(offset) is int for name, offset in partitions.items()
    )


def _texts(numbers: ByPartition) -> dict[str, int]:
    return {str(partition): numbers[partition] for partition in sorted(numbers)}


def _numbers(texts: Mapping[str, int]) -> dict[int, int]:
    return {int(partition): offset for partition, offset in texts.items()}
