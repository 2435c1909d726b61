"""Replaces segments by the cleaned segment made from them.

Owns: the order of the file operations. Invariant: a crash at any step leaves the old segments or the new one, never a
mixture. The commit point is the durable rename to `BASE.END.swap`, made after the cleaned file is synced: before it a
crash loses the work, after it the next start completes the swap. The old segments are removed from the manifest first,
so that none of its entries covers a file that has changed.
"""

import re

from oncelog.broker.storage.disk_errors import is_transient
from oncelog.broker.storage.local.segment import LOG_SUFFIX, Segment, file_name
from oncelog.broker.storage.local.segment_manifest import (
    NO_SNAPSHOT,
    append_entry,
    entry_of,
    load_manifest,
    rewrite_manifest,
)
from oncelog.broker.storage.local.segments import SEGMENT_SUFFIXES
from oncelog.broker.storage.producer_snapshot import SUFFIXES as SNAPSHOT_SUFFIXES
from oncelog.broker.turns.ports import Disk, File

CLEANED_SUFFIX = ".log.cleaned"
_SWAP_SUFFIX = ".swap"
_SWAP_NAME = re.compile(r"(\d{20})\.(\d{20})\.swap\Z")


def swap_in(disk: Disk, directory: str, old: list[Segment], new: Segment) -> list[File]:
    """Replace the files of `old` by those of `new`, whose `.log.cleaned` is synced; returns files still to sync.

    Raises OSError: for lack of space or descriptors, with nothing changed; otherwise the files are as after a crash.
    """
    base_offset, next_offset = old[0].base_offset, old[-1].next_offset
    swap = f"{directory}/{file_name(base_offset, f'.{next_offset:020d}{_SWAP_SUFFIX}')}"
    replaced = _replaced(disk, directory, base_offset, next_offset)
    last = load_manifest(disk, directory).get(old[-1].base_offset)
    snapshot = last.snapshot if last is not None else NO_SNAPSHOT
    _leave_manifest(disk, directory, base_offset, next_offset)
    for segment in (*old, new):
        segment.file.close()
    disk.rename(new.path(CLEANED_SUFFIX), swap)
    try:
        disk.sync_dir(directory)
    except OSError as error:
        if is_transient(error):
            disk.rename(swap, new.path(CLEANED_SUFFIX))
        raise
    _complete(disk, directory, swap, base_offset, replaced)
    new.file = disk.open(new.path(LOG_SUFFIX))
    try:
        disk.sync_dir(directory)
        files, contents = new.write_indexes(disk)
        manifest_file = append_entry(disk, directory, entry_of(new, contents, snapshot))
    except OSError as error:
        if not is_transient(error):
            raise
        return []  # no space: the next start rebuilds the indexes, and completes the swap if it is unfinished
    return [*files, manifest_file]


def complete_swaps(disk: Disk, directory: str) -> list[str]:
    """Delete unfinished work and complete committed swaps, at startup; returns a line for each."""
    lines: list[str] = []
    for name in disk.list_dir(directory):
        if name.endswith(CLEANED_SUFFIX):
            disk.delete(f"{directory}/{name}")
        match = _SWAP_NAME.match(name)
        if match:
            base_offset, next_offset = int(match[1]), int(match[2])
            _leave_manifest(disk, directory, base_offset, next_offset)
            replaced = _replaced(disk, directory, base_offset, next_offset)
            _complete(disk, directory, f"{directory}/{name}", base_offset, replaced)
            disk.sync_dir(directory)
            lines.append(
                f"{directory}: the interrupted compaction of offsets {base_offset} to {next_offset - 1} is completed"
            )
    return lines


def _leave_manifest(disk: Disk, directory: str, base_offset: int, next_offset: int) -> None:
    manifest = load_manifest(disk, directory)
    rewrite_manifest(
        disk, directory, [manifest[base] for base in sorted(manifest) if not base_offset <= base < next_offset]
    )


def _replaced(disk: Disk, directory: str, base_offset: int, next_offset: int) -> list[str]:
    """The names of the files to delete, the newest first."""
    # The snapshot of the first offset is the state before it: it stays. The rename replaces the `.log`.
    stays = {file_name(base_offset, suffix) for suffix in (LOG_SUFFIX, *SNAPSHOT_SUFFIXES)}
    return [
        name
        for name in reversed(disk.list_dir(directory))
        if name[:20].isdecimal()
        and name[20:] in SEGMENT_SUFFIXES
        and base_offset <= int(name[:20]) < next_offset
        and name not in stays
    ]


def _complete(disk: Disk, directory: str, swap: str, base_offset: int, replaced: list[str]) -> None:
    """Needs no descriptor, so that it cannot fail halfway for lack of one."""
    for name in replaced:
        disk.delete(f"{directory}/{name}")
    disk.rename(swap, f"{directory}/{file_name(base_offset, LOG_SUFFIX)}")
