"""A copy-on-write Disk: changes stay in memory, the disk below is never written.

Owns: the changes. Recovery runs on it as a dry run, to see what a start would find and do; a read-only broker serves
from it.
Invariants
- Reads return what a real disk would after the same changes.
- `read_range`, which other threads may call, opens nothing that stays open.
"""

import errno
import os
from collections.abc import Sequence

from oncelog.broker.turns.ports import Buffer, Disk, File, Note, Notes


class _Content:
    """The first `kept_bytes` of the file below, and what was written after them."""

    def __init__(self, disk: Disk, path: str | None) -> None:
        self._disk = disk
        self._path = path
        self._file: File | None = disk.open(path) if path is not None else None
        self._kept_bytes = self._file.size_bytes if self._file is not None else 0
        self._written = bytearray()

    @property
    def size_bytes(self) -> int:
        return self._kept_bytes + len(self._written)

    def append(self, parts: Sequence[Buffer]) -> int:
        start = self.size_bytes
        for part in parts:
            self._written += part
        return start

    def truncate(self, size_bytes: int) -> None:
        del self._written[max(0, size_bytes - self._kept_bytes) :]
        self._kept_bytes = min(self._kept_bytes, size_bytes)

    def read(self, start: int, end: int) -> memoryview:
        kept = memoryview(b"")
        if self._file is not None and start < self._kept_bytes:
            kept = self._file.read_view(start, min(end, self._kept_bytes))
            if end <= self._kept_bytes or not self._written:
                return kept
        written = self._written[max(0, start - self._kept_bytes) : max(0, end - self._kept_bytes)]
        return memoryview(bytes(kept) + bytes(written))

    def read_cached(self, start: int, end: int) -> memoryview | None:
        if self._file is not None and start < self._kept_bytes:
            kept = self._file.cached_view(start, min(end, self._kept_bytes))
            if kept is None or end <= self._kept_bytes or not self._written:
                return kept
        return self.read(start, end)

    def read_range(self, start: int, end: int) -> bytes:
        kept = b""
        if self._path is not None and start < self._kept_bytes:
            kept = self._disk.read_range(self._path, start, min(end, self._kept_bytes))
        return kept + bytes(self._written[max(0, start - self._kept_bytes) : max(0, end - self._kept_bytes)])

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


class _OverlayFile:
    def __init__(self, path: str, content: _Content) -> None:
        self.path = path
        self._content = content

    @property
    def size_bytes(self) -> int:
        return self._content.size_bytes

    def append(self, parts: Sequence[Buffer]) -> int:
        return self._content.append(parts)

    def read_view(self, start: int, end: int) -> memoryview:
        return self._content.read(start, end)

    def cached_view(self, start: int, end: int) -> memoryview | None:
        return self._content.read_cached(start, end)

    def overwrite(self, position: int, data: Buffer) -> None:
        self.write_durably(position, data)

    def write_durably(self, position: int, data: Buffer) -> None:
        rest = bytes(self._content.read(position + len(data), self.size_bytes))
        self._content.truncate(position)
        self._content.append([data, rest])

    def truncate(self, size_bytes: int) -> None:
        self._content.truncate(size_bytes)

    def sync(self) -> None:
        return

    def close(self) -> None:
        self._content.close()


class ReadOnlyNotes:
    """The notes of the directory below, which are found, and neither made nor deleted."""

    def __init__(self, below: Notes) -> None:
        self._below = below

    def new_name(self) -> str:
        return self._below.new_name()

    def create(self, name: str) -> None:
        return None

    def open(self, name: str) -> Note | None:
        return self._below.open(name)

    def delete(self, name: str) -> None:
        return


class OverlayDisk:
    def __init__(self, below: Disk) -> None:
        self._below = below
        # None: deleted here. Every path that was opened or changed here is listed.
        self._contents: dict[str, _Content | None] = {}
        self._made_directories: set[str] = set()

    def open(self, path: str) -> _OverlayFile:
        content = self._contents.get(path)
        if content is None:
            is_below = path not in self._contents and self._below.exists(path)
            content = self._contents[path] = _Content(self._below, path if is_below else None)
        return _OverlayFile(path, content)

    def exists(self, path: str) -> bool:
        if path in self._contents:
            return self._contents[path] is not None
        return path in self._made_directories or self._below.exists(path)

    def list_dir(self, path: str) -> list[str]:
        prefix = f"{path}/" if path else ""
        names = set(self._below.list_dir(path)) if path not in self._contents else set()
        for known in (*self._contents, *self._made_directories):
            if known.startswith(prefix) and known != path:
                names.add(known[len(prefix) :].partition("/")[0])
        return sorted(name for name in names if self.exists(prefix + name))

    def make_dir(self, path: str) -> None:
        self._made_directories.add(path)

    def read_bytes(self, path: str) -> bytes:
        if not self.exists(path):
            raise FileNotFoundError(path)
        content = self.open(path)
        return bytes(content.read_view(0, content.size_bytes))

    def read_range(self, path: str, start: int, end: int) -> bytes:
        if path not in self._contents:
            return self._below.read_range(path, start, end)
        content = self._contents[path]
        if content is None:
            raise FileNotFoundError(path)
        return content.read_range(start, end)

    def write_atomically(self, path: str, data: Buffer) -> None:
        content = self._contents[path] = _Content(self._below, None)
        content.append([data])

    def rename(self, old_path: str, new_path: str) -> None:
        for name in self.list_dir(old_path):
            self.rename(f"{old_path}/{name}", f"{new_path}/{name}")
        is_file = self._contents.get(old_path) is not None or not self.list_dir(old_path)
        if is_file and self.exists(old_path):
            self._contents[new_path] = self._contents.get(old_path) or _Content(self._below, old_path)
        else:
            self._made_directories.add(new_path)
        self._forget(old_path)

    def lend(self, path: str, new_path: str) -> int:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)  # who changes nothing lends nothing

    def delete(self, path: str) -> None:
        self._forget(path)

    def delete_tree(self, path: str) -> None:
        for name in self.list_dir(path):
            self.delete_tree(f"{path}/{name}")
        self._forget(path)

    def _forget(self, path: str) -> None:
        self._contents[path] = None
        self._made_directories.discard(path)

    def volume_bytes(self) -> tuple[int, int]:
        return self._below.volume_bytes()

    @property
    def notes(self) -> Notes:
        return ReadOnlyNotes(self._below.notes)

    def sync_dir(self, path: str) -> None:
        return
