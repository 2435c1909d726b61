"""The Notes port in the machine's shared memory.

Owns: the files `oncelog-…` in /dev/shm, one page each until they grow, and which directory a note is about. Does not
own: what is noted. Invariants
- A note is in a tmpfs, so that it goes with the machine, and not with another file system that fails. Where /dev/shm is
  none (another system, an image without it), there are no notes. A container has a /dev/shm of its own, unless the
  host's is mounted into it.
- A note is found only by the directory that it was made for, and only if this user owns it. Its pages are reserved: a
  full /dev/shm is an error when it is made, not a SIGBUS when it is written.
"""

import mmap
import os
import re
import stat
from contextlib import suppress

_ROOT = "/dev/shm"
_MOUNTS = "/proc/self/mounts"
_NAME = re.compile(r"[0-9a-f]{32}\Z")
_WORD_BYTES = 8
_OWN_WORDS = 2
"""The words of the note's own: the device and inode of the directory."""


class SharedNote:
    def __init__(self, name: str, descriptor: int, size_bytes: int) -> None:
        """Raises OSError."""
        self.name = name
        self.all_words = _mapped(descriptor, size_bytes)

    @property
    def words(self) -> memoryview:
        return self.all_words[_OWN_WORDS:]

    def grow(self, word_count: int) -> None:
        size_bytes = (word_count + _OWN_WORDS) * _WORD_BYTES
        descriptor = _open(self.name, os.O_RDWR)
        try:
            os.posix_fallocate(descriptor, 0, size_bytes)
            self.all_words = _mapped(descriptor, size_bytes)
        finally:
            os.close(descriptor)


def _mapped(descriptor: int, size_bytes: int) -> memoryview:
    return memoryview(mmap.mmap(descriptor, size_bytes)).cast("Q")


class SharedNotes:
    def __init__(self, directory: str) -> None:
        self._directory = directory

    def new_name(self) -> str:
        return os.urandom(16).hex()

    def create(self, name: str) -> SharedNote | None:
        if not _is_in_memory():
            return None
        try:
            descriptor = _open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        except OSError:
            return None
        try:
            os.posix_fallocate(descriptor, 0, mmap.PAGESIZE)
            note = SharedNote(name, descriptor, mmap.PAGESIZE)
            note.all_words[0], note.all_words[1] = self._identity()
            return note
        except OSError:
            self.delete(name)
            return None
        finally:
            os.close(descriptor)

    def open(self, name: str) -> SharedNote | None:
        if not _NAME.match(name) or not _is_in_memory():
            return None
        try:
            descriptor = _open(name, os.O_RDWR)
        except OSError:
            return None
        try:
            status = os.fstat(descriptor)
            is_ours = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
            if not is_ours or status.st_size < mmap.PAGESIZE or status.st_size % _WORD_BYTES:
                return None
            note = SharedNote(name, descriptor, status.st_size)
            return note if tuple(note.all_words[:_OWN_WORDS]) == self._identity() else None
        except OSError:
            return None
        finally:
            os.close(descriptor)

    def delete(self, name: str) -> None:
        if _NAME.match(name):
            with suppress(OSError):
                os.unlink(_path(name))

    def _identity(self) -> tuple[int, int]:
        status = os.stat(self._directory)
        return status.st_dev, status.st_ino


def _path(name: str) -> str:
    return f"{_ROOT}/oncelog-{name}"


def _open(name: str, flags: int) -> int:
    return os.open(_path(name), flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def _is_in_memory() -> bool:
    try:
        with open(_MOUNTS, encoding="utf-8", errors="replace") as mounts:
            kinds = [fields[2] for fields in map(str.split, mounts) if len(fields) > 2 and fields[1] == _ROOT]
    except OSError:
        return False  # not Linux
    return bool(kinds) and kinds[-1] == "tmpfs"
