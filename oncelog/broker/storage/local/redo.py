"""Puts the batches that only the journal has back into the segments of a partition, before its recovery.

Owns: what is missing where, and the writing. Does not own: what the journal holds (`journal`), whose it is
(`left_journal`), what is valid (`recovery`).
Invariants
- Decided first, written after: a plan reads, and changes nothing.
- No whole batch is overwritten with another one: where a segment has one and the journal another at the same offset,
  nothing of that log is put back.
- Idempotent: a stop at any step leaves what the next start completes.
- Bytes that lie where they belong are not written again. Where a segment lacks bytes below a span, nothing is put back
  after them: recovery then finds the log too short, and takes it offline.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from uuid import UUID

from oncelog.broker.storage.local.batch_scan import BatchScan
from oncelog.broker.storage.local.partition_directory import PARTITION_METADATA, encode_partition_metadata
from oncelog.broker.storage.local.segment import LOG_SUFFIX, file_name
from oncelog.broker.storage.local.segments import write_file
from oncelog.broker.storage.sections import Span
from oncelog.broker.turns.ports import Disk, File
from oncelog.protocol.records.batch import iter_batches

_EPOCH_START, _EPOCH_END = 12, 16
"""The leader epoch of a batch, which its checksum does not cover: damaged there it is the same batch."""


@dataclass(slots=True)
class Plan:
    """The comparison of one log's spans with its segments: the spans to write, and any contradiction."""

    directory: str
    names: tuple[str, ...] = ()
    """The names of the segments that have spans."""
    missing: list[Span] = field(default_factory=list)
    is_matched: bool = False
    """A span is in its segment as the journal has it."""
    contradiction: str | None = None
    """Where a segment and the journal have different batches of the same offset."""


def plan(disk: Disk, directory: str, spans: Sequence[Span], log_start_offset: int, *, only_extend: bool) -> Plan:
    """Find what the segments lack of the spans. Raises OSError. A segment that was deleted below the log start stays
    deleted, unless it is whole here: the snapshot after it may be lost.

    `only_extend`: it is unknown which spans are obsolete, and compaction may have changed the segments of such, so only
    the last segment is touched, which it never changes, and only at its end."""
    planned = Plan(directory)
    if not spans:
        return planned
    names = disk.list_dir(directory)
    last_name = max([file_name(spans[-1].segment_base, LOG_SUFFIX), *filter(is_segment, names)])
    areas: dict[str, _Area] = {}
    for span in spans:
        name = file_name(span.segment_base, LOG_SUFFIX)
        area = areas.get(name)
        if area is None:
            is_gone = name not in names and span.position > 0
            if is_gone and span.next_offset <= log_start_offset:
                continue
            if is_gone or (only_extend and name != last_name):
                break
            file = disk.open(f"{directory}/{name}") if name in names else None
            area = areas[name] = _Area(name, file, span.segment_base)
        if area.size_bytes < span.position or not _take(planned, area, span, only_extend=only_extend):
            break
    for area in areas.values():
        area.close()
    planned.names = tuple(areas)
    return planned


def _take(planned: Plan, area: "_Area", span: Span, *, only_extend: bool) -> bool:
    """Add the next span to the plan; False if neither it nor those after it can be put back."""
    found = area.read(span.position, span.position + len(span.data))
    if found == span.data:
        planned.is_matched = True
    else:
        differing = area.other_batch(span)
        if differing is not None:
            planned.missing = []
            planned.contradiction = (
                f"{planned.directory}/{area.name} has another batch of offset {differing} than the journal"
            )
            return False
        if only_extend and found != span.data[: len(found)]:
            return False
        planned.missing.append(span)
    area.on_span(span)
    return True


class _Area:
    """A segment as it will be when what is planned is written."""

    def __init__(self, name: str, file: File | None, base_offset: int) -> None:
        self.name = name
        self._file = file
        self._base_offset = base_offset
        self._boundary = 0
        """Up to here it has whole batches, the next one begins at `_base_offset` or later."""
        self.size_bytes = file.size_bytes if file is not None else 0

    def read(self, start: int, end: int) -> memoryview:
        if self._file is None:
            return memoryview(b"")
        return self._file.read_view(start, min(end, self.size_bytes))

    def on_span(self, span: Span) -> None:
        """It has this span, or will."""
        self._boundary, self._base_offset = span.position + len(span.data), span.next_offset
        self.size_bytes = max(self.size_bytes, self._boundary)

    def other_batch(self, span: Span) -> int | None:
        """The offset of the first whole batch here that the span would overwrite with something else."""
        end = span.position + len(span.data)
        if self.size_bytes <= span.position:
            return None
        scan = BatchScan(self.read, self.size_bytes, self._base_offset, has_gaps=True, position=self._boundary)
        for header, batch in scan:
            start = scan.position - len(batch)
            if start >= end and self.size_bytes >= end:
                return None
            if scan.position > span.position and not _has(span, start, batch):
                return header.base_offset
        # Behind damage: at least where the journal has batches.
        at = span.position
        for header, batch in iter_batches(memoryview(span.data)):
            if at >= scan.position:
                behind = BatchScan(self.read, self.size_bytes, header.base_offset, has_gaps=False, position=at)
                if any(not _has(span, at, found) for _, found in islice(behind, 1)):
                    return header.base_offset
            at += len(batch)
        return None

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def _has(span: Span, position: int, batch: memoryview) -> bool:
    """Whether this is a batch of the span, of the same place."""
    at = position - span.position
    if at < 0:
        return False
    same = memoryview(span.data)[at : at + len(batch)]
    return same[:_EPOCH_START] == batch[:_EPOCH_START] and same[_EPOCH_END:] == batch[_EPOCH_END:]


def put_back(disk: Disk, planned: Plan, topic_id: UUID) -> int:
    """Write what is missing; return how many bytes. All spans of the plan are durable in their segments then. Raises
    OSError."""
    directory = planned.directory
    _make_directory(disk, directory, topic_id)
    files = {name: disk.open(f"{directory}/{name}") for name in planned.names}
    for span in planned.missing:
        _write(files[file_name(span.segment_base, LOG_SUFFIX)], span)
    for file in files.values():
        _sync(file)
    disk.sync_dir(directory)
    return sum(len(span.data) for span in planned.missing)


def _make_directory(disk: Disk, directory: str, topic_id: UUID) -> None:
    if not disk.exists(directory):
        disk.make_dir(directory)
        disk.sync_dir("")
        _sync(write_file(disk, f"{directory}/{PARTITION_METADATA}", encode_partition_metadata(topic_id)))


def is_segment(name: str) -> bool:
    return name.endswith(LOG_SUFFIX)


def _write(file: File, span: Span) -> None:
    if file.size_bytes >= span.position + len(span.data):
        file.overwrite(span.position, span.data)  # recovery reports what lies after it
    else:
        file.truncate(span.position)
        file.append([span.data])


def _sync(file: File) -> None:
    file.sync()
    file.close()
