"""The newest offset of each key in the dirty part of a log.

Owns: the map of one round, bounded; which batches have no records that could be read. Invariant: the map is complete up
to `latest_offset`, but for the keys in such batches, which delete nothing; it says nothing about records above that.
"""

from oncelog.broker.storage.compaction.transactions import AbortedTransactions
from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.records.batch import BatchHeader, check_crc
from oncelog.protocol.records.record import Record, decode_records

_LONGEST_PLAIN_KEY = 32
_BYTES_PER_ENTRY = 160
"""A key of about twenty bytes, its offset and its share of the hash table."""


class OffsetMap:
    __slots__ = ("_capacity", "_offsets", "latest_offset", "undecodable")

    def __init__(self, memory_bytes: int) -> None:
        self._capacity = max(1, memory_bytes // _BYTES_PER_ENTRY)
        self._offsets: dict[bytes, int] = {}
        self.latest_offset = -1
        self.undecodable: dict[int, str] = {}
        """The base offsets of batches whose checksum is right and whose records cannot be read, and why."""

    def __len__(self) -> int:
        return len(self._offsets)

    def read(self, header: BatchHeader, batch: memoryview, aborted: AbortedTransactions) -> bool:
        """Add the keys of the next batch; returns False and adds none if they do not fit. Raises ProtocolError."""
        if not header.is_control and header.record_count:
            if not self.has_room_for(header.record_count):
                return False
            if aborted.find(header) is None:
                for record in self.decode(header, batch) or ():
                    if record.key is not None:
                        self.put(record.key, record.offset)
        self.latest_offset = header.last_offset
        return True

    def decode(self, header: BatchHeader, batch: memoryview) -> list[Record] | None:
        """The records of a batch; None if a producer has sent it like that: not as many as it announces, say, to a
        topic that was not compacted then. Raises ProtocolError for one that is damaged."""
        try:
            return decode_records(batch)
        except ProtocolError as problem:
            if not check_crc(batch):
                raise
            self.undecodable[header.base_offset] = str(problem)
            return None

    def has_room_for(self, count: int) -> bool:
        """Whether `count` more keys fit. An empty map accepts any batch: otherwise the round could not begin."""
        return not self._offsets or len(self._offsets) + count <= self._capacity

    def put(self, key: bytes, offset: int) -> None:
        self._offsets[_shortened(key)] = offset

    def get(self, key: bytes) -> int | None:
        """The newest offset of `key`; None if it is not in the dirty part."""
        return self._offsets.get(_shortened(key))


def _shortened(key: bytes) -> bytes:
    if len(key) <= _LONGEST_PLAIN_KEY:
        return key
    from hashlib import blake2b  # at the first long key, to keep startup fast

    # As in Kafka a digest replaces a long key: a collision is less likely than a bit error on disk.
    return blake2b(key, digest_size=16).digest() + b"#" * 32
