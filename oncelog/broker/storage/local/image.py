"""What `oncelog backup` copies of a broker that runs: all of a data directory, as of one instant.

Owns: how an image is asked for and found, what is in it. Does not own: when the store looks (`LocalLogStore.step`), the
copying (`oncelog.tools.backup`), which may take hours.

The image is taken in one turn of the event loop, as every append and every deletion is decided in one: at its end
stands what had been appended, in all logs alike. No file is copied in that turn, which takes 50 µs a
file (measured: ext4). Each gets a second name, under which it outlives deletion and compaction, and the image says how
long it was: files only grow, and what is replaced is
replaced as a whole. A copy from outside would need neither the turn nor the broker, but it sees different files at
different moments: a marker of a transaction in one log and not in another, which is worse than no backup.

Whoever may write to the directory asks by a file in it: no port, no token, and no right but that of the file system.

Invariants
- The image is what a crash would have left in this instant, had the round of all appends before it been committed: its
  `flushed-offsets` says that every log is durable to its end, so it needs no journal and no note of the run, and of a
  log that lacks something a start says so.
- It is whole once its list is there. It has no name that a start would look at, and a start deletes it.
"""

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress

from oncelog.broker.log.store import LOGIN_SECRET
from oncelog.broker.storage.local.boot_mark import NAME as BOOT_MARK
from oncelog.broker.storage.local.boot_mark import UNSETTLED
from oncelog.broker.storage.local.checkpoints import CLEANER_OFFSET
from oncelog.broker.storage.local.data_directory import IMAGE, IMAGE_ERROR, IMAGE_LIST, IMAGE_WANTED
from oncelog.broker.storage.local.flushed_offsets import NAME as FLUSHED_OFFSETS
from oncelog.broker.storage.local.flushed_offsets import FlushedOffsets, LogPoints
from oncelog.broker.storage.local.journal import NAMES as JOURNALS
from oncelog.broker.storage.local.journal import Journal
from oncelog.broker.storage.local.local_log import LocalLog
from oncelog.broker.storage.local.segments import SEGMENT_SUFFIXES, write_file
from oncelog.broker.turns.ports import Disk

_UNFINISHED = (".tmp", ".cleaned")


def take_image(
    disk: Disk, logs: Iterable[LocalLog], flushed: FlushedOffsets, journal: Journal, *, may_be_lost: bool
) -> None:
    """Take the image that is wanted, or note why there is none. `may_be_lost`: what an earlier run answered ahead, and
    this one has not settled. Raises OSError."""
    disk.delete(IMAGE_WANTED)
    disk.delete_tree(IMAGE)
    disk.make_dir(IMAGE)
    try:
        sizes = dict(_entries(disk, logs, flushed, journal, may_be_lost))
        content: dict[str, object] = {"files": sizes}
    except OSError as error:
        content = {IMAGE_ERROR: error.strerror or str(error)}
    write_file(disk, f"{IMAGE_LIST}.tmp", json.dumps(content).encode()).close()
    disk.rename(f"{IMAGE_LIST}.tmp", IMAGE_LIST)


def _entries(
    disk: Disk, logs: Iterable[LocalLog], flushed: FlushedOffsets, journal: Journal, may_be_lost: bool
) -> Iterator[tuple[str, int]]:
    """The path and the size of each file."""
    ends = {}
    for log in logs:
        ends[log.topic_id, log.partition] = LogPoints(log.log_end_offset, log.log_start_offset)
        yield from _files_of(disk, log)
    for name in (CLEANER_OFFSET, LOGIN_SECRET):
        if disk.exists(name):
            yield _lend(disk, name)
    made = {FLUSHED_OFFSETS: flushed.image(ends)}
    carried = journal.carried_frame()
    if carried:
        made.update(zip(JOURNALS, (carried, b""), strict=True))
    if may_be_lost:
        made[BOOT_MARK] = UNSETTLED
    for name, data in made.items():
        write_file(disk, f"{IMAGE}/{name}", data).close()
        yield name, len(data)


def _files_of(disk: Disk, log: LocalLog) -> Iterator[tuple[str, int]]:
    directory = log.segments.directory
    if not disk.exists(directory):
        return
    disk.make_dir(f"{IMAGE}/{directory}")
    first = log.segments[0].base_offset if len(log.segments) and not log.is_offline else 0
    names: set[str] = set()
    while True:
        # Another thread may replace a snapshot of the metadata meanwhile: the newer one is there in the next list.
        is_complete = True
        for name in disk.list_dir(directory):
            if name in names or name.endswith(_UNFINISHED) or _is_removed(name, first):
                continue
            try:
                yield _lend(disk, f"{directory}/{name}")
            except FileNotFoundError:
                is_complete = False
            else:
                names.add(name)
        if is_complete:
            return


def _is_removed(name: str, first_offset: int) -> bool:
    """Whether a file is of a segment below the start of its log: another thread deletes these, one by one, and what is
    left of them in any moment need not be contiguous."""
    return name[20:] in SEGMENT_SUFFIXES and name[:20].isdecimal() and int(name[:20]) < first_offset


def _lend(disk: Disk, path: str) -> tuple[str, int]:
    return path, disk.lend(path, f"{IMAGE}/{path}")


def forget_images(disk: Disk) -> None:
    """Delete, at a start, any image that was wanted or taken before it, which is of no more use."""
    with suppress(OSError):
        disk.delete(IMAGE_WANTED)
        disk.delete_tree(IMAGE)
