"""Where encoded batches wait between the task that made them and the driver that publishes them.

Owns: the bytes of each task's batches, in a file or inside the task's message. Spark carries messages through the heap
of the driver's JVM, at most spark.driver.maxResultSize of them, at some 20 MB a second; a file costs neither. A task
writes a file if it sees the driver's spool directory: on the driver's machine (`local[*]`), or where `spoolLocation` is
a shared file system. It knows by a token in that directory, not by guessing.
Invariants
- A spool belongs to one sink, which publishes one batch at a time: what is in it belongs to that batch.
- A file is read only if a task that succeeded names it; those of attempts that failed are removed with the rest.
"""

import mmap
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from io import BufferedReader, BufferedWriter
from pathlib import Path
from shutil import rmtree
from uuid import uuid4

from oncelog.pipeline.own_directory import OwnDirectory
from oncelog.pipeline.sink.spool_owner import claim, remove_those_of_the_dead

_SUFFIX = ".batches"
_INLINE_BYTES = 64 << 10
"""The size below which a file costs more than it saves."""
_WINDOW_BYTES = 16 << 20
"""How much of a file the driver maps at a time."""


class SpoolLost(Exception):
    """Raised if a file of encoded batches is gone or cut short; the batch has to run again."""


@dataclass(frozen=True, slots=True)
class Spool(OwnDirectory):
    """The directory of one sink."""

    @classmethod
    def open(cls, location: str | None, owner: str) -> "Spool | None":
        """Open the spool of a sink, below `location` (default: the driver's directory for temporary files), and remove
        those that drivers have left there which were killed. None if no directory can be had: everything then travels
        in messages."""
        name = sha256(owner.encode()).hexdigest()[:24]
        spool = cls.make(location or tempfile.gettempdir(), f"oncelog-spool-{os.getuid()}", name)
        if spool is not None:
            claim(spool.directory)
            remove_those_of_the_dead(Path(spool.directory).parent, name)
        return spool

    def clear(self) -> None:
        """Remove the directory with what the batch has left; the next batch makes another."""
        rmtree(self.directory, ignore_errors=True)


class SpoolWriter:
    """Collects the batches of one task; beyond some 64 KiB in a file, if this process sees the spool."""

    def __init__(self, spool: Spool | None) -> None:
        self._spool = spool if spool is not None and spool.is_visible else None
        self._index: list[tuple[str, int, int]] = []
        self._parts: list[bytes | memoryview] = []
        self._waiting_bytes = 0
        self._file: BufferedWriter | None = None
        self.record_count = 0

    def add(self, topic: str, partition: int, record_count: int, *parts: bytes | memoryview) -> None:
        """Add one batch, in parts that do not change any more."""
        size_bytes = sum(map(len, parts))
        self._index.append((topic, partition, size_bytes))
        self._parts += parts
        self._waiting_bytes += size_bytes
        self.record_count += record_count
        if self._spool is not None and self._waiting_bytes > _INLINE_BYTES:
            self._write(self._spool)

    def finish(self, name: str, digest: int = 0) -> "TaskOutput":
        path = ""
        if self._file is not None:
            self._file.writelines(self._parts)
            self._file.close()
            path, self._parts = str(self._file.name), []
        return TaskOutput(name, tuple(self._index), self.record_count, path, b"".join(self._parts), digest)

    def _write(self, spool: Spool) -> None:
        if self._file is None:
            self._file = Path(spool.directory, uuid4().hex + _SUFFIX).open("wb")  # noqa: SIM115  # until `finish`
        self._file.writelines(self._parts)
        self._parts = []
        self._waiting_bytes = 0


@dataclass(frozen=True, slots=True)
class TaskOutput:
    """The batches that one task has encoded, for one output of the batch."""

    name: str
    index: Sequence[tuple[str, int, int]] = ()
    """Topic, partition and size in bytes of each record batch, in order."""
    record_count: int = 0
    path: str = ""
    """The file with the bytes; empty if they are in `data`."""
    data: bytes = field(default=b"", repr=False)
    digest: int = 0
    """The sum of the digests of the rows (`encoding.digest_of`), where the plan of the task asks for it."""

    def batches(self) -> Iterator[tuple[str, int, memoryview]]:
        """Yield topic, partition and bytes of each batch, once: a file is mapped, not read, a window at a time, and it
        is removed after its last batch. What it took of memory goes to the log that is written from it, instead of
        memory that is new to the system. Raises SpoolLost, before the first batch."""
        if not self.path:
            yield from _slices(memoryview(self.data), self.index)
            return
        with self._opened() as file:
            position = 0
            for window, size_bytes in _windows(self.index):
                before = position % mmap.ALLOCATIONGRANULARITY  # where a mapping may begin
                mapped = mmap.mmap(
                    file.fileno(), before + size_bytes, offset=position - before, access=mmap.ACCESS_READ
                )
                yield from _slices(memoryview(mapped)[before:], window)
                position += size_bytes
        with suppress(OSError):  # `Spool.clear` tries again
            os.unlink(self.path)

    def _opened(self) -> BufferedReader:
        try:
            file = open(self.path, "rb")  # noqa: SIM115  # by the caller's `with`
        except OSError as error:
            raise SpoolLost(
                f"the driver cannot read {self.path}, which a task has written ({error}): is the spoolLocation shared?"
            ) from error
        found, wanted = os.fstat(file.fileno()).st_size, sum(size for _, _, size in self.index)
        if found != wanted:
            file.close()
            raise SpoolLost(f"{self.path} has {found} bytes, and its task wrote {wanted}")
        return file


def _slices(view: memoryview, index: Sequence[tuple[str, int, int]]) -> Iterator[tuple[str, int, memoryview]]:
    position = 0
    for topic, partition, size_bytes in index:
        yield topic, partition, view[position : position + size_bytes]
        position += size_bytes


def _windows(index: Sequence[tuple[str, int, int]]) -> Iterator[tuple[Sequence[tuple[str, int, int]], int]]:
    """Yield parts of an index of some 16 MiB, or of one batch that is larger, and their sizes in bytes."""
    first = size_bytes = 0
    for at, (_, _, more) in enumerate(index):
        if size_bytes and size_bytes + more > _WINDOW_BYTES:
            yield index[first:at], size_bytes
            first, size_bytes = at, 0
        size_bytes += more
    if size_bytes:
        yield index[first:], size_bytes
