"""What a copy remembers, as records of a compacted topic on the target.

Owns: their keys and values, and the replay of them. Does not own: reading and writing them. A partition's runs are in
blocks of `BLOCK_RUNS`, a record each; a transaction writes the last block of each partition that it wrote to, with the
position. A block that is full never changes again, so that compaction leaves one record for each. Keys have both topic
ids: what is known of a topic that was deleted, on either side, never counts for one of the same name.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from uuid import UUID

from oncelog.tools.copy.runs import Runs

TOPIC_PREFIX = "__oncelog_copy."
BLOCK_RUNS = 256
"""The runs of a block, some two kilobytes: what a transaction writes beside the records of a partition."""
_SWITCHED = b'{"switched":true}'

Entry = tuple[bytes, bytes]
"""The key and value of a record."""


def topic_of(source_cluster_id: str) -> str:
    """Return the topic for copies from this cluster."""
    return f"{TOPIC_PREFIX}{source_cluster_id}"


def transactional_id_of(source_cluster_id: str, target_cluster_id: str) -> str:
    """Return the transactional id, one for each pair of clusters: two copies of a pair fence each other."""
    return f"oncelog-copy.{source_cluster_id}.{target_cluster_id}"


@dataclass(frozen=True, slots=True)
class TopicIds:
    """The ids of the same topic on both sides; they change each time it is created."""

    name: str
    source: UUID
    target: UUID


@dataclass(slots=True)
class PartitionCopy:
    """How far one partition is copied: all committed records below `next_offset` of the source are at `runs`."""

    next_offset: int
    runs: Runs = field(default_factory=Runs)
    stored_count: int = 0
    """The number of runs in blocks that are full and stored."""


@dataclass(slots=True)
class CopyState:
    """The state of the copy that its topic holds."""

    partitions: dict[TopicIds, dict[int, PartitionCopy]] = field(default_factory=dict)
    switched_at_ms: int | None = None
    """When a switch-over ended the copy."""

    def of_target(self, name: str, target_id: UUID) -> TopicIds | None:
        """Return the topic that this one on the target is a copy of; None if it is none."""
        found = (ids for ids in self.partitions if (ids.name, ids.target) == (name, target_id))
        return next(found, None)

    def partition(self, ids: TopicIds, partition: int) -> PartitionCopy | None:
        return self.partitions.get(ids, {}).get(partition)


def entries_of(ids: TopicIds, partition: int, copied: PartitionCopy) -> Iterator[Entry]:
    """Yield the blocks that are not stored in their last form."""
    first = copied.stored_count // BLOCK_RUNS
    last = max(first, (len(copied.runs) - 1) // BLOCK_RUNS)
    for block in range(first, last + 1):
        start = block * BLOCK_RUNS
        runs = copied.runs.block(start, min(start + BLOCK_RUNS, len(copied.runs)))
        key = [ids.name, str(ids.source), str(ids.target), partition, block]
        yield _json(key), _json({"next": copied.next_offset, "runs": runs})


def on_stored(copied: PartitionCopy) -> None:
    """Note that what `entries_of` returned is committed. The last block may still grow, or its last run."""
    copied.stored_count = max(0, len(copied.runs) - 1) // BLOCK_RUNS * BLOCK_RUNS


def switched_entry(now_ms: int) -> Entry:
    """Return the record that ends the copy."""
    return _SWITCHED, _json({"at_ms": now_ms})


def replay(entries: dict[bytes, bytes | None]) -> CopyState:
    """Return the state that the newest record of each key describes. Raises ValueError for what no copy has written."""
    state = CopyState()
    blocks: dict[tuple[TopicIds, int], dict[int, dict[str, object]]] = {}
    for key, value in entries.items():
        if value is None:
            continue
        if key == _SWITCHED:
            state.switched_at_ms = json.loads(value)["at_ms"]
            continue
        name, source, target, partition, block = json.loads(key)
        ids = TopicIds(name, UUID(source), UUID(target))
        blocks.setdefault((ids, partition), {})[block] = json.loads(value)
    for (ids, partition), stored in blocks.items():
        copied = PartitionCopy(-1)
        for _, each in sorted(stored.items()):
            copied.next_offset = each["next"]  # type: ignore[assignment]
            copied.runs.extend_by_block(each["runs"])  # type: ignore[arg-type]
        on_stored(copied)
        state.partitions.setdefault(ids, {})[partition] = copied
    return state


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
