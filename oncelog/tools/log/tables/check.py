"""`oncelog log verify` over tables: what a start would find, and what is lost.

Owns: going through all of it, the verdict on one partition. Does not own: what is printed (`oncelog.tools.log.cli`).
Invariant: a batch counts as intact only if its chunk has its checksum, and it its own.
"""

from collections.abc import Callable, Sequence

from oncelog.broker.log.partition_log import PartitionLog
from oncelog.broker.storage.local.batch_scan import BatchScan
from oncelog.broker.storage.local.survey import LostRange, Survey
from oncelog.broker.storage.producer_snapshot import load_batches, load_snapshot
from oncelog.broker.storage.shared.opening import FoundLog
from oncelog.broker.storage.shared.tables import ChunkRow
from oncelog.broker.storage.transaction_index import TransactionIndex
from oncelog.broker.turns.ports import MonotonicMs
from oncelog.protocol.checksum import crc32c
from oncelog.tools.log.check import Examination, Finding
from oncelog.tools.log.records import incomplete
from oncelog.tools.log.tables.content import METADATA, Place, TablesContent, TableSegment

_JOURNAL = "the journal"
_NEVER = MonotonicMs(0)


def examine(
    content: TablesContent,
    torn_rounds: Sequence[int],
    on_read: Callable[[int], None],
    *,
    opens_batches: bool = False,
) -> Examination:
    """Read all of it; `on_read` is called with the bytes so far. With `opens_batches` the records of each batch are
    counted as well. Raises KafkaError if the metadata log is inconsistent, OSError."""
    return _Examiner(content, torn_rounds, on_read, opens_batches=opens_batches).run()


class _Examiner:
    def __init__(
        self,
        content: TablesContent,
        torn_rounds: Sequence[int],
        on_read: Callable[[int], None],
        *,
        opens_batches: bool,
    ) -> None:
        self._content = content
        self._opens_batches = opens_batches
        self._on_read = on_read
        self._read_bytes = 0
        torn = [f"round {number} of the journal lacks one of its rows" for number in torn_rounds]
        self._examination = Examination(problems=[*content.problems, *torn])

    def run(self) -> Examination:
        self._examine(METADATA)
        if self._examination.damaged:
            return self._examination  # without it the other logs are unknown
        state = self._content.metadata()
        self._examination.findings[0] = self._examination.findings[0].with_notes(self._content.metadata_lines)
        for place in self._content.places(state):
            self._examine(place)
        self._examination.unknown_directories = self._content.unknown(state)
        return self._examination

    def _examine(self, place: Place) -> None:
        log = self._content.open(place)
        segments = self._content.segments_of(log)
        walk = self._walk(place, log, segments)
        lost, missing_count = walk.lost, walk.missing_count
        notes = [f"{missing_count} offsets have no records, as compaction leaves it"] if missing_count else []
        problem = (
            self._problem_of_rows(place)
            or log.offline_error
            or (f"{lost[0].file}: {lost[0].problem}" if lost else None)
        )
        survey = Survey(place.name, lost=lost, end_offset=log.log_end_offset) if problem is not None else None
        self._examination.findings.append(
            Finding(
                place.topic,
                place.partition,
                len(segments),
                log.log_start_offset,
                log.log_end_offset,
                sum(segment.size_bytes for segment in segments),
                tuple(notes),
                problem,
                survey,
                tuple(walk.incomplete),
            )
        )

    def _problem_of_rows(self, place: Place) -> str | None:
        found = self._content.found.get(place.key, FoundLog())
        try:
            if found.row is not None:
                load_batches(
                    load_snapshot(found.row.snapshot, _NEVER), found.row.snapshot, found.row.producer_batches or None
                )
        except ValueError as error:
            return f"its producers in the catalogue cannot be read: {error}"
        for row in found.chunks:
            try:
                TransactionIndex.from_bytes(row.aborted)
            except ValueError as error:
                return f"the aborted transactions of chunk {row.id} cannot be read: {error}"
        return None

    def _walk(self, place: Place, log: PartitionLog, segments: Sequence[TableSegment]) -> "Walk":
        walk = Walk(place, log, self._content.found.get(place.key, FoundLog()), opens_batches=self._opens_batches)
        for segment in segments:
            for row, body in segment.pieces():
                if row is None:
                    walk.on_tail(segment)
                else:
                    walk.on_chunk(row, body)
                    self._read_bytes += row.size_bytes
                    self._on_read(self._read_bytes)
        walk.end()
        return walk


