"""A data directory opened by descriptor, so that no link can lead a command outside it.

Owns: names within a directory, the walk over a data directory, which entries are refused. Does not own: which files are
copied, and what for (`backup`, `adopt`, `graduate`).

Commands run as root, and the directory belongs to a service. Its owner may put links, FIFOs and devices into it, also
between a look and a use, and names with `..` into a list of files. So each name is opened below the descriptor of its
directory, no link is followed, and what is checked is what was opened. Only the directory itself, which an operator has
named, may be reached by a link.

Limit: `check_directories` and `check_files` look once, and the command then opens files by path (what reads or writes a
log does). A link in the place of a file is refused then too; the owner of the data directory can put one in the place
of a partition's directory after the look, and it is followed.

Invariants
- The path of a file is `name` or `directory/name`.
- In a directory of another user, root takes no hard-linked file that belongs to a third one: creating a hard link needs
  no read permission. In its own directories root has made each link itself, as `oncelog adopt` does.
"""

import errno
import os
import shutil
import stat
from collections.abc import Collection, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import NoReturn

from oncelog.broker.storage.local.partition_directory import partition_of
from oncelog.broker.system.regular_files import open_regular, require_regular

ROOT = 0
_OPENED = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_OUTSIDE = frozenset(("", ".", ".."))


