"""Whether what an earlier run wrote and did not sync has outlived it.

Owns: the file `boot`, which names the note of the run (`Notes`), and what the note says. Does not own: what is aborted
(the transaction coordinator), what is answered ahead (`broker.log.rounds`), which frames are left (`journal`).

That the machine has run all the time proves little: its file system may have failed and been mounted again, or have
been restored, and this directory may be a copy. So a run notes in shared memory, which goes with the machine and with
no file system, what it has written: the number of its newest frame, and of the newest one that it has synced, or
without a journal the end of each log. A start compares that with what it finds.

Invariants
- Nothing is answered ahead before the file names the note, durably. So where it is missing, as in what Apache Kafka
  has left, or a clean stop, nothing was.
- What was answered ahead is lost unless the note is found, no sync had failed, and all that it says is there.
- From the first frame of a run on, the file names the note of this run, or says that an earlier loss is not settled.
  By that name its life is known, to a copy of the directory and after a power cut too.
"""

import re
from contextlib import suppress
from typing import NamedTuple
from uuid import UUID

from oncelog.broker.storage.sections import LogKey
from oncelog.broker.turns.ports import Disk, Note

NAME = "boot"
UNSETTLED = b"unsettled"
_WITHOUT_NOTE = b"without a note"

FAILED, LIFE, WRITTEN, DURABLE, _LOG_COUNT = range(5)
"""The words of a note: whether a sync has failed; the life of the journal (0: it wrote none), the number of its newest
frame, and of the newest one that is durable; how many logs follow."""
_FIRST_LOG = 8
_LOG_WORDS = 4
"""Topic id (two), partition, end offset."""
_HALF = 64
_NOTE_NAME = re.compile(rb"([0-9a-f]{32})( ended)?\Z")
_ENDED = b" ended"
"""Behind the name of the note: the run has stopped cleanly, and left none."""
UNKNOWN = 0
"""In the place of a life."""
_RANDOM = 1 << 62
"""The bit that no count of starts has."""


class NotedWrites(NamedTuple):
    """The contents of the note of an earlier run."""

    has_failed: bool
    life: int
    written_number: int
    durable_number: int
    ends: dict[LogKey, int]


def life_of(name: str) -> int:
    """The life that a run gives its journal, by the name of its note: random, so that a copy of this directory which
    runs on has another one. The count of starts, as in directories of an earlier version, would be the same."""
    return _RANDOM | int(name[:16], 16) >> 2


def is_random(life: int) -> bool:
    return life >= _RANDOM


def no_note() -> memoryview:
    """Return words that are never read."""
    return memoryview(bytearray(8 * _FIRST_LOG)).cast("Q")


