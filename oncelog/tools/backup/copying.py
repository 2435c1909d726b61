"""Makes a backup: asks the broker for an image, or takes a stopped directory as it is, and copies that.

Owns: who is asked, the copy, its checksums. Does not own: what an image holds (`broker.storage.local.image`).
Invariants
- The backup has its own name only when it is whole and durable.
- One backup of a directory at a time; the image is gone when it ends, also when it fails.
"""

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from oncelog.broker.storage.local.checkpoints import CLEAN_SHUTDOWN
from oncelog.broker.storage.local.data_directory import (
    BACKUP_SUMS,
    IMAGE,
    IMAGE_ERROR,
    IMAGE_LIST,
    IMAGE_WANTED,
    ForeignDirectoryError,
    check_data_directory,
)
from oncelog.broker.storage.local.partition_directory import directory_of
from oncelog.broker.system.disk import DataDirectoryLocked, RealDisk
from oncelog.protocol.topics import METADATA_TOPIC
from oncelog.tools.file_copies import COPIED_AT_ONCE, copying
from oncelog.tools.held_directory import ROOT, HeldDirectory
from oncelog.tools.new_directory import made_whole

METADATA_DIRECTORY = directory_of(METADATA_TOPIC, 0)
_LOCK = ".lock"
_BACKUP_LOCK = ".backup.lock"
_UNFINISHED = ".unfinished"
_POLL_S = 0.05


class CannotBackUp(Exception):
    """Nothing was written; the message says why, and what to do."""


class Backup(NamedTuple):
    partition_count: int
    file_count: int
    size_bytes: int
    is_of_running_broker: bool


class Source(NamedTuple):
    """The files to copy: where they are, and how many bytes of each."""

    root: HeldDirectory
    sizes: Mapping[str, int]
    is_image: bool

    @property
    def size_bytes(self) -> int:
        return sum(self.sizes.values())


@contextmanager
def source_of(data_dir: Path, patience_s: float) -> Iterator[Source]:
    """Yield what there is to copy, which nothing changes meanwhile. Raises CannotBackUp, OSError."""
    disk = RealDisk(data_dir, read_only=True)
    with ExitStack() as until_copied:
        until_copied.callback(disk.close)
        if not (data_dir / METADATA_DIRECTORY).is_dir():
            raise CannotBackUp(f"{data_dir} is not a data directory of a broker")
        held = until_copied.enter_context(HeldDirectory(data_dir))
        held.check()  # also where a broker runs: its image has second names of the same files
        try:
            check_data_directory(disk, METADATA_DIRECTORY)
        except ForeignDirectoryError as error:
            raise CannotBackUp(f"cannot use {data_dir}: {error}") from error
        yield _stopped(held, disk) or until_copied.enter_context(_image(held, disk, patience_s))


def _stopped(held: HeldDirectory, disk: RealDisk) -> Source | None:
    """The directory itself, which no broker may begin to write to now; None if one does."""
    try:
        disk.lock()
    except DataDirectoryLocked:
        return None
    return Source(held, {path: size for path, size in held.files() if _is_backed_up(path)}, False)


def _is_backed_up(path: str) -> bool:
    is_hidden = path.startswith(".") and "/" not in path and path != CLEAN_SHUTDOWN
    return not is_hidden and not path.endswith(".tmp")


