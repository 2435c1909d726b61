"""The newest offset of each key in the part of a log that was not cleaned yet.

Owns: the map of one round, bounded. Invariant: what it says of a key holds for every offset up to `latest_offset`;
records beyond it are not judged.
"""

from oncelog.broker.storage.compaction.transactions import AbortedTransactions
from oncelog.protocol.records.batch import BatchHeader
from oncelog.protocol.records.record import decode_records

_LONGEST_PLAIN_KEY = 32
_BYTES_PER_ENTRY = 160
"""A key of some twenty bytes, its offset and its share of the table."""


class OffsetMap:
    __slots__ = ("_capacity", "_offsets", "latest_offset")

    def __init__(self, memory_bytes: int) -> None:
        self._capacity = max(1, memory_bytes // _BYTES_PER_ENTRY)
        self._offsets: dict[bytes, int] = {}
        self.latest_offset = -1

    def __len__(self) -> int:
        return len(self._offsets)

    def read(self, header: BatchHeader, batch: memoryview, aborted: AbortedTransactions) -> bool:
        """Take in the keys of the next batch; False, and nothing is taken, if there is no room for them. Raises
        ProtocolError."""
        if not header.is_control and header.record_count:
            if not self.has_room_for(header.record_count):
                return False
            if aborted.find(header) is None:
                for record in decode_records(batch):
                    if record.key is not None:
                        self.put(record.key, record.offset)
        self.latest_offset = header.last_offset
        return True

    def has_room_for(self, count: int) -> bool:
        """Whether `count` more keys fit. An empty map takes a batch of any size: the round could not begin without."""
        return not self._offsets or len(self._offsets) + count <= self._capacity

    def put(self, key: bytes, offset: int) -> None:
        self._offsets[_shortened(key)] = offset

    def get(self, key: bytes) -> int | None:
        """The newest offset of `key`; None if the part that was read does not have it."""
        return self._offsets.get(_shortened(key))


def _shortened(key: bytes) -> bytes:
    if len(key) <= _LONGEST_PLAIN_KEY:
        return key
    from hashlib import blake2b  # with the first long key: starting is not slowed down by it

    # As in Kafka a digest stands in for a long key: two keys with one digest are less likely than a wrong bit on disk.
    return blake2b(key, digest_size=16).digest() + b"#" * 32