class BootMark:
    """The store's AnswersAhead."""

    def __init__(self, disk: Disk, *, was_clean: bool, commits_at_once: bool = False) -> None:
        """`was_clean`: the last run has synced everything. `commits_at_once`: what is appended is answered without a
        sync, also where there are no notes."""
        self._disk = disk
        self._commits_at_once = commits_at_once
        self._name = disk.notes.new_name()
        self.life = life_of(self._name)
        """The life that this run gives its journal."""
        found: bytes | None = None
        if disk.exists(NAME):
            try:
                found = disk.read_bytes(NAME)
            except OSError:
                found = b""  # as if it named a note that is gone
        self.left: NotedWrites | None = None
        """The note of the last run; None if there is none, or it is lost."""
        self._left_note: Note | None = None
        named = _NOTE_NAME.match(found) if found is not None else None
        self.named_life = life_of(named[1].decode()) if named is not None else UNKNOWN
        """The life of the run before, whether its note is found or not."""
        self._is_in_doubt = found is not None and not was_clean and (named is None or named[2] is None)
        if found is not None and self._is_in_doubt:
            self._left_note = disk.notes.open(found.decode("ascii", "replace"))
        if self._left_note is not None:
            self.left = _read(self._left_note.words)
        self.may_be_lost = found == UNSETTLED or (self._is_in_doubt and (self.left is None or self.left.has_failed))
        self._is_settled = False
        self._note: Note | None = None
        self._is_begun = False
        self._is_named = False
        self._slots: dict[LogKey, int] = {}
        self.words = no_note()
        """The words of this run's note, once it has begun."""

    def lose(self) -> None:
        """Whether noted writes are missing, or that is unknown."""
        self.may_be_lost = self.may_be_lost or self._is_in_doubt

    def lost_end(self, key: LogKey, log_end_offset: int) -> int | None:
        """Where a log ended that is shorter now, or None; its end is lost then."""
        noted_end = self.left.ends.get(key, 0) if self.left is not None else 0
        if noted_end <= log_end_offset:
            return None
        self.lose()
        return noted_end

    @property
    def are_possible(self) -> bool:
        return self._is_named and self._note is not None

    def begin(self) -> None:
        """Everything that was found is durable, `flushed-offsets` names the life of this run, and it begins to write.
        Raises OSError; may be called again."""
        if self._is_begun:
            return
        if self._note is None:
            self._note = self._disk.notes.create(self._name)
        self._write_name()
        self._is_begun = True
        if self._note is not None:
            self.words = self._note.words
        if self._left_note is not None:
            self._disk.notes.delete(self._left_note.name)

    def _write_name(self) -> None:
        if self.may_be_lost:
            self._disk.write_atomically(NAME, UNSETTLED)
        elif self._note is not None or self._commits_at_once:
            name = self._note.name.encode() if self._note is not None else _WITHOUT_NOTE
            self._disk.write_atomically(NAME, name)
        elif self._disk.exists(NAME):
            self._disk.delete(NAME)
            self._disk.sync_dir("")
        self._is_named = not self.may_be_lost

    def settle(self) -> None:
        """Note that what may have been lost was aborted. Raises OSError."""
        self._is_settled = True
        self.may_be_lost = False
        if self._is_begun and not self._is_named:
            self._write_name()

    def step(self) -> None:
        """Once a second: what could not be noted is tried again."""
        if self._is_settled and not self._is_named:
            with suppress(OSError):
                self.settle()

    def note_end(self, key: LogKey, end_offset: int) -> None:
        """This log was appended to, and nothing else says where it ends."""
        note = self._note
        if note is None:
            return
        slot = self._slots.get(key)
        if slot is None:
            self._add(note, key, end_offset)
        else:
            self.words[slot] = end_offset

    def _add(self, note: Note, key: LogKey, end_offset: int) -> None:
        slot = _FIRST_LOG + _LOG_WORDS * len(self._slots)
        if slot + _LOG_WORDS > len(self.words):
            try:
                note.grow(2 * len(self.words))
            except OSError:
                self.forget()  # no more of it can be noted
                return
            self.words = note.words
        topic_id, partition = key
        self.words[slot], self.words[slot + 1] = topic_id.int >> _HALF, topic_id.int & ((1 << _HALF) - 1)
        self.words[slot + 2], self.words[slot + 3] = partition, end_offset
        self._slots[key] = slot + 3
        self.words[_LOG_COUNT] = len(self._slots)  # last: a kill in between leaves no half of an entry

    def keep(self) -> None:
        """Mark a clean stop, before which everything is synced; the next start aborts what this run has not. Raises
        OSError."""
        if self.may_be_lost:
            self._disk.write_atomically(NAME, UNSETTLED)
        elif self._disk.exists(NAME):
            self._disk.write_atomically(NAME, self._name.encode() + _ENDED)
        self._is_named = False
        if self._note is not None:
            self._disk.notes.delete(self._note.name)

    def forget(self) -> None:
        """A sync has failed."""
        self.words[FAILED] = 1


def _read(words: memoryview) -> NotedWrites:
    ends = {}
    for slot in range(_FIRST_LOG, _FIRST_LOG + _LOG_WORDS * words[_LOG_COUNT], _LOG_WORDS):
        high, low, partition, end_offset = words[slot : slot + _LOG_WORDS]
        ends[UUID(int=high << _HALF | low), partition] = end_offset
    return NotedWrites(bool(words[FAILED]), words[LIFE], words[WRITTEN], words[DURABLE], ends)
