"""A Disk that reads what can be read of a failing one: zeros replace unreadable blocks.

Owns: skipping a block. Everything else is passed to the disk below.
Invariant: bytes that are not zero are those of the file; checksums find the rest damaged.
"""

import errno

from oncelog.broker.system.wrapped_disk import WrappedDisk, WrappedFile
from oncelog.broker.turns.ports import Disk, File

BLOCK_BYTES = 4096
_BAD_BLOCK = frozenset({errno.EIO})


class SalvageDisk(WrappedDisk):
    def __init__(self, disk: Disk) -> None:
        super().__init__(disk)
        self.bad_files: set[str] = set()
        """The files with at least one unreadable block."""

    def open(self, path: str) -> File:
        return _SalvagedFile(self._below.open(path), self)

    def read_bytes(self, path: str) -> bytes:
        try:
            return self._below.read_bytes(path)
        except OSError as error:
            if error.errno not in _BAD_BLOCK:
                raise
        file = self._below.open(path)
        try:
            return self.read_range(path, 0, file.size_bytes)
        finally:
            file.close()

    def read_range(self, path: str, start: int, end: int) -> bytes:
        try:
            return self._below.read_range(path, start, end)
        except OSError as error:
            if error.errno not in _BAD_BLOCK:
                raise
        self.bad_files.add(path)
        return b"".join(self._block(path, at, min(end, at + BLOCK_BYTES)) for at in range(start, end, BLOCK_BYTES))

    def _block(self, path: str, start: int, end: int) -> bytes:
        try:
            return self._below.read_range(path, start, end)
        except OSError as error:
            if error.errno not in _BAD_BLOCK:
                raise
            return bytes(end - start)


class _SalvagedFile(WrappedFile):
    def __init__(self, file: File, disk: SalvageDisk) -> None:
        super().__init__(file)
        self._disk = disk

    def read_view(self, start: int, end: int) -> memoryview:
        try:
            return self._below.read_view(start, end)
        except OSError as error:
            if error.errno not in _BAD_BLOCK:
                raise
            return memoryview(self._disk.read_range(self.path, start, min(end, self.size_bytes)))

    def cached_view(self, start: int, end: int) -> memoryview | None:
        return self.read_view(start, end)
