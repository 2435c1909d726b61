"""A disk in memory that forgets, as real ones do, what was not synced.

Owns: files, their synced contents, the directory changes that are not yet durable, and the faults to inject.
Invariants: `crash` keeps at least what `sync`, `sync_dir` and `write_atomically` promised, and of the rest a random
part, files torn at any byte and changes of different directories in any order; `remounted` keeps as little, and the
notes; `kill` keeps everything.
"""

import errno
from collections.abc import Callable, Sequence
from random import Random

from oncelog.broker.system.transfers import MOST_BUFFERS, MOST_BYTES, write_all

Buffer = bytes | bytearray | memoryview
_SECTOR_BYTES = 512
_LONGEST_NAME = 255
"""Bytes, in most file systems of Linux."""


class PowerCut(BaseException):
    """Raised if the machine stops in the middle of an operation; it cannot be handled, and the only thing to do next is
    `crash`."""


class Inode:
    def __init__(self) -> None:
        self.data = bytearray()
        self.synced = bytearray()
        self.untouched_bytes = 0
        """How many of the synced bytes were not cut off since."""
        self.overwritten: list[tuple[int, int]] = []
        """The ranges of synced bytes that were overwritten and not synced again."""

    def sync(self, *, is_whole: bool) -> None:
        """Make the file durable. Without `is_whole`, what was synced before and not cut off since is not copied
        again."""
        self.sync_overwritten()
        start = 0 if is_whole else self.untouched_bytes
        self.synced[start:] = self.data[start:]
        self.untouched_bytes = len(self.data)

    def sync_overwritten(self) -> None:
        for start, end in self.overwritten:
            self.synced[start:end] = self.data[start:end]
        self.overwritten.clear()