class Walk:
    """Through one partition, in the order of offsets."""

    def __init__(self, place: Place, log: PartitionLog, found: FoundLog, *, opens_batches: bool = False) -> None:
        self.name = place.name
        self._opens_batches = opens_batches
        self._is_compacted = place.config.is_compacted
        self._row_offset = found.row.next_offset if found.row is not None else 0
        """Up to which offset the catalogue says that there are chunks."""
        self._start_offset, self._end_offset = log.log_start_offset, log.log_end_offset
        self._next_offset = log.log_start_offset
        """Where the next batch is expected, or before it: what the log starts in may begin before its start."""
        self._is_first = True
        self.missing_count = 0
        """How many offsets have no record, though the topic is not compacted now."""
        self.lost: list[LostRange] = []
        self.incomplete: list[LostRange] = []
        """Batches that were opened, and lack records."""
        if found.row is None and found.chunks:
            # Nothing says where the log ends, and who its producers are: a start takes it for empty.
            last_offset = found.chunks[-1].next_offset
            self.lost.append(
                LostRange(self._start_offset, last_offset, "the catalogue", 0, "it does not have this log")
            )

    def _expect(self, offset: int, where: str, problem: str) -> None:
        """Everything below it should have come by now."""
        if self._next_offset < offset:
            self._lose(offset, where, 0, problem)

    def _lose(self, next_offset: int, where: str, position: int, problem: str) -> None:
        self.lost.append(LostRange(self._next_offset, next_offset, where, position, problem))
        self._next_offset = next_offset

    def on_chunk(self, row: ChunkRow, body: bytes | None) -> None:
        where = f"chunk {row.id}"
        self._expect(row.base_offset, where, "what comes before it is gone")
        if row.base_offset < self._next_offset and not self._is_first:
            self.lost.append(LostRange(row.base_offset, self._next_offset, where, 0, "it overlaps the one before it"))
        if row.next_offset > self._row_offset:
            self.lost.append(LostRange(self._row_offset, row.next_offset, where, 0, "the catalogue does not have it"))
        self._is_first = False
        self._next_offset = row.base_offset
        if body is None:
            self._lose(row.next_offset, where, 0, "it is gone")
            return
        # What a chunk lacks although it has its checksum was never written into it: compaction has removed that.
        is_as_written, lost_count = crc32c(body) == row.checksum, len(self.lost)
        self._scan(memoryview(body), row.next_offset, where, has_gaps=is_as_written or self._is_compacted)
        if is_as_written:
            self._on_gap(row.next_offset)
        elif self._next_offset < row.next_offset:
            self._lose(row.next_offset, where, len(body), "it ends before")
        elif len(self.lost) == lost_count:
            self._next_offset = row.base_offset
            self._lose(row.next_offset, where, 0, "its checksum does not match, though each batch is valid")

    def on_tail(self, segment: TableSegment) -> None:
        """Check the part of a segment that the journal has."""
        self._expect(self._row_offset, "the catalogue", "no chunk holds them")
        if self._is_first:
            self._next_offset = min(self._next_offset, segment.base_offset)
        self._is_first = False
        self._scan(memoryview(segment.journal), segment.next_offset, _JOURNAL, has_gaps=False)

    def _scan(self, body: memoryview, next_offset: int, where: str, *, has_gaps: bool) -> None:
        scan = BatchScan(
            lambda start, end: body[start:end], len(body), self._next_offset, has_gaps=has_gaps, end_offset=next_offset
        )
        for header, batch in scan:
            self._on_gap(header.base_offset)
            self._next_offset = header.next_offset
            found = incomplete(header, batch, where, scan.position - len(batch)) if self._opens_batches else None
            if found is not None:
                self.incomplete.append(found)
        if scan.problem is not None:
            self._lose(next_offset, where, scan.position, scan.problem)

    def _on_gap(self, offset: int) -> None:
        if self._next_offset < offset and not self._is_compacted:
            self.missing_count += offset - self._next_offset
        self._next_offset = offset

    def end(self) -> None:
        """Everything has come."""
        self._expect(self._row_offset, "the catalogue", "no chunk holds them")
        self._expect(self._end_offset, _JOURNAL, "no round holds them")
