"""Which partition a record goes to: its key's, as Java's producer computes it, or a sticky one (KIP-480)."""

import random
from functools import lru_cache

from oncelog.protocol.partitioning import murmur2

_CACHED_KEYS = 65_536


class Partitioner:
    """Records without a key stay in one partition until its batch is full, so that batches fill."""

    def __init__(self, source: random.Random | None = None) -> None:
        self._random = source or random.Random()
        self._sticky: dict[str, int] = {}
        # murmur2 in Python costs microseconds a key, and keys repeat.
        self._hash = lru_cache(_CACHED_KEYS)(murmur2)

    def partition(self, topic: str, key: bytes | None, leaders: tuple[int, ...]) -> int:
        """Return the partition of a record. `leaders` has each partition's leader, negative for none: a record without
        a key then goes elsewhere, as in Java's producer."""
        partition_count = len(leaders)
        if key is not None:
            return (self._hash(key) & 0x7FFFFFFF) % partition_count
        sticky = self._sticky.get(topic, -1)
        if not 0 <= sticky < partition_count or (leaders[sticky] < 0 <= max(leaders)):
            led = [index for index, leader in enumerate(leaders) if leader >= 0]
            sticky = self._sticky[topic] = self._random.choice(led or range(partition_count))
        return sticky

    def on_batch_full(self, topic: str, partition_count: int) -> None:
        """Switch to the next partition: the sticky partition's batch is full."""
        if topic in self._sticky:
            self._sticky[topic] = (self._sticky[topic] + 1) % partition_count
