"""Puts the batches that only the journal has back into the segments of a partition, before its recovery.

Owns: the writing. Does not own: what the journal holds (`journal`), what is valid (`recovery`).
Invariants
- Idempotent: a stop at any step leaves what the next start completes.
- Bytes that lie where they belong are not written again. Where a segment lacks bytes below a span, nothing is put back
  after them: recovery then finds the log too short, and takes it offline.
"""

from collections.abc import Sequence
from uuid import UUID

from oncelog.broker.storage.local.partition_directory import PARTITION_METADATA, encode_partition_metadata
from oncelog.broker.storage.local.segment import LOG_SUFFIX, file_name
from oncelog.broker.storage.local.segments import write_file
from oncelog.broker.storage.sections import Span
from oncelog.broker.turns.ports import Disk, File


def put_back(
    disk: Disk, directory: str, topic_id: UUID, spans: Sequence[Span], log_start_offset: int, *, only_extend: bool
) -> int:
    """Returns how many bytes were missing; all spans are durable in their segments then. Raises OSError. A segment that
    was deleted below the log start stays deleted, unless it is whole here: the snapshot after it may be lost.

    `only_extend`: it is unknown which spans are obsolete, and compaction may have changed the segments of such, so only
    the last segment is touched, which it never changes, and only at its end."""
    if not spans:
        return 0
    _make_directory(disk, directory, topic_id)
    names = disk.list_dir(directory)
    last_name = max([file_name(spans[-1].segment_base, LOG_SUFFIX), *filter(_is_segment, names)])
    files: dict[int, File] = {}
    missing_bytes = 0
    for span in spans:
        file = files.get(span.segment_base)
        if file is None:
            name = file_name(span.segment_base, LOG_SUFFIX)
            is_gone = name not in names and span.position > 0
            if is_gone and span.next_offset <= log_start_offset:
                continue
            if is_gone or (only_extend and name != last_name):
                break
            file = files[span.segment_base] = disk.open(f"{directory}/{name}")
        if file.size_bytes < span.position:
            break
        found = file.read_view(span.position, span.position + len(span.data))
        if only_extend and found != span.data[: len(found)]:
            break
        if found != span.data:
            _write(file, span)
            missing_bytes += len(span.data)
    for file in files.values():
        _sync(file)
    disk.sync_dir(directory)
    return missing_bytes


def _make_directory(disk: Disk, directory: str, topic_id: UUID) -> None:
    if not disk.exists(directory):
        disk.make_dir(directory)
        disk.sync_dir("")
        _sync(write_file(disk, f"{directory}/{PARTITION_METADATA}", encode_partition_metadata(topic_id)))


def _is_segment(name: str) -> bool:
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
