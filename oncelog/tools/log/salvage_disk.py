"""A Disk that reads what can be read of a failing one: zeros replace unreadable blocks.

Owns: skipping a block. Everything else is passed to the disk below.
Invariant: bytes that are not zero are those of the file; checksums find the rest damaged.
"""

import errno
from collections.abc import Sequence

from oncelog.broker.turns.ports import Buffer, Disk, File, Notes

BLOCK_BYTES = 4096
_BAD_BLOCK = frozenset({errno.EIO})


class SalvageDisk:
    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self.bad_files: set[str] = set()
        """Files with at least one unreadable block."""

    def open(self, path: str) -> File:
        return _SalvagedFile(self._disk.open(path), self)

    def read_bytes(self, path: str) -> bytes:
        try:
            return self._disk.read_bytes(path)
        except OSError as error:
            if error.errno not in _BAD_BLOCK:
                raise
        file = self._disk.open(path)
        try:
            return self.read_range(path, 0, file.size_bytes)
        finally:
            file.close()

    def read_range(self, path: str, start: int, end: int) -> bytes:
        try:
            return self._disk.read_range(path, start, end)
        except OSError as error:
            if error.errno not in _BAD_BLOCK:
                raise
        self.bad_files.add(path)
        return b"".join(self._block(path, at, min(end, at + BLOCK_BYTES)) for at in range(start, end, BLOCK_BYTES))

    def _block(self, path: str, start: int, end: int) -> bytes:
        try:
            return self._disk.read_range(path, start, end)
        except OSError as error:
            if error.errno not in _BAD_BLOCK:
                raise
            return bytes(end - start)

    def exists(self, path: str) -> bool:
        return self._disk.exists(path)

    def list_dir(self, path: str) -> list[str]:
        return self._disk.list_dir(path)

    def make_dir(self, path: str) -> None:
        self._disk.make_dir(path)

    def write_atomically(self, path: str, data: Buffer) -> None:
        self._disk.write_atomically(path, data)

    def rename(self, old_path: str, new_path: str) -> None:
        self._disk.rename(old_path, new_path)

    def delete(self, path: str) -> None:
        self._disk.delete(path)

    def delete_tree(self, path: str) -> None:
        self._disk.delete_tree(path)

    def sync_dir(self, path: str) -> None:
        self._disk.sync_dir(path)

    def volume_bytes(self) -> tuple[int, int]:
        return self._disk.volume_bytes()

    @property
    def notes(self) -> Notes:
        return self._disk.notes


class _SalvagedFile:
    def __init__(self, file: File, disk: SalvageDisk) -> None:
        self._file = file
        self._disk = disk

    @property
    def path(self) -> str:
        return self._file.path

    @property
    def size_bytes(self) -> int:
        return self._file.size_bytes

    def read_view(self, start: int, end: int) -> memoryview:
        try:
            return self._file.read_view(start, end)
        except OSError as error:
            if error.errno not in _BAD_BLOCK:
                raise
            return memoryview(self._disk.read_range(self.path, start, min(end, self.size_bytes)))

    def append(self, parts: Sequence[Buffer]) -> int:
        return self._file.append(parts)

    def overwrite(self, position: int, data: Buffer) -> None:
        self._file.overwrite(position, data)

    def write_durably(self, position: int, data: Buffer) -> None:
        self._file.write_durably(position, data)

    def cached_view(self, start: int, end: int) -> memoryview | None:
        return self.read_view(start, end)

    def truncate(self, size_bytes: int) -> None:
        self._file.truncate(size_bytes)

    def sync(self) -> None:
        self._file.sync()

    def close(self) -> None:
        self._file.close()