@contextmanager
def _image(held: HeldDirectory, disk: RealDisk, patience_s: float) -> Iterator[Source]:
    """Yield the image that the broker takes."""
    with open(held.open(_BACKUP_LOCK, os.O_WRONLY | os.O_CREAT), "wb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise CannotBackUp(f"another backup of {held.path} is being made: wait until it is done") from error
        try:
            held.remove(IMAGE)  # of one that was killed
            held.remove(IMAGE_WANTED)
            os.close(held.create(IMAGE_WANTED))
            with _taken(held, disk, patience_s) as source:
                yield source
        finally:
            held.remove(IMAGE_WANTED)
            with suppress(OSError):
                held.remove(IMAGE)


@contextmanager
def _taken(held: HeldDirectory, disk: RealDisk, patience_s: float) -> Iterator[Source]:
    deadline = time.monotonic() + patience_s
    while (content := _listed(held)) is None:
        if (stopped := _stopped(held, disk)) is not None:
            yield stopped  # the broker has ended meanwhile
            return
        if time.monotonic() > deadline:
            raise CannotBackUp(
                f"the broker on {held.path} did not respond within {patience_s:g} s: it starts, its disk is full, or "
                "it is of an earlier version; wait, or stop it and repeat"
            )
        time.sleep(_POLL_S)
    if IMAGE_ERROR in content:
        raise CannotBackUp(
            f"the broker cannot give its files second names ({content[IMAGE_ERROR]}): if the file system of "
            f"{held.path} has no hard links, stop the broker and repeat"
        )
    with held.within(IMAGE) as image:
        yield Source(image, content["files"], True)


def _listed(held: HeldDirectory) -> Any:
    try:
        return json.loads(held.read(IMAGE_LIST))
    except FileNotFoundError:
        return None


def back_up(source: Source, target: Path, on_copied: Callable[[int], None]) -> Backup:
    """Copy all of it into a new directory. Raises NotNew, OSError."""
    with made_whole(target, _UNFINISHED) as unfinished:
        unfinished.mkdir(mode=0o700)
        with HeldDirectory(unfinished) as held:
            sums = copy_all(source.root, source.sizes, held, on_copied)
            lines = [f"{digest}  {path}\n" for path, digest in sums.items()]
            held.write(BACKUP_SUMS, "".join(lines).encode())
            held.write(_LOCK, b"")
            _note_owner(held, source.root.owner)
            held.sync()
    partitions = {path.rpartition("/")[0] for path in source.sizes} - {"", METADATA_DIRECTORY}
    return Backup(len(partitions), len(source.sizes), source.size_bytes, source.is_image)


def _note_owner(backup: HeldDirectory, owner: tuple[int, int]) -> None:
    """Files keep their owner, as with `cp -a`. The backup directory stays root's, mode 0700, so a compromised service
    cannot reach it."""
    if os.geteuid() == ROOT:
        with suppress(OSError):  # on a file system without owners
            backup.give(owner)


def copy_all(
    source: HeldDirectory, sizes: Mapping[str, int], target: HeldDirectory, on_copied: Callable[[int], None]
) -> dict[str, str]:
    """Copy so many bytes of each file, durably; return the SHA-256 of each. Raises OSError."""
    directories: set[str] = {""}
    sums, copied_bytes = {}, 0
    for path, size_bytes in sorted(sizes.items()):
        directory = path.rpartition("/")[0]
        if directory not in directories:
            target.make(directory).close()
            directories.add(directory)
        before_bytes = copied_bytes

        def on_part(done_bytes: int, before_bytes: int = before_bytes) -> None:
            on_copied(before_bytes + done_bytes)

        sums[path] = _copy(source, target, path, size_bytes, on_part)
        copied_bytes += size_bytes
    for directory in sorted(directories - {""}):
        with target.within(directory) as made:
            made.sync()
    target.sync()
    return sums


def _copy(
    source: HeldDirectory, target: HeldDirectory, path: str, size_bytes: int, on_part: Callable[[int], None]
) -> str:
    digest, left_bytes = sha256(), size_bytes
    with copying(source, target, path) as (old, new):
        while left_bytes > 0:
            data = old.read(min(left_bytes, COPIED_AT_ONCE))
            if not data:
                raise OSError(f"{source.path / path} is {left_bytes} bytes shorter than it was")
            digest.update(data)
            new.write(data)
            left_bytes -= len(data)
            on_part(size_bytes - left_bytes)
    return digest.hexdigest()
