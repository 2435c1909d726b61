"""A Disk and a File that pass every call to the one below, for those that change a few of them.

Owns: the passing. A wrapper derives from these and overrides only the calls that it changes.
"""

from collections.abc import Sequence

from oncelog.broker.turns.ports import Buffer, Disk, File, Notes


class WrappedDisk:
    def __init__(self, below: Disk) -> None:
        self._below = below

    def open(self, path: str) -> File:
        return self._below.open(path)

    def exists(self, path: str) -> bool:
        return self._below.exists(path)

    def list_dir(self, path: str) -> list[str]:
        return self._below.list_dir(path)

    def make_dir(self, path: str) -> None:
        self._below.make_dir(path)

    def read_bytes(self, path: str) -> bytes:
        return self._below.read_bytes(path)

    def read_range(self, path: str, start: int, end: int) -> bytes:
        return self._below.read_range(path, start, end)

    def write_atomically(self, path: str, data: Buffer) -> None:
        self._below.write_atomically(path, data)

    def rename(self, old_path: str, new_path: str) -> None:
        self._below.rename(old_path, new_path)

    def lend(self, path: str, new_path: str) -> int:
        return self._below.lend(path, new_path)

    def delete(self, path: str) -> None:
        self._below.delete(path)

    def delete_tree(self, path: str) -> None:
        self._below.delete_tree(path)

    def sync_dir(self, path: str) -> None:
        self._below.sync_dir(path)

    def volume_bytes(self) -> tuple[int, int]:
        return self._below.volume_bytes()

    @property
    def notes(self) -> Notes:
        return self._below.notes


class WrappedFile:
    def __init__(self, below: File) -> None:
        self._below = below

    @property
    def path(self) -> str:
        return self._below.path

    @property
    def size_bytes(self) -> int:
        return self._below.size_bytes

    def append(self, parts: Sequence[Buffer]) -> int:
        return self._below.append(parts)

    def overwrite(self, position: int, data: Buffer) -> None:
        self._below.overwrite(position, data)

    def write_durably(self, position: int, data: Buffer) -> None:
        self._below.write_durably(position, data)

    def read_view(self, start: int, end: int) -> memoryview:
        return self._below.read_view(start, end)

    def cached_view(self, start: int, end: int) -> memoryview | None:
        return self._below.cached_view(start, end)

    def truncate(self, size_bytes: int) -> None:
        self._below.truncate(size_bytes)

    def sync(self) -> None:
        self._below.sync()

    def close(self) -> None:
        self._below.close()
