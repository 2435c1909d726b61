"""The batches of a log that do not have the records which they announce, for `oncelog log verify --records`.

Owns: going through the batches of files. Does not own: the verdict on one batch (`broker.log.batch_validation`), what
is printed (`report`). A checksum proves that a batch is as it was written, and nothing of what its producer has put
into compressed data: one that lacks records is found only by counting them.
"""

from collections.abc import Iterable, Iterator

from oncelog.broker.log.batch_validation import stored_problem
from oncelog.broker.storage.local.batch_scan import BatchScan
from oncelog.broker.storage.local.segment import LOG_SUFFIX, Segment
from oncelog.broker.storage.local.survey import LostRange
from oncelog.broker.turns.ports import Disk
from oncelog.protocol.records.batch import BatchHeader


def incomplete_batches(disk: Disk, segments: Iterable[Segment]) -> Iterator[LostRange]:
    """Yield those of a log that recovery has accepted. Raises OSError."""
    for segment in segments:
        path = segment.path(LOG_SUFFIX)
        yield from incomplete_of(_scanned(disk, path, segment), path)


def _scanned(disk: Disk, path: str, segment: Segment) -> BatchScan:
    def read_view(start: int, end: int) -> memoryview:
        return memoryview(disk.read_range(path, start, end))

    return BatchScan(read_view, segment.size_bytes, segment.base_offset, has_gaps=True)


def incomplete_of(scan: BatchScan, file: str) -> Iterator[LostRange]:
    """Yield those of the whole batches that a scan finds."""
    for header, batch in scan:
        found = incomplete(header, batch, file, scan.position - len(batch))
        if found is not None:
            yield found


def incomplete(header: BatchHeader, batch: memoryview, file: str, position: int) -> LostRange | None:
    """Return the place of a batch, and why its records are not those that it announces; None if they are."""
    problem = stored_problem(batch, header)
    return None if problem is None else LostRange(header.base_offset, header.next_offset, file, position, problem)
