"""The files of one log, as a round of compaction rewrites them.

Owns: the cleaned file, until it is in place. What must block on the disk runs off the loop.
"""

from collections.abc import Callable, Iterator, Sequence

from oncelog.broker.log.log_config import LogConfig
from oncelog.broker.log.store import Batches
from oncelog.broker.storage.compaction.compaction_round import Slice
from oncelog.broker.storage.local.deferred import Deferred
from oncelog.broker.storage.local.local_log import LocalLog
from oncelog.broker.storage.local.reader import replay_pieces
from oncelog.broker.storage.local.segment import Segment
from oncelog.broker.storage.local.swap import CLEANED_SUFFIX
from oncelog.broker.storage.producer_snapshot import SUFFIX as SNAPSHOT_SUFFIX
from oncelog.broker.storage.producer_snapshot import open_producers
from oncelog.broker.turns.ports import Disk

_SYNC_BYTES = 8 * 1024 * 1024


class LocalRewriting:
    def __init__(self, log: LocalLog, config: LogConfig, disk: Disk, secure: Callable[[LocalLog, int], None]) -> None:
        """`secure` is called before a segment with gaps is put in place."""
        self._log = log
        self._config = config
        self._disk = disk
        self._secure = secure

    def prepare(self) -> Slice:
        return None

    @property
    def segments(self) -> Sequence[Segment]:
        return list(self._log.segments)

    def pieces(self, from_offset: int, to_offset: int) -> Iterator[Batches | Slice]:
        for piece in replay_pieces(self._log.segments, from_offset, to_offset):
            yield piece.run if isinstance(piece, Deferred) else piece

    def index_bytes_of(self, segment: Segment) -> int:
        return segment.index.size_bytes

    def output(self, group: Sequence[Segment]) -> "CleanedFile":
        producers = self._open_producers(group[0])
        self._disk.delete(group[0].path(CLEANED_SUFFIX))
        new = Segment(self._disk, group[0].directory, group[0].base_offset, group[-1].created_ms, suffix=CLEANED_SUFFIX)
        return CleanedFile(new, self._config.index_interval_bytes, producers)

    def _open_producers(self, segment: Segment) -> set[int]:
        """Return the open producers by the snapshot before `segment`; empty if recovery would not use it."""
        path = segment.path(SNAPSHOT_SUFFIX)
        try:
            return open_producers(self._disk.read_bytes(path)) if self._disk.exists(path) else set()
        except ValueError:
            return set()

    def finish(self, group: Sequence[Segment], output: "CleanedFile") -> Iterator[Slice]:
        new = output.segment
        new.has_gaps = True
        new.next_offset = group[-1].next_offset
        yield new.file.sync
        while self._log.is_flushing(group):
            yield None

    def put_in_place(self, group: Sequence[Segment], output: "CleanedFile") -> Iterator[Slice]:
        self._secure(self._log, output.segment.next_offset)
        self._log.replace_segments(list(group), output.segment)
        yield from ()

    def discard(self, output: "CleanedFile") -> None:
        output.segment.file.close()
        self._disk.delete(output.segment.path(CLEANED_SUFFIX))


class CleanedFile:
    """A segment that is written beside those that it replaces."""

    __slots__ = ("_index_interval_bytes", "_unsynced_bytes", "open_producers", "segment", "transaction_index")

    def __init__(self, segment: Segment, index_interval_bytes: int, open_producers: set[int]) -> None:
        self.segment = segment
        self.open_producers = open_producers
        self.transaction_index = segment.transaction_index
        self._index_interval_bytes = index_interval_bytes
        self._unsynced_bytes = 0

    def append(self, batch: bytes, next_offset: int, timestamp: int, /) -> Slice:
        self.segment.append((batch,), len(batch), next_offset, timestamp, self._index_interval_bytes)
        self._unsynced_bytes += len(batch)
        if self._unsynced_bytes < _SYNC_BYTES:
            return None
        # A single sync of the whole file at its end would delay the flush rounds of all logs.
        self._unsynced_bytes = 0
        return self.segment.file.sync
