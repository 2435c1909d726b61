"""The Disk port over files that are only read: on read-only media, of another user, of a running broker.

Owns: the reading half of the port. Invariant: no file is opened for writing, created, or locked; a change raises
OSError.
"""

import errno
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn, Protocol

from oncelog.broker.storage.local.overlay_disk import ReadOnlyNotes
from oncelog.broker.system.regular_files import open_regular
from oncelog.broker.system.shared_notes import SharedNotes
from oncelog.broker.system.transfers import read_all
from oncelog.broker.turns.ports import Buffer, Notes


class SegmentFile(Protocol):
    """A file that is read, or what stands for one."""

    path: str
    size_bytes: int

    def read_view(self, start: int, end: int) -> memoryview:
        """Return the bytes [start, end), fewer at the end."""

    def close(self) -> None: ...


class ReadOnlyFile:
    """Holds a descriptor until `close`. Its size is the size at opening; others may still append."""

    def __init__(self, full_path: str, path: str) -> None:
        self.path = path
        self._descriptor = open_regular(full_path, os.O_RDONLY)
        self.size_bytes = os.fstat(self._descriptor).st_size

    def read_view(self, start: int, end: int) -> memoryview:
        return memoryview(read_all(self._descriptor, start, min(end, self.size_bytes)))

    def append(self, parts: Sequence[Buffer]) -> int:
        _refuse(self.path)

    def overwrite(self, position: int, data: Buffer) -> None:
        _refuse(self.path)

    def write_durably(self, position: int, data: Buffer) -> None:
        _refuse(self.path)

    def cached_view(self, start: int, end: int) -> memoryview | None:
        return self.read_view(start, end)

    def truncate(self, size_bytes: int) -> None:
        _refuse(self.path)

    def sync(self) -> None:
        _refuse(self.path)

    def close(self) -> None:
        os.close(self._descriptor)

    def __enter__(self) -> "ReadOnlyFile":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ReadOnlyDisk:
    def __init__(self, root: Path) -> None:
        self._root = root

    def open(self, path: str) -> ReadOnlyFile:
        return ReadOnlyFile(str(self._root / path), path)

    def exists(self, path: str) -> bool:
        return (self._root / path).exists()

    def list_dir(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(self._root / path))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def read_bytes(self, path: str) -> bytes:
        with open(self._root / path, "rb", opener=open_regular) as file:
            return file.read()

    def read_range(self, path: str, start: int, end: int) -> bytes:
        with self.open(path) as file:
            return bytes(file.read_view(start, end))

    def volume_bytes(self) -> tuple[int, int]:
        status = os.statvfs(self._root)
        return status.f_blocks * status.f_frsize, 0

    @property
    def notes(self) -> Notes:
        return ReadOnlyNotes(SharedNotes(str(self._root)))

    def make_dir(self, path: str) -> None:
        _refuse(path)

    def write_atomically(self, path: str, data: Buffer) -> None:
        _refuse(path)

    def rename(self, old_path: str, new_path: str) -> None:
        _refuse(old_path)

    def lend(self, path: str, new_path: str) -> int:
        _refuse(path)

    def delete(self, path: str) -> None:
        _refuse(path)

    def delete_tree(self, path: str) -> None:
        _refuse(path)

    def sync_dir(self, path: str) -> None:
        _refuse(path)


def _refuse(path: str) -> NoReturn:
    raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