class HeldDirectory:
    """A directory by its descriptor, for a `with` block. Each method raises OSError, with the whole path."""

    __slots__ = ("_descriptor", "path")

    def __init__(self, path: Path, descriptor: int | None = None) -> None:
        self.path = path
        self._descriptor = os.open(path, _OPENED) if descriptor is None else descriptor

    def __enter__(self) -> "HeldDirectory":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        os.close(self._descriptor)

    @property
    def owner(self) -> tuple[int, int]:
        """The ids of the user and the group."""
        status = os.fstat(self._descriptor)
        return status.st_uid, status.st_gid

    def names(self) -> list[str]:
        return sorted(os.listdir(self._descriptor))

    def files(self) -> Iterator[tuple[str, int]]:
        """Yield the path and the size of each file, here and in the directories of partitions. Raises OSError for
        whatever else is there; what disappears meanwhile is left out."""
        for directory, name, status in self._walk():
            directory._require_own(name, status)
            yield name if directory is self else f"{directory.path.name}/{name}", status.st_size

    def _walk(self) -> Iterator[tuple["HeldDirectory", str, os.stat_result]]:
        for name in self.names():
            status = self._status(name)
            if status is None:
                continue
            if not stat.S_ISDIR(status.st_mode):
                yield self, name, status
            elif partition_of(name):
                try:
                    opened = self.within(name)
                except FileNotFoundError:  # a running broker has deleted the topic
                    continue
                with opened as partition:
                    found = ((each, partition._status(each)) for each in partition.names())
                    yield from ((partition, each, status) for each, status in found if status is not None)

    def check(self) -> None:
        """Raises OSError with the name of what is there and no regular file."""
        for _ in self.files():
            pass

    # --- a directory in this one

    def within(self, name: str) -> "HeldDirectory":
        self._require_name(name)
        try:
            return HeldDirectory(self.path / name, os.open(name, _OPENED | os.O_NOFOLLOW, dir_fd=self._descriptor))
        except OSError as error:
            self._refuse_link(name)
            self._fail(error, name)

    def make(self, name: str) -> "HeldDirectory":
        """Make a directory, accessible only to its owner, and open it."""
        self._require_name(name)
        try:
            os.mkdir(name, 0o700, dir_fd=self._descriptor)
        except OSError as error:
            self._fail(error, name)
        made = self.within(name)
        if made.owner[0] == os.geteuid():
            return made
        with made:
            raise OSError(errno.EEXIST, "replaced just now by another directory", str(made.path))

    @contextmanager
    def directory_of(self, path: str) -> Iterator[tuple["HeldDirectory", str]]:
        """Yield the directory of a file, and the file's name in it."""
        where, _, name = path.rpartition("/")
        self._require_name(name)
        if not where:
            yield self, name
            return
        with self.within(where) as directory:
            yield directory, name

    # --- a file

    def open(self, path: str, flags: int = os.O_RDONLY) -> int:
        with self.directory_of(path) as (directory, name):
            return directory._open(name, flags)

    def _open(self, name: str, flags: int) -> int:
        try:
            descriptor = open_regular(name, flags, directory=self._descriptor)
        except OSError as error:
            self._fail(error, name)
        try:
            self._require_own(name, os.fstat(descriptor))
        except OSError:
            os.close(descriptor)
            raise
        return descriptor

    def create(self, path: str) -> int:
        """Open a file that does not exist yet, for writing."""
        return self.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)

    def read(self, path: str) -> bytes:
        with open(self.open(path), "rb") as file:
            return file.read()

    def write(self, path: str, content: bytes) -> None:
        """Write a file that does not exist yet; it is durable, except for its name."""
        with open(self.create(path), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())

    def link(self, path: str, target: "HeldDirectory") -> None:
        """Give a file a second name, the same one in the other directory."""
        with self.directory_of(path) as (directory, name):
            # Check the file that was linked; the name may have been reused since.
            before = directory._status(name)
            os.link(
                name,
                name,
                src_dir_fd=directory._descriptor,
                dst_dir_fd=target._descriptor,
                follow_symlinks=False,
            )
            status = target._status(name)
            if before is None or status is None or not os.path.samestat(before, status):
                raise OSError(errno.ESTALE, "replaced just now by another file", str(directory.path / name))
            directory._require_own(name, before)

    def remove(self, name: str) -> None:
        """Remove an entry of this directory, if it exists, with all that is in it. A link ends there."""
        status = self._status(name)
        if status is not None and stat.S_ISDIR(status.st_mode):
            shutil.rmtree(name, dir_fd=self._descriptor)
        elif status is not None:
            os.unlink(name, dir_fd=self._descriptor)

    def rename(self, name: str, new_name: str) -> None:
        os.replace(name, new_name, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)

    def sync(self) -> None:
        """Make the names in this directory durable."""
        os.fsync(self._descriptor)

    def give(self, owner: tuple[int, int], but: Collection[tuple[int, int]] = ()) -> None:
        """Give what root has made here, and in the directories of partitions, to another user and a group; `but` are
        devices and inodes that were here before. Hard-linked files keep their owner: Apache Kafka may share them."""
        for name in filter(partition_of, self.names()):
            status = self._status(name)
            if status is not None and stat.S_ISDIR(status.st_mode):
                with self.within(name) as partition:
                    status = os.fstat(partition._descriptor)
                    if status.st_uid == ROOT and _identity(status) not in but:
                        partition.give_itself(owner)
        for directory, name, status in self._walk():
            if _is_roots_alone(status) and _identity(status) not in but:
                descriptor = directory._open(name, os.O_RDONLY)
                try:
                    status = os.fstat(descriptor)
                    if _is_roots_alone(status) and _identity(status) not in but:
                        os.fchown(descriptor, *owner)
                finally:
                    os.close(descriptor)

    def of_root(self) -> frozenset[tuple[int, int]]:
        """Return the device and the inode of each file and of each directory of a partition that root owns."""
        statuses = [status for name in filter(partition_of, self.names()) if (status := self._status(name)) is not None]
        statuses += [status for _, _, status in self._walk()]
        return frozenset(_identity(status) for status in statuses if status.st_uid == ROOT)

    def give_itself(self, owner: tuple[int, int]) -> None:
        os.fchown(self._descriptor, *owner)

    def _status(self, name: str) -> os.stat_result | None:
        try:
            return os.stat(name, dir_fd=self._descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def _require_own(self, name: str, status: os.stat_result) -> None:
        require_regular(self.path / name, status.st_mode)
        if status.st_nlink > 1 and os.geteuid() == ROOT and self.owner[0] not in (ROOT, status.st_uid):
            kind = "a hard link to a file of another user than its directory's"
            raise OSError(errno.ENXIO, kind, str(self.path / name))

    def _refuse_link(self, name: str) -> None:
        status = self._status(name)
        if status is not None and stat.S_ISLNK(status.st_mode):
            raise OSError(errno.ENXIO, "a symbolic link, and no directory", str(self.path / name))

    def _require_name(self, name: str) -> None:
        if name in _OUTSIDE or "/" in name:
            raise OSError(errno.EINVAL, f"{name!r} is no name within it", str(self.path))

    def _fail(self, error: OSError, name: str) -> NoReturn:
        raise OSError(error.errno, error.strerror, str(self.path / name)) from error


def _is_roots_alone(status: os.stat_result) -> bool:
    return stat.S_ISREG(status.st_mode) and (status.st_uid, status.st_nlink) == (ROOT, 1)


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


@contextmanager
def kept_by_its_owner(data_dir: Path) -> Iterator[None]:
    """Give files that root creates in another user's directory to that user, so that its broker can open them. What
    root owned there before stays root's. Raises OSError."""
    if os.geteuid() != ROOT or not data_dir.is_dir():
        yield
        return
    with HeldDirectory(data_dir) as directory:
        owner = directory.owner
        if owner[0] == ROOT:
            yield
            return
        before = directory.of_root()
        is_done = False
        try:
            yield
            is_done = True
        finally:
            with nullcontext() if is_done else suppress(OSError):  # the first error is the one to report
                directory.give(owner, before)


def check_directories(data_dir: Path) -> None:
    """Check that no directory of a partition is a link, for what reports each file by itself. Raises OSError."""
    with HeldDirectory(data_dir) as directory:
        for name in filter(partition_of, directory.names()):
            directory._refuse_link(name)


def check_files(data_dir: Path) -> None:
    """Check before anything is changed that a directory and those of its partitions have nothing but regular files.
    Raises OSError with the name of what is none."""
    with HeldDirectory(data_dir) as directory:
        directory.check()
