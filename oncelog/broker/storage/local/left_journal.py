"""What the journal of an earlier life says about each log, and how far that can be believed.

Owns: the comparison of the journal with `flushed-offsets` and with the note of the last run (`boot_mark`); up to where
each log was committed; that what is of another copy of the directory is kept aside. Does not own: the frames
(`journal`), putting them back (`redo`), what is removed (`recovery`), whose a file is (`origin`).

Invariants
- Nothing is said to be uncommitted because a frame cannot be read, unless that frame may have been torn. After a kill
  only the frame in flight can be; after a power cut, which leaves no note, a damaged last frame cannot be distinguished
  from a torn one.
- A journal is judged as a whole before anything is written. Of one that another copy of this directory has written, or
  may have, nothing is put back; it is kept under another name, and a line says what it holds.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING
from uuid import UUID

from oncelog.broker.storage.local.boot_mark import UNKNOWN, BootMark
from oncelog.broker.storage.local.flushed_offsets import NAME as FLUSHED_OFFSETS
from oncelog.broker.storage.local.flushed_offsets import FlushedOffsets, LogPoints
from oncelog.broker.storage.local.journal import NAMES, JournalContents, LeftOut, Tail, read_journal
from oncelog.broker.storage.sections import LogKey
from oncelog.broker.turns.ports import Disk

if TYPE_CHECKING:
    from oncelog.broker.storage.local.origin import Origin

_MOST_LOGS_NAMED = 20


class LeftJournal:
    def __init__(self, disk: Disk, flushed: FlushedOffsets, mark: BootMark, *, was_clean: bool) -> None:
        """Raises OSError."""
        self._disk = disk
        self._flushed = flushed
        self._mark = mark
        self._was_clean = was_clean
        self.problems: list[str] = []
        self.is_end_proven = False
        """It has all frames of the last run."""
        self.must_be_kept = False
        """It holds batches of which a segment has others."""
        self._is_proven = True
        found = read_journal(disk)
        is_suspicious = mark.named_life not in (UNKNOWN, flushed.life) and flushed.life != UNKNOWN
        self.contents = found = self._judged(found) if found.generation or is_suspicious else found
        if found.problem is None:
            self._compare_with_note(found)
        number = flushed.journal_number
        is_known = number is not None and flushed.is_whole
        if number is None or not is_known:
            if found.is_in_use and flushed.problem is None:
                found.problem = f"{FLUSHED_OFFSETS} is missing"
        elif found.problem is None and not found.covers(number):
            found.problem = f"{NAMES[0]}, {NAMES[1]} or {FLUSHED_OFFSETS} lacks its end"
            if not self._is_proven and found.tails:
                # It is not known whose it is, and does not fit: as well one of another copy.
                found = self.contents = self._kept_aside(
                    found, "perhaps older than this directory, or of another copy of it"
                )
        self.is_in_use = is_known and found.is_in_use and found.problem is None
        """It has all commits that the segments may lack."""
        if not self._is_proven and found.tails and self._is_contradicted(found):
            found = self.contents = self._kept_aside(found, "other batches than the segments have")
            self.is_in_use = False
        found.number = max(found.number, flushed.journal_number or 1)  # never one that was used
        if found.problem is not None:
            mark.lose()
            self.problems.append(f"{found.problem}: a log may lack what was committed last")

    def _judged(self, found: JournalContents) -> JournalContents:
        """Return it without what is of another copy."""
        from oncelog.broker.storage.local.origin import find_origin  # not needed at a first start

        origin = find_origin(self._disk, found, self._flushed, self._mark, was_clean=self._was_clean)
        self._is_proven = origin.is_proven
        if origin.are_offsets_foreign:
            self._flushed.disown(_free_name(self._disk, FLUSHED_OFFSETS))
        return self._without_foreign(found, origin)

    def _is_contradicted(self, found: JournalContents) -> bool:
        from oncelog.broker.storage.local.origin import is_contradicted

        return is_contradicted(self._disk, found, self._flushed)

    def _without_foreign(self, found: JournalContents, origin: "Origin") -> JournalContents:
        if origin.lives is None or not found.generation:
            return found
        is_left = origin.left is None or origin.left.issuperset(set(found.lives) - {UNKNOWN})
        if is_left and found.life in origin.lives:
            return found
        whose = "older than this directory, or of another copy of it"
        return self._kept_aside(found, whose, read_journal(self._disk, origin.lives))

    def _kept_aside(self, found: JournalContents, whose: str, left: JournalContents | None = None) -> JournalContents:
        """Keep the files of which nothing may be put back; return what is `left` without them."""
        left = left or JournalContents()
        slots = [slot for slot, life in enumerate(found.lives) if life not in (UNKNOWN, left.life)]
        kept = [NAMES[slot] for slot in slots]
        of_others = read_journal(self._disk, [found.lives[slot] for slot in slots])
        names = [_keep(self._disk, name) for name in kept]
        contents = "; ".join(_described(self._disk, of_others)) or "no batches"
        left.problem = (
            f"{' and '.join(kept)}: {whose}; nothing of it is put back, it is kept as {' and '.join(names)}, and has "
            f"{contents}"
        )
        left.is_in_use = False
        # A file without a head may stay, with frames behind it that must look old.
        left.generation = max(left.generation, found.generation)
        return left

    def keep(self) -> None:
        """Its use is about to end: what no segment has stays, under another name. Raises OSError."""
        if self.must_be_kept:
            for name in NAMES:
                if self._disk.exists(name):
                    # A copy: until its use has ended, a start after a stop needs it.
                    self._disk.write_atomically(_free_name(self._disk, name), self._disk.read_bytes(name))

    def _compare_with_note(self, found: JournalContents) -> None:
        left = self._mark.left
        if left is None or not left.life:
            return
        if found.number <= left.durable_number:
            found.problem = f"{NAMES[0]} or {NAMES[1]} lacks frames {found.number} to {left.durable_number}"
        elif found.number <= left.written_number:
            self._mark.lose()
            self.problems.append(
                f"the file system has lost what was written and not synced (frames {found.number} to "
                f"{left.written_number} of the journal): transactions that may lack it are aborted"
            )
        else:
            self.is_end_proven = True

    def tail(self, key: LogKey) -> Tail | None:
        return self.contents.tails.get(key)

    def forget(self, key: LogKey) -> None:
        """This log was recovered, and is durable in its segments."""
        self.contents.tails.pop(key, None)

    def end(self) -> None:
        """All logs are, or were carried over."""
        self.contents.tails, self.is_in_use = {}, False

    def points(self, topic_id: UUID, partition: int) -> LogPoints | None:
        """Up to which offset a log is known to be durable, and where it starts; None if unknown."""
        points, tail = self._flushed.get(topic_id, partition), self.tail((topic_id, partition))
        if tail is None or not (self.is_in_use or tail.is_left_out):
            return points
        return LogPoints(tail.end_offset(points), points.log_start_offset if points is not None else 0)

    def committed_offset(self, topic_id: UUID, partition: int) -> int | None:
        """Where a log ends if the journal knows that; None if there may be committed records after what it knows, as
        after a clean stop, which has synced all."""
        tail = self.tail((topic_id, partition))
        if tail is not None and tail.is_left_out:
            return tail.uncommitted_from
        if not self.is_in_use or self._was_clean:
            return None
        points = self.points(topic_id, partition)
        return points.synced_offset if points is not None else 0

    def carried_over(self, key: LogKey) -> LeftOut:
        """Return the part of an offline log that the next life keeps."""
        points, tail = self._flushed.get(*key), self.tail(key) or Tail()
        return LeftOut(tail.end_offset(points), tail.above(points), self.committed_offset(*key))


def _keep(disk: Disk, name: str) -> str:
    kept_as = _free_name(disk, name)
    disk.rename(name, kept_as)
    disk.sync_dir("")
    return kept_as


def _free_name(disk: Disk, name: str) -> str:
    """A name under which no file of an earlier start is kept."""
    number = 1
    while disk.exists(f"{name}.foreign-{number}"):
        number += 1
    return f"{name}.foreign-{number}"


def _described(disk: Disk, found: JournalContents) -> Iterator[str]:
    """The offsets that it has of each log."""
    from oncelog.broker.storage.local.origin import directories_of

    directories = directories_of(disk)
    logs = [(key, tail.spans) for key, tail in found.tails.items() if tail.spans]
    for key, spans in logs[:_MOST_LOGS_NAMED]:
        topic_id, partition = key
        name = directories.get(key, f"partition {partition} of the topic with id {topic_id}")
        yield f"offsets {spans[0].first_offset} to {spans[-1].next_offset - 1} of {name}"
    if len(logs) > _MOST_LOGS_NAMED:
        yield f"and batches of {len(logs) - _MOST_LOGS_NAMED} others"
