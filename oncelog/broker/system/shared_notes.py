"""The Notes port in the machine's shared memory.

Owns: the files `oncelog-…` in /dev/shm, one page each until they grow, and which directory a note is about. Does not
own: what is noted. Invariants
- A note is in a tmpfs, so that it goes with the machine, and not with another file system that fails. Where /dev/shm is
  none (another system, an image without it), there are no notes. A container has a /dev/shm of its own, unless the
  host's is mounted into it.
- A note is found only by the directory that it was made for, and only if this user owns it. Its pages are reserved: a
  full /dev/shm is an error when it is made, not a SIGBUS when it is written.
- A note whose directory was removed is removed when this user next creates one. Only where no start can look for it as
  far as its place says: on the file system that is mounted there, its parent is, and the directory is neither in it nor
  beside under another name. One that was moved to another parent looks the same: its next start finds no note, as after
  a power cut. What another mount namespace has made, as a container that shares /dev/shm, stays.
"""

import mmap
import os
import re
import stat
from contextlib import suppress
from struct import Struct

_ROOT = "/dev/shm"
_MOUNTS = "/proc/self/mounts"
_NAME = re.compile(r"[0-9a-f]{32}\Z")
_WORD_BYTES = 8
_PREFIX = "oncelog-"
_OWN_WORDS = 2
"""The words of the note's own: the device and inode of the directory."""
_PLACE = Struct("=8s3QH")
"""The end of a note: a magic, the mount namespace, the device and inode of its root, and the size of the path that
follows. Earlier versions neither write nor read it."""
_PLACE_BYTES = 1024
_PLACE_MAGIC = b"oncenote"


class SharedNote:
    def __init__(self, name: str, descriptor: int, size_bytes: int, place: bytes = b"") -> None:
        """`place` is where the directory is, for a note that is made. Raises OSError."""
        self.name = name
        self._place = place
        self.all_words = self._mapped(descriptor, size_bytes)

    @property
    def words(self) -> memoryview:
        return self.all_words[_OWN_WORDS : len(self.all_words) - len(self._place) // _WORD_BYTES]

    def grow(self, word_count: int) -> None:
        size_bytes = (word_count + _OWN_WORDS) * _WORD_BYTES + len(self._place)
        descriptor = _open(self.name, os.O_RDWR)
        try:
            os.posix_fallocate(descriptor, 0, size_bytes)
            before = self.all_words
            self.all_words = self._mapped(descriptor, size_bytes)
            place_at = len(before) - len(self._place) // _WORD_BYTES
            before[place_at:] = memoryview(bytes(len(self._place))).cast("Q")  # these are words now
        finally:
            os.close(descriptor)

    def _mapped(self, descriptor: int, size_bytes: int) -> memoryview:
        mapped = mmap.mmap(descriptor, size_bytes)
        mapped[size_bytes - len(self._place) :] = self._place
        return memoryview(mapped).cast("Q")


class SharedNotes:
    def __init__(self, directory: str) -> None:
        self._directory = directory

    def new_name(self) -> str:
        return os.urandom(16).hex()

    def create(self, name: str) -> SharedNote | None:
        if not _is_in_memory():
            return None
        remove_orphans()
        try:
            descriptor = _open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        except OSError:
            return None
        try:
            os.posix_fallocate(descriptor, 0, mmap.PAGESIZE)
            note = SharedNote(name, descriptor, mmap.PAGESIZE, _place_of(self._directory))
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
    return f"{_ROOT}/{_PREFIX}{name}"


def _open(name: str, flags: int) -> int:
    return os.open(_path(name), flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def _is_in_memory() -> bool:
    try:
        with open(_MOUNTS, encoding="utf-8", errors="replace") as mounts:
            kinds = [fields[2] for fields in map(str.split, mounts) if len(fields) > 2 and fields[1] == _ROOT]
    except OSError:
        return False  # not Linux
    return bool(kinds) and kinds[-1] == "tmpfs"


def _place_of(directory: str) -> bytes:
    """Raises OSError."""
    path = os.fsencode(os.path.realpath(directory))
    if _PLACE.size + len(path) > _PLACE_BYTES:
        path = b""  # such a note stays until the machine stops
    return (_PLACE.pack(_PLACE_MAGIC, *_namespace(), len(path)) + path).ljust(_PLACE_BYTES, b"\0")


def _namespace() -> tuple[int, int, int]:
    """Where paths mean the same as here. Raises OSError."""
    root = os.stat("/")
    return os.stat("/proc/self/ns/mnt").st_ino, root.st_dev, root.st_ino


def remove_orphans() -> None:
    """Remove the notes of this user whose directories were removed, and their parents were not."""
    try:
        names, here = os.listdir(_ROOT), _namespace()
    except OSError:
        return
    for name in names:
        if name.startswith(_PREFIX) and _NAME.match(name[len(_PREFIX) :]):
            with suppress(OSError):
                if _is_orphan(name[len(_PREFIX) :], here):
                    os.unlink(f"{_ROOT}/{name}")


def _is_orphan(name: str, here: tuple[int, int, int]) -> bool:
    """Raises OSError."""
    descriptor = _open(name, os.O_RDONLY)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
            return False
        data = os.pread(descriptor, status.st_size, 0)
    finally:
        os.close(descriptor)
    place = data[-_PLACE_BYTES:]
    if len(data) < mmap.PAGESIZE or not place.startswith(_PLACE_MAGIC):
        return False
    _, *namespace, path_bytes = _PLACE.unpack_from(place)
    path = os.fsdecode(place[_PLACE.size : _PLACE.size + path_bytes])
    identity = tuple(memoryview(data[: _OWN_WORDS * _WORD_BYTES]).cast("Q"))
    return tuple(namespace) == here and bool(path) and not _may_exist(path, identity)


def _may_exist(path: str, identity: tuple[int, ...]) -> bool:
    """Whether the directory is where it was, or beside that, or may be: its file system may not be mounted, or a
    directory above it may have another name now. Raises OSError."""
    parent = os.path.dirname(path)
    nearest = path if os.path.lexists(path) else parent
    if not os.path.lexists(nearest):
        return True
    status = os.stat(nearest)
    if status.st_dev != identity[0] or (status.st_dev, status.st_ino) == identity:
        return True  # it is there, or its file system is not mounted here now
    with os.scandir(parent) as entries:
        beside = [entry.stat(follow_symlinks=False) for entry in entries if entry.is_dir(follow_symlinks=False)]
    return any((each.st_dev, each.st_ino) == identity for each in beside)
