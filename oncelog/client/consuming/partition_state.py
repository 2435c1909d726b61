"""One assigned partition: its position, and what is fetched of it and not yet taken.

Owns: the chunks, one for each response, and which of their batches a reader may see. Does not own: requests, and when
the partition may be fetched again (`fetcher`, which sets `muted_until_s` and the preferred node). Invariants: the
position only moves past records that were taken or that no reader may see (markers, aborted records); records are
decoded when taken, batch by batch.
"""

from collections import deque
from collections.abc import Iterable

from oncelog.client.consuming.isolation import AbortedTransactions
from oncelog.client.values.errors import CorruptBatch, KafkaError
from oncelog.client.values.records import Record, TopicPartition
from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.generated.fetch_response import PartitionData
from oncelog.protocol.records.batch import BatchHeader, check_crc, decode_batch, iter_batches

_CHUNKS_AHEAD = 2
"""Responses buffered per partition: one to take from, one behind it."""


class Chunk:
    """One response for a partition: the visible batches, and the offset after all of them."""

    __slots__ = ("batches", "next_offset", "records", "size_in_bytes", "taken")

    def __init__(self, batches: "deque[tuple[BatchHeader, memoryview]]", next_offset: int, size_in_bytes: int) -> None:
        self.batches = batches
        self.next_offset = next_offset
        self.size_in_bytes = size_in_bytes
        """The size of the whole response, which is kept until the last batch is taken."""
        self.records: list[Record] = []
        """The current decoded batch, taken up to `taken`."""
        self.taken = 0


class PartitionState:
    """One assigned partition."""

    __slots__ = (
        "chunks",
        "error",
        "high_watermark",
        "last_stable_offset",
        "log_start_offset",
        "muted_until_s",
        "next_fetch_offset",
        "out_of_range",
        "paused",
        "position",
        "preferred_node",
        "preferred_until_s",
        "start",
        "topic_partition",
    )

    def __init__(self, topic_partition: TopicPartition) -> None:
        self.topic_partition = topic_partition
        self.position = -1
        """The next offset to take; -1 while unknown."""
        self.start = -1
        """Where reading began, or where the program moved to; -1 until then."""
        self.next_fetch_offset = -1
        self.chunks: deque[Chunk] = deque()
        self.paused = False
        self.out_of_range = False
        self.muted_until_s = 0.0
        self.preferred_node = -1
        """The replica that the leader prefers for reads (KIP-392); -1 is the leader itself."""
        self.preferred_until_s = 0.0
        self.error: KafkaError | None = None
        """The error of the last Fetch, behind the chunks; nothing more is fetched until it is raised."""
        self.high_watermark = -1
        self.last_stable_offset = -1
        self.log_start_offset = -1

    @property
    def is_wanted(self) -> bool:
        """Whether more of it is fetched: its position is known, it is neither paused nor failed, and little of it is
        buffered."""
        if self.paused or self.position < 0 or self.out_of_range or self.error is not None:
            return False
        return not self.is_full

    @property
    def is_full(self) -> bool:
        """Whether enough of it is buffered."""
        return len(self.chunks) >= _CHUNKS_AHEAD

    def buffered_records(self) -> tuple[int, bool]:
        """How many records are fetched and not taken, and whether that is exact: of a batch that begins below the
        position, the offsets count."""
        count, is_exact = 0, True
        for chunk in self.chunks:
            count += len(chunk.records) - chunk.taken
            for header, _ in chunk.batches:
                if header.base_offset >= self.position:
                    count += header.record_count
                else:
                    count += min(header.record_count, header.next_offset - self.position)
                    is_exact = is_exact and header.record_count == header.next_offset - header.base_offset
        return count, is_exact

    def seek(self, offset: int) -> None:
        self.position = self.next_fetch_offset = offset
        self.chunks.clear()
        self.out_of_range = False
        self.error = None

    def on_offsets(self, data: PartitionData) -> None:
        """Note where the log begins and ends, by a response of its leader."""
        self.high_watermark = data.high_watermark
        self.last_stable_offset = data.last_stable_offset
        self.log_start_offset = data.log_start_offset

    def add(self, records: memoryview, aborted: Iterable[tuple[int, int]]) -> None:
        """Buffer the batches of a response, with the (producer id, first offset) pairs that it lists as aborted.
        Raises CorruptBatch, and buffers what is whole before that."""
        transactions = AbortedTransactions(aborted)
        visible: deque[tuple[BatchHeader, memoryview]] = deque()
        next_offset = self.next_fetch_offset
        try:
            for header, batch in iter_batches(records):
                batch_end = header.next_offset
                # Without an aborted list only control batches are hidden.
                if not transactions.hides(header, batch) and batch_end > self.next_fetch_offset:
                    visible.append((header, batch))
                next_offset = max(next_offset, batch_end)
            if next_offset == self.next_fetch_offset:
                # A broker sends the first batch whole, whatever its size (KIP-74).
                raise ProtocolError("no whole batch")
        except ProtocolError as error:
            raise CorruptBatch(f"{self.topic_partition} at or after offset {next_offset}: {error}") from error
        finally:
            if next_offset > self.next_fetch_offset:
                self.next_fetch_offset = next_offset
                self.chunks.append(Chunk(visible, next_offset, len(records)))

    def take(self, max_records: int, taken: list[Record], *, check_crcs: bool) -> None:
        """Add records to `taken` until it has `max_records`; the position moves past them and past hidden batches.
        Raises CorruptBatch; what was buffered behind it is fetched again, in case that it was damaged on its way."""
        while self.chunks:
            chunk = self.chunks[0]
            while True:
                room = max_records - len(taken)
                left = len(chunk.records) - chunk.taken
                if left > room:
                    taken += chunk.records[chunk.taken : chunk.taken + room]
                    chunk.taken += room
                    self.position = chunk.records[chunk.taken].offset
                    return
                taken += chunk.records[chunk.taken :] if chunk.taken else chunk.records
                if chunk.records:
                    self.position = chunk.records[-1].offset + 1
                chunk.records, chunk.taken = [], 0
                if not chunk.batches:
                    break
                if room == left:
                    return
                header, batch = chunk.batches[0]
                try:
                    chunk.records = self._decode(header, batch, check_crcs)
                except CorruptBatch:
                    self.chunks.clear()
                    self.next_fetch_offset = self.position
                    raise
                chunk.batches.popleft()
            self.position = chunk.next_offset
            self.chunks.popleft()

    def _decode(self, header: BatchHeader, batch: memoryview, check_crcs: bool) -> list[Record]:
        if check_crcs and not check_crc(batch):
            raise self._corrupt(header, "fails its checksum")
        try:
            records = decode_batch(header, batch, Record, self.topic_partition)
        except ProtocolError as error:
            raise self._corrupt(header, f"cannot be decoded: {error}") from error
        if header.base_offset >= self.position:
            return records
        # A batch is fetched whole, even if only its end was requested.
        return [each for each in records if each.offset >= self.position]

    def _corrupt(self, header: BatchHeader, problem: str) -> CorruptBatch:
        topic, partition = self.topic_partition
        return CorruptBatch(f"the batch in {topic}-{partition} at offset {header.base_offset} {problem}")