class MemoryFile:
    def __init__(self, disk: "MemoryDisk", path: str, inode: Inode) -> None:
        self._disk = disk
        self.path = path
        self.inode = inode
        self.size_bytes = len(inode.data)

    def append(self, parts: Sequence[Buffer]) -> int:
        self._disk.check_descriptor(self.path)
        start = self.size_bytes
        if len(parts) <= MOST_BUFFERS and self._disk.most_bytes == MOST_BYTES:
            self.size_bytes += self._write(parts, start)
            return start
        try:
            self.size_bytes = write_all(MemoryFile._write, self, parts, start)
        except OSError:
            del self.inode.data[start:]
            raise
        return start

    def _write(self, parts: Sequence[Buffer], position: int) -> int:
        """Append as one pwritev of Linux does: not more buffers than it takes, nor more bytes than it moves."""
        data = b"".join(parts)
        torn = self._disk.count_operation("append", self.path)
        if len(parts) > MOST_BUFFERS:
            raise OSError(errno.EINVAL, "Invalid argument", self.path)
        self._disk.check_room(len(data), self.path)
        if torn:
            self.inode.data += data[: len(data) // 2]
            raise PowerCut(self.path)
        moved = data[: self._disk.most_bytes]
        self.inode.data += moved
        return len(moved)

    def overwrite(self, position: int, data: Buffer) -> None:
        self._disk.check_descriptor(self.path)
        if self._disk.count_operation("overwrite", self.path):
            data = data[: len(data) // 2]
            self._overwrite(position, data)
            raise PowerCut(self.path)
        self._overwrite(position, data)

    def _overwrite(self, position: int, data: Buffer) -> None:
        self.inode.data[position : position + len(data)] = data
        self.inode.overwritten.append((position, position + len(data)))

    def write_durably(self, position: int, data: Buffer) -> None:
        """Overwrite and sync. A power cut leaves any part of it: the beginning, the end, nothing."""
        self._disk.check_descriptor(self.path)
        torn = self._disk.count_operation("write_durably", self.path)
        if self._disk.sync_error is not None:
            raise self._disk.sync_error
        start, end = position, position + len(data)
        if torn:
            variant = position // 512 + self._disk.operation_count
            cut = len(data) * (variant % 4) // 3
            start, end = (position, position + cut) if variant % 8 < 4 else (end - cut, end)
        new = bytes(data)[start - position : end - position]
        self.inode.data[start:end] = new
        self.inode.synced[start:end] = new  # in place: a journal has megabytes
        if torn:
            raise PowerCut(self.path)
        self.inode.sync_overwritten()
        self._disk.sync_count += 1

    def read_view(self, start: int, end: int) -> memoryview:
        self._disk.check_descriptor(self.path)
        self._disk.check_read(self.path)
        return memoryview(bytes(self.inode.data[start:end]))

    def cached_view(self, start: int, end: int) -> memoryview | None:
        if self._disk.is_cold(self.path, start, end):
            return None
        return self.read_view(start, end)

    def truncate(self, size_bytes: int) -> None:
        self._disk.check_descriptor(self.path)
        if self._disk.count_operation("truncate", self.path):
            raise PowerCut(self.path)
        del self.inode.data[size_bytes:]
        self.inode.untouched_bytes = min(self.inode.untouched_bytes, size_bytes)
        self.size_bytes = size_bytes

    def sync(self) -> None:
        self._disk.check_descriptor(self.path)
        if self._disk.count_operation("sync", self.path):
            raise PowerCut(self.path)
        if self._disk.sync_error is not None:
            raise self._disk.sync_error
        self._disk.sync_count += 1
        self.inode.sync(is_whole=self._disk.is_watched)

    def close(self) -> None:
        return


class MemoryNote:
    def __init__(self, name: str, words: Buffer) -> None:
        self.name = name
        self.words = memoryview(bytearray(words)).cast("Q")

    def grow(self, word_count: int) -> None:
        old = bytes(self.words)
        self.words = memoryview(bytearray(old + bytes(8 * word_count - len(old)))).cast("Q")


class MemoryNotes:
    def __init__(self, names: Random | None = None) -> None:
        """`names` is the source of names: one for a disk and all of its copies, as the random one of a machine is, so
        that no two of their runs have the same. Seeded: a run of a seed is the same again."""
        self._names = names or Random(0)
        self.notes: dict[str, MemoryNote] = {}
        self.is_possible = True

    def new_name(self) -> str:
        return f"{self._names.getrandbits(128):032x}"

    def create(self, name: str) -> MemoryNote | None:
        if not self.is_possible:
            return None
        note = MemoryNote(name, bytes(8 * 64))
        self.notes[note.name] = note
        return note

    def open(self, name: str) -> MemoryNote | None:
        return self.notes.get(name)

    def delete(self, name: str) -> None:
        self.notes.pop(name, None)

    def copy(self) -> "MemoryNotes":
        """Return a copy of what the next process finds: another one may still write to these."""
        notes = MemoryNotes(self._names)
        notes.is_possible = self.is_possible
        notes.notes = {name: MemoryNote(name, bytes(note.words)) for name, note in self.notes.items()}
        return notes


class MemoryDisk:
    def __init__(self, *, is_watched: bool = True) -> None:
        """With `is_watched` every operation is noted, and files may be changed behind the disk's back."""
        self.is_watched = is_watched
        self.notes = MemoryNotes()
        self.files: dict[str, Inode] = {}
        self.directories: set[str] = {""}
        self._durable_files: dict[str, Inode] = {}
        self._durable_directories: set[str] = {""}
        # Directory changes not yet synced, by the directory they change, in order.
        self._pending: dict[str, list[tuple[str, str, Inode | None]]] = {}
        self.sync_count = 0
        self.operation_count = 0
        self.operations: list[tuple[str, str]] = []
        """The kind and path of each operation."""
        self.operations_left: int | None = None
        self.tears = True
        """The operation in which the power goes is done by half; otherwise the process ends before it."""
        self.capacity_bytes: int | None = None
        self.most_bytes = MOST_BYTES
        """The most bytes that one write moves."""
        self.sync_error: OSError | None = None
        self.unreadable: set[str] = set()
        """The files whose bytes cannot be read (EIO)."""
        self.refused: set[str] = set()
        """The files and directories that cannot be opened or listed (EACCES)."""
        self.append_error: Callable[[str], OSError | None] | None = None
        self.lacks_descriptor: Callable[[str], bool] = lambda _: False
        self.is_cold: Callable[[str, int, int], bool] = lambda *_: False
        """Whether these bytes of a file are not in the page cache."""

    # -- faults

    def count_operation(self, kind: str, path: str) -> bool:
        """Count an operation; return True if the power goes during it."""
        self.operation_count += 1
        if self.is_watched:
            self.operations.append((kind, path))
        if self.operations_left is None:
            return False
        self.operations_left -= 1
        if self.operations_left < 0 and not self.tears:
            raise PowerCut(path)
        return self.operations_left < 0

    def check_room(self, size_bytes: int, path: str) -> None:
        error = self.append_error(path) if self.append_error is not None else None
        if error is not None:
            raise error
        if self.capacity_bytes is not None and self.used_bytes + size_bytes > self.capacity_bytes:
            raise OSError(errno.ENOSPC, "No space left on device", path)

    def check_read(self, path: str) -> None:
        self.check_open(path)
        if path in self.unreadable:
            raise OSError(errno.EIO, "Input/output error", path)

    def check_descriptor(self, path: str) -> None:
        """Raise if there is no descriptor: whatever needs one may find none, as a File holds none of its own."""
        if self.lacks_descriptor(path):
            raise OSError(errno.EMFILE, "Too many open files", path)

    def check_open(self, path: str) -> None:
        if path in self.refused or path.rpartition("/")[0] in self.refused - {""}:
            raise PermissionError(errno.EACCES, "Permission denied", path)
        if path in self.directories:
            raise IsADirectoryError(errno.EISDIR, "Is a directory", path)
        if path.rpartition("/")[0] in self.files:
            raise NotADirectoryError(errno.ENOTDIR, "Not a directory", path)

    def _check_name(self, path: str) -> None:
        if any(len(name.encode()) > _LONGEST_NAME for name in path.split("/")):
            raise OSError(errno.ENAMETOOLONG, "File name too long", path)

    @property
    def used_bytes(self) -> int:
        return sum(len(inode.data) for inode in self.files.values())

    def kill(self) -> "MemoryDisk":
        """Return what the next process finds after kill -9: everything that was written."""
        disk = MemoryDisk(is_watched=self.is_watched)
        disk.notes = self.notes.copy()
        disk.directories = set(self.directories)
        disk.files = {
            path: _copy(bytes(inode.data), bytes(inode.synced), inode.untouched_bytes, inode.overwritten)
            for path, inode in self.files.items()
        }
        disk._durable_files = {path: disk.files[path] for path in self._durable_files if path in disk.files}
        disk._durable_directories = self._durable_directories & disk.directories
        disk.unreadable, disk.refused = set(self.unreadable), set(self.refused)
        disk._pending = {
            parent: [(kind, path, disk.files.get(path)) for kind, path, _ in changes]
            for parent, changes in self._pending.items()
        }
        return disk

    def crash(self, random: Random) -> "MemoryDisk":
        """Return what the next process may find after a power cut."""
        disk = self.remounted(random)
        disk.notes.notes.clear()
        return disk

    def remounted(self, random: Random) -> "MemoryDisk":
        """Return what the next process may find after the file system failed and was mounted again, on a machine that
        has run all the time."""
        files, directories = dict(self._durable_files), set(self._durable_directories)
        for parent in sorted(self._pending):
            changes = self._pending[parent]
            for kind, path, inode in changes[: random.randint(0, len(changes))]:
                _apply(files, directories, kind, path, inode)
        disk = MemoryDisk(is_watched=self.is_watched)
        disk.notes = self.notes.copy()
        disk.directories = directories
        for path in sorted(files):
            parent = path.rpartition("/")[0]
            if parent in directories:
                content = _torn(files[path], random)
                disk.files[path] = _copy(content, content)
        disk._durable_files = dict(disk.files)
        disk._durable_directories = set(directories)
        return disk

    def make_durable(self) -> None:
        """Make what is there now durable, tests' own changes included."""
        self._pending.clear()
        self._durable_files = dict(self.files)
        self._durable_directories = set(self.directories)
        for inode in self.files.values():
            inode.sync(is_whole=True)

    # -- the Disk port

    def open(self, path: str) -> MemoryFile:
        parent = path.rpartition("/")[0]
        self.check_open(path)
        if parent not in self.directories:
            raise FileNotFoundError(errno.ENOENT, "No such directory", parent)
        if path not in self.files:
            self._check_name(path)
            self.check_descriptor(path)
            if self.count_operation("create", path):
                raise PowerCut(path)
            inode = Inode()
            self.files[path] = inode
            self._change(parent, "create", path, inode)
        return MemoryFile(self, path, self.files[path])

    def exists(self, path: str) -> bool:
        return path in self.files or path in self.directories

    def list_dir(self, path: str) -> list[str]:
        self.check_descriptor(path)
        prefix = f"{path}/" if path else ""
        if path in self.refused:
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return sorted(
            name[len(prefix) :]
            for name in (*self.files, *self.directories)
            if name.startswith(prefix) and name != path and "/" not in name[len(prefix) :]
        )

    def make_dir(self, path: str) -> None:
        if path not in self.directories:
            self._check_name(path)
            if self.count_operation("make_dir", path):
                raise PowerCut(path)
            self.directories.add(path)
            self._change(path.rpartition("/")[0], "make_dir", path, None)

    def read_bytes(self, path: str) -> bytes:
        self.check_descriptor(path)
        self.check_read(path)
        if path not in self.files:
            raise FileNotFoundError(errno.ENOENT, "No such file", path)
        return bytes(self.files[path].data)

    def read_range(self, path: str, start: int, end: int) -> bytes:
        self.check_read(path)
        return self.read_bytes(path)[start:end]

    def write_atomically(self, path: str, data: Buffer) -> None:
        self._check_name(f"{path}.tmp")
        self.check_descriptor(path)
        if self.count_operation("write_atomically", path):
            raise PowerCut(path)
        if path in self.directories:
            raise IsADirectoryError(errno.EISDIR, "Is a directory", path)
        self.unreadable.discard(path)  # another file now, on other sectors
        self.check_room(len(data), path)
        inode = _copy(bytes(data), bytes(data))
        self.files[path] = inode
        self._change(path.rpartition("/")[0], "create", path, inode)
        self._sync_dir(path.rpartition("/")[0])

    def rename(self, old_path: str, new_path: str) -> None:
        self._check_name(new_path)
        if self.count_operation("rename", old_path):
            raise PowerCut(old_path)
        moved = [
            (kind, changed.replace(f"{old_path}/", f"{new_path}/"), inode)
            for kind, changed, inode in self._pending.pop(old_path, [])
        ]
        if moved:
            self._pending[new_path] = moved
        _rename(self.files, self.directories, old_path, new_path)
        self.unreadable = {_moved(name, old_path, new_path) for name in self.unreadable - {new_path}}
        self._change(old_path.rpartition("/")[0], "rename", f"{old_path}>{new_path}", None)

    def lend(self, path: str, new_path: str) -> int:
        self.check_open(path)
        if path not in self.files:
            raise FileNotFoundError(errno.ENOENT, "No such file", path)
        self._check_name(new_path)
        if self.count_operation("lend", path):
            raise PowerCut(path)
        self.files[new_path] = self.files[path]
        self._change(new_path.rpartition("/")[0], "create", new_path, self.files[path])
        return len(self.files[path].data)

    def delete(self, path: str) -> None:
        if path in self.directories:
            raise IsADirectoryError(errno.EISDIR, "Is a directory", path)
        self._delete(path)

    def delete_tree(self, path: str) -> None:
        """Delete a tree child by child, as a real one does: the power may go when only some are gone."""
        for name in self.list_dir(path):
            self.delete_tree(f"{path}/{name}")
        self._delete(path)

    def _delete(self, path: str) -> None:
        if not self.exists(path):
            return
        if self.count_operation("delete", path):
            raise PowerCut(path)
        _delete(self.files, self.directories, path)
        self.unreadable.discard(path)
        self._change(path.rpartition("/")[0], "delete", path, None)

    def sync_dir(self, path: str) -> None:
        self.check_descriptor(path)
        if self.count_operation("sync_dir", path):
            raise PowerCut(path)
        if path not in self.directories:
            raise FileNotFoundError(errno.ENOENT, "No such directory", path)
        if self.sync_error is not None:
            raise self.sync_error
        self._sync_dir(path)

    def volume_bytes(self) -> tuple[int, int]:
        capacity = self.capacity_bytes if self.capacity_bytes is not None else 2**30
        return capacity, capacity - self.used_bytes

    def _sync_dir(self, path: str) -> None:
        for kind, changed, inode in self._pending.pop(path, []):
            _apply(self._durable_files, self._durable_directories, kind, changed, inode)

    def _change(self, parent: str, kind: str, path: str, inode: Inode | None) -> None:
        self._pending.setdefault(parent, []).append((kind, path, inode))


def _moved(path: str, old_path: str, new_path: str) -> str:
    return new_path + path[len(old_path) :] if path == old_path or path.startswith(f"{old_path}/") else path


def _copy(
    data: bytes, synced: bytes, untouched_bytes: int | None = None, overwritten: Sequence[tuple[int, int]] = ()
) -> Inode:
    inode = Inode()
    inode.data += data
    inode.synced += synced
    inode.untouched_bytes = len(synced) if untouched_bytes is None else untouched_bytes
    inode.overwritten += overwritten
    return inode


def _apply(files: dict[str, Inode], directories: set[str], kind: str, path: str, inode: Inode | None) -> None:
    if kind == "create" and inode is not None:
        files[path] = inode
    elif kind == "make_dir":
        directories.add(path)
    elif kind == "delete":
        _delete(files, directories, path)
    elif kind == "rename":
        old_path, _, new_path = path.partition(">")
        _rename(files, directories, old_path, new_path)


def _delete(files: dict[str, Inode], directories: set[str], path: str) -> None:
    files.pop(path, None)
    directories.discard(path)
    for child in [name for name in files if name.startswith(f"{path}/")]:
        del files[child]


def _rename(files: dict[str, Inode], directories: set[str], old_path: str, new_path: str) -> None:
    if old_path in files:
        files[new_path] = files.pop(old_path)
    if old_path in directories:
        directories.discard(old_path)
        directories.add(new_path)
        for child in [name for name in files if name.startswith(f"{old_path}/")]:
            files[new_path + child[len(old_path) :]] = files.pop(child)


def _torn(inode: Inode, random: Random) -> bytes:
    """Return the synced bytes, and of later ones any part: pages may be missing in the middle (zeros) and at the end,
    sectors that were overwritten may be old or new."""
    data, synced = bytes(inode.data), bytes(inode.synced)
    if inode.overwritten:
        synced = _with_some_sectors(inode, random)
        data = synced + data[len(synced) :]
    if synced.startswith(data):  # cut since the sync
        return random.choice([synced, data])
    if not data.startswith(synced):  # rewritten since the sync
        return random.choice([synced, data[: random.randint(inode.untouched_bytes, len(data))]])
    tail = bytearray(data[len(synced) :][: random.randint(0, len(data) - len(synced))])
    if len(tail) > 1 and random.random() < 0.3:
        start = random.randrange(len(tail))
        end = random.randint(start, len(tail))
        tail[start:end] = bytes(end - start)
    return synced + bytes(tail)


def _with_some_sectors(inode: Inode, random: Random) -> bytes:
    content = bytearray(inode.synced)
    for start, end in inode.overwritten:
        for sector in range(start - start % _SECTOR_BYTES, end, _SECTOR_BYTES):
            if random.random() < 0.5:
                first, last = max(start, sector), min(end, sector + _SECTOR_BYTES)
                content[first:last] = inode.data[first:last]
    return bytes(content)
