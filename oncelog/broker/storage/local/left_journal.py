"""What the journal of an earlier life says about each log, and how far that can be believed.

Owns: the comparison of the journal with `flushed-offsets` and with the note of the last run (`boot_mark`); up to where
each log was committed. Does not own: the frames (`journal`), putting them back (`redo`), what is removed (`recovery`).

Invariant: nothing is said to be uncommitted because a frame cannot be read, unless that frame may have been torn. After
a kill only the frame in flight can be; after a power cut, which leaves no note, a damaged last frame cannot be told
from a torn one.
"""

from uuid import UUID

from oncelog.broker.storage.local.boot_mark import BootMark
from oncelog.broker.storage.local.flushed_offsets import NAME as FLUSHED_OFFSETS
from oncelog.broker.storage.local.flushed_offsets import FlushedOffsets, LogPoints
from oncelog.broker.storage.local.journal import NAMES, JournalContents, LeftOut, Tail, read_journal
from oncelog.broker.storage.sections import LogKey
from oncelog.broker.turns.ports import Disk


class LeftJournal:
    def __init__(self, disk: Disk, flushed: FlushedOffsets, mark: BootMark, *, was_clean: bool) -> None:
        """Raises OSError."""
        self._flushed = flushed
        self._mark = mark
        self._was_clean = was_clean
        self.contents = found = read_journal(disk)
        self.problems: list[str] = []
        self.is_end_proven = False
        """It has all frames of the last run."""
        if found.problem is None:
            self._compare_with_note(found)
        number = flushed.journal_number
        is_known = number is not None and flushed.is_whole
        if number is None or not is_known:
            if found.is_in_use and flushed.problem is None:
                found.problem = f"{FLUSHED_OFFSETS} is missing"
        elif found.problem is None and not found.is_retired and not found.covers(number):
            found.problem = f"{NAMES[0]}, {NAMES[1]} or {FLUSHED_OFFSETS} lacks its end"
        self.is_in_use = is_known and found.is_in_use and found.problem is None
        """It has all commits that the segments may lack."""
        if found.problem is not None:
            mark.lose()
            self.problems.append(f"{found.problem}: a log may lack what was committed last")

    def _compare_with_note(self, found: JournalContents) -> None:
        left = self._mark.left
        if left is None or not left.life:
            return
        if found.number <= left.durable_number:
            found.problem = f"{NAMES[0]} or {NAMES[1]} lacks frames {found.number} to {left.durable_number}"
        elif found.life != left.life:
            found.problem = f"{NAMES[0]} and {NAMES[1]} are not of the last run"
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
        """What the next life keeps of a log that is offline."""
        points, tail = self._flushed.get(*key), self.tail(key) or Tail()
        return LeftOut(tail.end_offset(points), tail.above(points), self.committed_offset(*key))
