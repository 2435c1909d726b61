"""Puts a cleaned segment in the place of those that it was made of.

Owns: the order of the file operations. Invariant: a crash at any step leaves the old segments or the new one, never a
mixture. The commit point is the durable rename to `BASE.END.swap`, made when the cleaned file is synced: before it the
work is lost, after it the next start completes the swap. The old segments leave the manifest first, so that none of its
entries can vouch for a file that is no longer what it was.
"""

import re

from oncelog.broker.ports import Disk, File
from oncelog.broker.storage.disk_errors import is_transient
from oncelog.broker.storage.local.producer_snapshot import SUFFIXES as SNAPSHOT_SUFFIXES
from oncelog.broker.storage.local.segment import LOG_SUFFIX, Segment, file_name
from oncelog.broker.storage.local.segment_manifest import (
    NO_SNAPSHOT,
    append_entry,
    entry_of,
    load_manifest,
    rewrite_manifest,
)
from oncelog.broker.storage.local.segments import SEGMENT_SUFFIXES

CLEANED_SUFFIX = ".log.cleaned"
_SWAP_SUFFIX = ".swap"
_SWAP_NAME = re.compile(r"(\d{20})\.(\d{20})\.swap\Z")


def swap_in(disk: Disk, directory: str, old: list[Segment], new: Segment) -> list[File]:
    """Replace the files of `old` by those of `new`, whose `.log.cleaned` is synced; what is to be synced yet.

    Raises OSError: for lack of room or of a descriptor, with nothing changed; otherwise the files are as a crash would
    leave them.
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
        return []  # no room: the next start rebuilds the indexes, and completes the swap if it finds it again
    return [*files, manifest_file]


def complete_swaps(disk: Disk, directory: str) -> list[str]:
    """At a start: drop unfinished work, complete what was committed; a line for each swap that was completed."""
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
                f"{directory}: the compaction of offsets {base_offset} to {next_offset - 1} that the stop had "
                "interrupted is completed"
            )
    return lines


def _leave_manifest(disk: Disk, directory: str, base_offset: int, next_offset: int) -> None:
    manifest = load_manifest(disk, directory)
    rewrite_manifest(
        disk, directory, [manifest[base] for base in sorted(manifest) if not base_offset <= base < next_offset]
    )


def _replaced(disk: Disk, directory: str, base_offset: int, next_offset: int) -> list[str]:
    """The names of the files that go, the newest first."""
    # The snapshot of the first offset tells of what came before: it stays. The rename replaces the `.log`.
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
    """Needs no descriptor: once begun, it comes to its end."""
    for name in replaced:
        disk.delete(f"{directory}/{name}")
    disk.rename(swap, f"{directory}/{file_name(base_offset, LOG_SUFFIX)}")
