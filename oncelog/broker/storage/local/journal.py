"""One ordered journal for the appends of all partitions: a flush round is one write and one sync of one file.

Owns: the files `journal.0` and `journal.1`, the layout of their frames, which of the two is written. Does not own: what
a round holds and when files are synced instead (`file_sync`), putting records back after a stop (`redo`).

A frame holds one round: for each log either the batches appended to it, with their place in a segment, or, after a
sync of its files, the offset below which its segments are durable. Both files are allocated ahead and overwritten in
turns; a file begins with a head, which repeats what the life began with.

Invariants
- A frame is durable when `write` returns, and with it those that were written ahead. A torn frame counts as never
  written: all of a round is there, or nothing.
- Frames are numbered without gaps over both files: a missing one is not taken for the end.
- A file is overwritten only after `release`: its batches are durable in the segments, and `flushed-offsets` says so.
- While a journal is in use, what a log has above its durable offset and its frames was never committed.
- Each frame names the life in which it was written, a random number (`boot_mark.life_of`): generations and numbers are
  counted, and are the same in a copy of the directory that ran on.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from struct import Struct
from typing import NamedTuple

from oncelog.broker.storage.local.boot_mark import DURABLE, LIFE, UNKNOWN, WRITTEN, no_note
from oncelog.broker.storage.local.flushed_offsets import LogPoints
from oncelog.broker.storage.sections import SECTION_BYTES, LogKey, Section, Span, decode_sections, encode_sections
from oncelog.broker.turns.ports import Disk, File
from oncelog.protocol.checksum import crc32c

NAMES = ("journal.0", "journal.1")
DEFAULT_FILE_BYTES = 16 * 1024 * 1024
_ALIGNMENT = 512
"""Frames begin at multiples of this, so that those behind a damaged one are found."""
_FIRST_BYTES = 64 * 1024
_ROOM_BYTES = 1024 * 1024
"""The room for `flushed-offsets`, and for the snapshot of thousands of producers."""
_MAGIC = b"oncejrnl"
_FRAME = Struct(">8sBQQQI")
"""Magic, kind, life (once the generation of its first file), generation of the file, number of the frame, body size."""
_HEADER_BYTES = _FRAME.size + 4
_HEAD, _ROUND, _LAST_HEAD, _ROUND_AHEAD = 0, 1, 2, 3
"""The third ends the use of the journal: it only carries what is left out. The last is a round that was written while
the frame before it was not durable yet: a readable one does not prove that the frame before it was durable."""
_SYNCED = -1
_LEFT_OUT = -2


def synced_span(next_offset: int) -> Span:
    """The segments of the log are durable below `next_offset`."""
    return Span(0, _SYNCED, 0, next_offset, b"")


class LeftOut(NamedTuple):
    """The part of a log that a journal carries on, since the log was offline when the journal was begun."""

    end_offset: int
    """Everything below it was committed."""
    spans: Sequence[Span]
    uncommitted_from: int | None
    """Nothing from there on was; None: that is unknown, the journal was not in use."""

    def as_span(self) -> Span:
        uncommitted_from = -1 if self.uncommitted_from is None else self.uncommitted_from
        return Span(0, _LEFT_OUT, uncommitted_from, self.end_offset, b"")


@dataclass(slots=True)
class Tail:
    """The part of the journal that belongs to one log."""

    synced_offset: int = 0
    spans: list[Span] = field(default_factory=list)
    """In the order of their offsets."""
    left_out_end: int = -1
    """The log was offline when the journal was begun (`LeftOut`); -1: it was not."""
    uncommitted_from: int | None = None
    """`LeftOut.uncommitted_from` of a log that was left out."""

    @property
    def is_left_out(self) -> bool:
        return self.left_out_end >= 0

    def above(self, points: LogPoints | None) -> list[Span]:
        """The spans that its segments may lack."""
        known = max(self.synced_offset, points.synced_offset if points else 0)
        return [span for span in self.spans if span.next_offset > known]

    def end_offset(self, points: LogPoints | None) -> int:
        """Everything below it was committed."""
        last = self.spans[-1].next_offset if self.spans else 0
        return max(self.synced_offset, self.left_out_end, last, points.synced_offset if points else 0)


class _Frame(NamedTuple):
    kind: int
    life: int
    generation: int
    number: int
    body: "memoryview"  # unquoted, mypyc looks it up among the module's names
    end: int


@dataclass(slots=True)
class JournalContents:
    """The journal as a stop has left it."""

    tails: dict[LogKey, Tail] = field(default_factory=dict)
    is_in_use: bool = False
    """A broker has committed through this journal, up to its last frame."""
    is_retired: bool = False
    """It only says what was left out when its use ended."""
    problem: str | None = None
    life: int = UNKNOWN
    """The life of its newest frames."""
    lives: tuple[int, ...] = (UNKNOWN, UNKNOWN)
    """The lives of both files, whichever counts; unknown for a file without a head or anything that would count."""
    generation: int = 0
    first_number: int = 1
    number: int = 1
    """The number of the next frame."""
    file: int = 0
    """The file to write next: not the newest."""

    def covers(self, number: int) -> bool:
        """Whether it has all frames that were written from this one on, as far as can be known: `flushed-offsets`
        covers those before it, and a retired one lacks them."""
        return number <= self.number and (self.is_retired or self.first_number <= number)


def read_journal(disk: Disk, accepted: Container[int] | None = None) -> JournalContents:
    """`accepted` are the lives of files that count; None: any. Raises OSError."""
    is_present = [disk.exists(name) for name in NAMES]
    files = [_frames_of(disk.read_bytes(name) if there else b"") for name, there in zip(NAMES, is_present, strict=True)]
    generation = max(frames[0].generation if frames else 0 for frames, _ in files)
    lives = tuple(_life_of(frames, later, generation) for frames, later in files)
    if accepted is not None:
        files = [file if life in accepted else ([], None) for file, life in zip(files, lives, strict=True)]
    generations = [frames[0].generation if frames else 0 for frames, _ in files]
    newest = 1 if generations[1] > generations[0] else 0
    contents = JournalContents(generation=generations[newest], lives=lives, file=1 - newest)
    for slot, (_, later) in enumerate(files):
        if later is not None and later.generation >= contents.generation:
            contents.problem = f"{NAMES[slot]} is damaged: frames before number {later.number} cannot be read"
    frames, older = files[newest][0], files[1 - newest][0]
    if not frames:
        return contents
    contents.is_retired = frames[0].kind == _LAST_HEAD
    if not all(is_present) and not contents.is_retired:  # of a retired one the other file is removed first
        contents.problem = f"{NAMES[is_present.index(False)]} is missing"
    if older and older[0].life == frames[0].life and older[-1].number + 1 == frames[0].number:
        frames = older + frames
    contents.is_in_use = contents.problem is None and frames[0].kind == _HEAD
    contents.first_number, contents.number = frames[0].number, frames[-1].number + 1
    contents.life = frames[-1].life
    for frame in frames:
        for key, span in decode_sections(frame.body):
            _note(contents.tails.setdefault(key, Tail()), span)
    return contents


def _life_of(frames: Sequence[_Frame], later: _Frame | None, generation: int) -> int:
    """Return the life of a file; `generation` is the newest of both. Without a readable head, frames of an older one
    prove nothing: the head may have been torn in any run."""
    if frames:
        return frames[0].life
    return later.life if later is not None and later.generation >= generation else UNKNOWN


def _note(tail: Tail, span: Span) -> None:
    if span.position == _SYNCED:
        tail.synced_offset = max(tail.synced_offset, span.next_offset)
    elif span.position == _LEFT_OUT:
        tail.left_out_end = max(tail.left_out_end, span.next_offset)
        tail.uncommitted_from = span.first_offset if span.first_offset >= 0 else None
    elif not tail.spans or tail.spans[-1].next_offset <= span.first_offset:  # heads repeat what they carry
        tail.spans.append(span)


def _frames_of(data: bytes) -> tuple[list[_Frame], _Frame | None]:
    """The frames from the start of a file on; and one of the same generation, or of any if there are none, behind the
    first that cannot be read, which is then no torn end."""
    frames: list[_Frame] = []
    at = 0
    while (frame := _frame_at(data, at)) is not None and _follows(frame, frames):
        frames.append(frame)
        at = frame.end
    generation = frames[0].generation if frames else 0
    while (at := data.find(_MAGIC, at + 1)) >= 0:
        if at % _ALIGNMENT == 0:
            later = _frame_at(data, at)
            if later is not None and generation in (0, later.generation) and later.kind != _ROUND_AHEAD:
                return frames, later
    return frames, None


def _follows(frame: _Frame, frames: Sequence[_Frame]) -> bool:
    if not frames:
        return frame.kind in (_HEAD, _LAST_HEAD)
    return frame.generation == frames[0].generation and frame.number == frames[-1].number + 1


def _frame_at(data: bytes, at: int) -> _Frame | None:
    if data[at : at + len(_MAGIC)] != _MAGIC or at + _HEADER_BYTES > len(data):
        return None
    _, kind, life, generation, number, body_bytes = _FRAME.unpack_from(data, at)
    end = at + _HEADER_BYTES + body_bytes
    if end > len(data):
        return None
    view = memoryview(data)
    crc = crc32c(view[at + _HEADER_BYTES : end], crc32c(view[at : at + _FRAME.size]))
    if crc != int.from_bytes(view[at + _FRAME.size : at + _HEADER_BYTES], "big"):
        return None
    return _Frame(kind, life, generation, number, view[at + _HEADER_BYTES : end], _aligned(end))


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


class Journal:
    """The journal of a broker that runs. Closed until `begin`."""

    def __init__(self, disk: Disk, found: JournalContents, file_bytes: int = DEFAULT_FILE_BYTES) -> None:
        """`file_bytes`: the size at which a file counts as full; a larger frame still fits into an empty one."""
        self._disk = disk
        self._file_bytes = file_bytes
        self._generation = found.generation
        self._number = found.number
        self._slot = found.file
        self._has_found_frames = found.generation > 0
        self.found_life = found.life
        """The life of the newest frames that were found."""
        self._life = UNKNOWN
        self._files: list[File] = []
        self._position = 0
        self._head_bytes = 0
        self._carried = b""
        self._is_other_free = True
        self._last_number_of_other = -1
        self._kind = _ROUND
        """The kind of the next round."""
        self.round_count = 0
        self.words = no_note()
        """Where to note what is written: of the run's note (`boot_mark`), before `begin`."""

    @property
    def is_open(self) -> bool:
        return bool(self._files)

    @property
    def last_number(self) -> int:
        """The number of the newest frame."""
        return self._number - 1

    def make_found_durable(self) -> None:
        """The number of its last frame, which may have been written ahead, is about to be noted elsewhere: no power cut
        may take it then. Raises OSError."""
        if self._has_found_frames:
            file = self._disk.open(NAMES[1 - self._slot])
            file.sync()
            file.close()
            self._has_found_frames = False

    def begin(self, life: int, left_out: Mapping[LogKey, LeftOut]) -> None:
        """Start this life: every log is as durable as `flushed-offsets` says, but for those left out, which are
        offline: their spans are carried on. Raises OSError; then it is still closed, and may be tried again."""
        self._files = self._begin(_HEAD, life, left_out)

    def retire(self, life: int, left_out: Mapping[LogKey, LeftOut]) -> bool:
        """Start this life as `begin` does, but let commits do without a journal. Returns whether there are files of no
        use, to be `remove`d once `flushed-offsets` expects none. Raises OSError."""
        is_present = any(self._disk.exists(name) for name in NAMES)
        if left_out or is_present:
            for file in self._begin(_LAST_HEAD, life, left_out):
                file.close()
        return is_present and not left_out

    def remove(self) -> None:
        """Remove the files of a retired journal: first the one whose frames look as if they were in use. Raises
        OSError."""
        for slot in (1 - self._slot, self._slot):
            self._disk.delete(NAMES[slot])
            self._disk.sync_dir("")

    def _begin(self, kind: int, life: int, left_out: Mapping[LogKey, LeftOut]) -> list[File]:
        self._carried = encode_sections(
            (key, span) for key, log in left_out.items() for span in (log.as_span(), *log.spans)
        )
        self._generation += 1
        self._life = life
        self._position = 0
        files = [self._disk.open(name) for name in NAMES]
        self._disk.sync_dir("")
        self._write(files[self._slot], self._frame(kind, self._carried), self._number + 1)
        self.words[LIFE] = self._life
        self._head_bytes = self._position
        self._is_other_free = True
        return files

    def carried_frame(self) -> bytes:
        """Return the frame that replaces this journal in a directory whose logs are durable but for those left out;
        empty if none were."""
        return self._frame(_LAST_HEAD, self._carried) if self._carried else b""

    def has_room(self, sections: Sequence[Section]) -> bool:
        """Whether this round can be written now; otherwise a checkpoint must `release` a file first."""
        return self._is_other_free or self._fits(_round_bytes(sections))

    @property
    def needs_checkpoint(self) -> bool:
        """The other file is not free yet."""
        return not self._is_other_free

    def _fits(self, size_bytes: int) -> bool:
        # One that holds nothing but its head takes a round of any size.
        return self._position in (self._head_bytes, 0) or self._position + size_bytes <= self._file_bytes

    def write(self, sections: Sequence[Section]) -> None:
        """Make a round durable, and what was written ahead; there must be room. On the loop or in the sync thread.
        Raises OSError: then the round is not in the journal."""
        body = encode_sections(sections)
        if self._fits(_HEADER_BYTES + len(body)) or not self._is_other_free:
            self._write(self._files[self._slot], self._frame(self._kind, body), self._number + 1)
        else:
            self._switch(body)
        self._kind, self.round_count = _ROUND, self.round_count + 1

    def write_ahead(self, sections: Sequence[Section]) -> bool:
        """Write a round that the next `write` makes durable: a kill -9 leaves it, a power cut need not. False if there
        is no place for it now. Raises OSError: then it is not in the journal."""
        body = encode_sections(sections)
        data = self._frame(self._kind, body)
        file, end = self._files[self._slot], self._position + len(data)
        if end > file.size_bytes or not self._fits(len(data)):
            return False
        if body:
            file.overwrite(self._position, data)
            self.words[WRITTEN] = self._number
            self._position, self._number, self._kind = end, self._number + 1, _ROUND_AHEAD
        return True

    def sync(self) -> None:
        """Make durable what was written ahead. Raises OSError."""
        if self._kind == _ROUND_AHEAD:
            self._files[self._slot].write_durably(self._position, b"")
            self._kind = _ROUND
            self.words[DURABLE] = self.last_number

    def _switch(self, body: bytes) -> None:
        self.sync()
        before = self._generation, self._position, self._slot, self._number
        self._generation, self._position, self._slot = self._generation + 1, 0, 1 - self._slot
        try:
            # The head first: a round that is whole behind a torn head would look like damage.
            self._write(self._files[self._slot], self._frame(_HEAD, self._carried), self._number + 1)
        except OSError:
            self._generation, self._position, self._slot, self._number = before
            raise
        self._head_bytes = self._position
        self._last_number_of_other = before[3] - 1
        self._is_other_free = False
        self._write(self._files[self._slot], self._frame(_ROUND, body), self._number + 1)

    def _frame(self, kind: int, body: bytes) -> bytes:
        header = _FRAME.pack(_MAGIC, kind, self._life, self._generation, self._number, len(body))
        padding = bytes(-(_HEADER_BYTES + len(body)) % _ALIGNMENT)
        return b"".join((header, crc32c(body, crc32c(header)).to_bytes(4, "big"), body, padding))

    def _write(self, file: File, data: bytes, next_number: int) -> None:
        end = self._position + len(data)
        if end > file.size_bytes:
            # The size is doubled, rarely: a write that moves the end of a file takes three times as long to sync.
            wanted = max(end, min(self._file_bytes, max(_FIRST_BYTES, 2 * file.size_bytes)))
            file.append([bytes(wanted - file.size_bytes)])
            file.sync()
        file.write_durably(self._position, data)
        self._position = end
        self._number = next_number
        self.words[WRITTEN] = self.words[DURABLE] = next_number - 1

    def release(self, number: int) -> None:
        """Everything up to this frame is durable in the segments, and `flushed-offsets` says so durably."""
        if number >= self._last_number_of_other:
            self._is_other_free = True

    def make_room(self) -> None:
        """On a full disk who deletes has to write a little first: give back some of what is allocated ahead and holds
        no frame that counts. Not while a frame is written. Raises OSError."""
        file, used_bytes = self._files[self._slot], self._position
        if file.size_bytes == used_bytes and self._is_other_free:
            file, used_bytes = self._files[1 - self._slot], 0
        if file.size_bytes > used_bytes:
            file.truncate(max(used_bytes, file.size_bytes - _ROOM_BYTES))

    def close(self) -> None:
        for file in self._files:
            file.close()
        self._files = []


def _round_bytes(sections: Sequence[Section]) -> int:
    return _HEADER_BYTES + len(sections) * SECTION_BYTES + sum(len(span.data) for _, span in sections)
