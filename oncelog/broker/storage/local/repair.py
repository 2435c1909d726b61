"""Makes a damaged partition usable again, after its survey: whole batches stay, empty ones replace lost records.

Owns: the order of the file operations. Invariants
- A crash at any step leaves each `.log` as it was or as it should be, and repairing again completes the work.
- No byte is lost: each file that changes is first copied to one beside it that ends in `.damaged`.
- No offset is reused: an empty batch holds the offsets of lost records, as after compaction.
"""

from collections.abc import Iterable

from oncelog.broker.log.leader_epochs import UNDEFINED_EPOCH
from oncelog.broker.storage.local.segment import LOG_SUFFIX, file_name
from oncelog.broker.storage.local.segment_manifest import INDEX_SUFFIXES
from oncelog.broker.storage.local.segment_manifest import NAME as MANIFEST
from oncelog.broker.storage.local.survey import FileSurvey, FillerRange, KeptRange, Survey
from oncelog.broker.storage.producer_snapshot import SUFFIXES as SNAPSHOT_SUFFIXES
from oncelog.broker.turns.ports import Disk
from oncelog.protocol.records.batch import assemble_batch

_DAMAGED_SUFFIX = ".damaged"
_REPAIRED_SUFFIX = ".repaired"
_COPY_BYTES = 1024 * 1024
_LONGEST_FILL = 2**31


def repair_partition(disk: Disk, survey: Survey) -> list[str]:
    """Apply the survey; returns the names of the copies of changed files. Raises OSError."""
    directory = survey.directory
    if not disk.exists(directory):
        disk.make_dir(directory)
        disk.sync_dir("")
    kept: list[str] = []
    # No index or manifest may cover a file about to change; the next recovery reads every batch and rebuilds them.
    _delete_derived(disk, survey)
    # The last file first: until the first damage is repaired, a survey after a crash trusts later batches no more
    # than this one does.
    for file in reversed(survey.files):
        if not file.is_whole:
            kept += _rewrite(disk, directory, file)
    disk.sync_dir(directory)
    return kept


def _delete_derived(disk: Disk, survey: Survey) -> None:
    first_lost = min((lost.first_offset for lost in survey.lost), default=survey.end_offset)
    names = [MANIFEST]
    for file in survey.files:
        if not file.is_whole:
            names += [file_name(file.base_offset, suffix) for suffix in INDEX_SUFFIXES]
    for name in disk.list_dir(survey.directory):
        # A snapshot after the damage includes transactions whose end is lost.
        if name.endswith(SNAPSHOT_SUFFIXES) and name[:20].isdecimal() and int(name[:20]) > first_lost:
            names.append(name)
    for name in names:
        disk.delete(f"{survey.directory}/{name}")
    disk.sync_dir(survey.directory)


def _rewrite(disk: Disk, directory: str, file: FileSurvey) -> list[str]:
    path = f"{directory}/{file_name(file.base_offset, LOG_SUFFIX)}"
    kept: list[str] = []
    if file.size_bytes is not None:
        kept.append(_copy_aside(disk, directory, file))
    repaired = disk.open(f"{path}{_REPAIRED_SUFFIX}")
    repaired.truncate(0)
    for part in file.parts:
        match part:
            case KeptRange(start, end):
                for at in range(start, end, _COPY_BYTES):
                    repaired.append([disk.read_range(path, at, min(end, at + _COPY_BYTES))])
            case FillerRange(first_offset, next_offset):
                repaired.append(list(_empty_batches(first_offset, next_offset)))
    repaired.sync()
    repaired.close()
    disk.rename(f"{path}{_REPAIRED_SUFFIX}", path)
    disk.sync_dir(directory)
    return kept


def _copy_aside(disk: Disk, directory: str, file: FileSurvey) -> str:
    path = f"{directory}/{file_name(file.base_offset, LOG_SUFFIX)}"
    aside = f"{path}{_DAMAGED_SUFFIX}"
    number = 1
    while disk.exists(aside):
        number += 1
        aside = f"{path}{_DAMAGED_SUFFIX}.{number}"
    copy = disk.open(aside)
    for at in range(0, file.size_bytes or 0, _COPY_BYTES):
        copy.append([disk.read_range(path, at, at + _COPY_BYTES)])
    copy.sync()
    copy.close()
    disk.sync_dir(directory)
    return aside


def _empty_batches(first_offset: int, next_offset: int) -> Iterable[bytes]:
    while first_offset < next_offset:
        count = min(next_offset - first_offset, _LONGEST_FILL)
        yield assemble_batch(
            b"",
            attributes=0,
            record_count=0,
            base_timestamp=-1,
            max_timestamp=-1,
            base_offset=first_offset,
            partition_leader_epoch=UNDEFINED_EPOCH,
            last_offset_delta=count - 1,
        )
        first_offset += count
