"""`oncelog log import`: a data directory into empty tables.

Owns: what of the files goes where. Does not own: that all of it happens or nothing
(`broker.storage.postgres.snapshot.PostgresImport`). The directory is read as a read-only broker reads it: recovered in
memory, and never written. Invariant: each byte is compared with the checksum that it was written with.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from oncelog.broker.log.leader_epochs import EpochStart
from oncelog.broker.log.partition_log import PartitionLog
from oncelog.broker.log.store import LOGIN_SECRET
from oncelog.broker.storage.disk_errors import trouble
from oncelog.broker.storage.local.checkpoints import LEADER_EPOCHS, parse_leader_epochs
from oncelog.broker.storage.local.overlay_disk import OverlayDisk
from oncelog.broker.storage.local.partition_directory import directory_of
from oncelog.broker.storage.local.reader import iterate_batches
from oncelog.broker.storage.local.segment import LOG_SUFFIX, Segment
from oncelog.broker.storage.memory.memory_log import MemorySegment
from oncelog.broker.storage.producer_snapshot import SUFFIX as SNAPSHOT_SUFFIX
from oncelog.broker.storage.producer_snapshot import encode_snapshot, open_producers
from oncelog.broker.storage.sections import LogKey
from oncelog.broker.storage.shared.chunks import CHUNK_BYTES, ChunkWriter
from oncelog.broker.storage.shared.cleaned import PATH as CLEANED
from oncelog.broker.storage.shared.cleaned import encode_cleaned
from oncelog.broker.storage.shared.statements import Statements
from oncelog.broker.storage.shared.tables import Checkpoint, LogRow, MoveStarts, NewChunk, Tables, WriteBlob
from oncelog.broker.storage.transaction_index import TransactionIndex
from oncelog.broker.system.clock import SystemClock
from oncelog.broker.turns.ports import Disk, MonotonicMs
from oncelog.protocol.checksum import crc32c
from oncelog.protocol.errors import KafkaError
from oncelog.protocol.topics import METADATA_TOPIC
from oncelog.tools.log.stopped_directory import NoLoop, StoppedDirectory

_NEVER = MonotonicMs(0)
_HALF = 0
"""The half of the journal to which the next round goes; the journal is empty."""


class CannotImport(Exception):
    """The directory is not whole; the message says why, and what to do."""

    def __init__(self, message: str, *, is_damaged: bool = True) -> None:
        super().__init__(message)
        self.is_damaged = is_damaged


@dataclass
class _ChunkSegment:
    """The fields of a segment that its chunks repeat."""

    base_offset: int
    first_timestamp: int
    open_producers: frozenset[int]
    transaction_index: TransactionIndex


class Source:
    """A data directory that no broker serves."""

    def __init__(self, disk: Disk) -> None:
        """Recovers it in memory. Raises CannotImport."""
        self.disk = OverlayDisk(disk)
        try:
            self.directory = StoppedDirectory(self.disk)
            self.directory.recover()
        except KafkaError as error:
            raise CannotImport(f"the metadata log cannot be replayed: {error}; restore it from a copy") from error
        except OSError as error:
            raise CannotImport(trouble(error)) from error
        self.logs = [log for log in self.directory.logs.logs if log.log_end_offset]
        offline = [log.offline_error for log in self.directory.logs.logs if log.offline_error is not None]
        if offline:
            raise CannotImport(
                f"{offline[0]}: {len(offline)} damaged; `oncelog log verify` shows what is lost, and "
                "`oncelog log repair` makes the rest usable"
            )
        if self.directory.store.durability.may_be_lost:
            raise CannotImport(
                "the machine has stopped while a broker served it, which its next start must settle: start and stop "
                "`oncelog serve` on it once",
                is_damaged=False,
            )

    @property
    def size_bytes(self) -> int:
        return sum(log.size_bytes for log in self.logs)

    def epochs_of(self, log: PartitionLog) -> tuple[EpochStart, ...]:
        """Return the epochs of a log; the file of an empty one knows where the last that had records began."""
        path = f"{log.name}/{LEADER_EPOCHS}"
        if log.log_start_offset == log.log_end_offset and self.disk.exists(path):
            written = (parse_leader_epochs(self.disk.read_bytes(path)) or ())[-1:]
            if written and written[0][0] == log.epochs.latest:
                return written
        return log.epochs.entries

    def cleaned(self) -> dict[LogKey, int]:
        """How far each log was compacted."""
        offsets = {log: self.directory.cleaned.get(log.topic, log.partition) for log in self.logs}
        return {(log.topic_id, log.partition): offset for log, offset in offsets.items() if offset}

    def blobs(self) -> Iterator[tuple[str, bytes]]:
        """Beside the logs: the snapshots of the metadata log, the login secret, how far logs were compacted."""
        yield CLEANED, encode_cleaned(self.cleaned())
        folder = directory_of(METADATA_TOPIC, 0)
        names = [f"{folder}/{name}" for name in self.disk.list_dir(folder) if name.endswith(".checkpoint")]
        for path in (*names, LOGIN_SECRET):
            if self.disk.exists(path):
                yield path, self.disk.read_bytes(path)


def fill(source: Source, tables: Tables, epoch: int, on_written: Callable[[int], None] = lambda _: None) -> None:
    """Write all of it, under the lease of this epoch; `on_written` is called with the bytes so far. Raises
    CannotImport, OSError."""
    write = Statements(tables, NoLoop(), SystemClock()).write_now
    writer = ChunkWriter(epoch, CHUNK_BYTES)

    def chunks() -> Iterator[NewChunk]:
        written_bytes = 0
        for log in source.logs:
            try:
                for chunk in _chunks_of(source, log, writer):
                    yield chunk
                    written_bytes += chunk.row.size_bytes
                    on_written(written_bytes)
            except KafkaError as error:
                raise CannotImport(f"{log.name}: {error.message}; `oncelog log verify` shows what is lost") from error

    write(Checkpoint(epoch, 0, _HALF, (_row_of(source, log) for log in source.logs), chunks()))
    starts = {(log.topic_id, log.partition): log.log_start_offset for log in source.logs if log.log_start_offset}
    write(MoveStarts(epoch, starts))
    for path, data in source.blobs():
        write(WriteBlob(epoch, path, data))


def _row_of(source: Source, log: PartitionLog) -> LogRow:
    snapshot = encode_snapshot(log.producer_state)
    return LogRow(
        (log.topic_id, log.partition),
        log.topic,
        log.log_end_offset,
        source.epochs_of(log),
        snapshot.rows,
        snapshot.batches,
    )


def _chunks_of(source: Source, log: PartitionLog, writer: ChunkWriter) -> Iterator[NewChunk]:
    """Raises KafkaError, CannotImport, OSError."""
    segments, key = source.directory.store.get(log.topic, log.partition).segments, (log.topic_id, log.partition)
    for segment in segments:
        if segment.next_offset == segment.base_offset:
            continue  # what comes would be in it
        whole = _ChunkSegment(
            segment.base_offset, segment.first_timestamp, _open_at(source, segment), segment.transaction_index
        )
        piece, crc = MemorySegment(segment.base_offset, whole.open_producers, _NEVER), 0
        for header, batch in iterate_batches(segments, segment.base_offset, segment.next_offset):
            if piece.size_bytes and piece.size_bytes + len(batch) > CHUNK_BYTES:
                yield from writer.split(key, whole, piece, piece.next_offset)
                piece = MemorySegment(piece.next_offset, whole.open_producers, _NEVER)
            crc = crc32c(batch, crc)
            piece.append(bytes(batch), header.next_offset, header.max_timestamp if header.record_count else -1)
        if crc != segment.crc:
            raise CannotImport(
                f"{segment.path(LOG_SUFFIX)} has the wrong checksum; `oncelog log verify` shows what is lost"
            )
        yield from writer.split(key, whole, piece, segment.next_offset)


def _open_at(source: Source, segment: Segment) -> frozenset[int]:
    """The producers with a transaction open at its base; recovery has made the snapshot if it was missing."""
    path = segment.path(SNAPSHOT_SUFFIX)
    if source.disk.exists(path):
        with suppress(ValueError):
            return frozenset(open_producers(source.disk.read_bytes(path)))
    return frozenset()
