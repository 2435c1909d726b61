"""Makes a backup: asks the broker for an image, or takes a stopped directory as it is, and copies that.

Owns: who is asked, the copy, its checksums. Does not own: what an image holds (`broker.storage.local.image`).
Invariants
- The backup has its own name only when it is whole and durable.
- One backup of a directory at a time; the image is gone when it ends, also when it fails.
"""

import fcntl
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

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
from oncelog.broker.storage.local.partition_directory import directory_of, partition_of
from oncelog.broker.system.disk import DataDirectoryLocked, RealDisk
from oncelog.broker.system.regular_files import open_regular
from oncelog.protocol.topics import METADATA_TOPIC
from oncelog.tools.file_copies import COPIED_AT_ONCE, sync_directory, write
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

    root: Path
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
        try:
            check_data_directory(disk, METADATA_DIRECTORY)
        except ForeignDirectoryError as error:
            raise CannotBackUp(f"cannot use {data_dir}: {error}") from error
        yield _stopped(data_dir, disk) or until_copied.enter_context(_image(data_dir, disk, patience_s))


def _stopped(data_dir: Path, disk: RealDisk) -> Source | None:
    """The directory itself, which no broker may begin to write to now; None if one does."""
    try:
        disk.lock()
    except DataDirectoryLocked:
        return None
    sizes = {}
    for entry in sorted(data_dir.iterdir()):
        files = sorted(entry.iterdir()) if entry.is_dir() and partition_of(entry.name) else [entry]
        for file in files:
            is_hidden = entry.name.startswith(".") and entry.name != CLEAN_SHUTDOWN
            if file.is_file() and not is_hidden and not file.name.endswith(".tmp"):
                sizes[str(file.relative_to(data_dir))] = file.stat().st_size
    return Source(data_dir, sizes, False)


@contextmanager
def _image(data_dir: Path, disk: RealDisk, patience_s: float) -> Iterator[Source]:
    """Yield the image that the broker takes."""
    with (data_dir / _BACKUP_LOCK).open("wb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise CannotBackUp(f"another backup of {data_dir} is being made: wait until it is done") from error
        try:
            shutil.rmtree(data_dir / IMAGE, ignore_errors=True)  # of one that was killed
            (data_dir / IMAGE_WANTED).touch()
            yield _taken(data_dir, disk, patience_s)
        finally:
            (data_dir / IMAGE_WANTED).unlink(missing_ok=True)
            shutil.rmtree(data_dir / IMAGE, ignore_errors=True)


def _taken(data_dir: Path, disk: RealDisk, patience_s: float) -> Source:
    deadline = time.monotonic() + patience_s
    while not (data_dir / IMAGE_LIST).exists():
        if (stopped := _stopped(data_dir, disk)) is not None:
            return stopped  # the broker has ended meanwhile
        if time.monotonic() > deadline:
            raise CannotBackUp(
                f"the broker on {data_dir} did not respond within {patience_s:g} s: it starts, its disk is full, or it "
                "is of an earlier version; wait, or stop it and repeat"
            )
        time.sleep(_POLL_S)
    content = json.loads((data_dir / IMAGE_LIST).read_bytes())
    if IMAGE_ERROR in content:
        raise CannotBackUp(
            f"the broker cannot give its files second names ({content[IMAGE_ERROR]}): if the file system of {data_dir} "
            "has no hard links, stop the broker and repeat"
        )
    return Source(data_dir / IMAGE, content["files"], True)


def back_up(source: Source, target: Path, on_copied: Callable[[int], None]) -> Backup:
    """Copy all of it into a new directory. Raises NotNew, OSError."""
    with made_whole(target, _UNFINISHED) as unfinished:
        sums = copy_all(source.root, source.sizes, unfinished, on_copied)
        lines = [f"{digest}  {path}\n" for path, digest in sums.items()]
        write(unfinished / BACKUP_SUMS, "".join(lines).encode())
        write(unfinished / _LOCK, b"")
        sync_directory(unfinished)
    partitions = {path.rpartition("/")[0] for path in source.sizes} - {"", METADATA_DIRECTORY}
    return Backup(len(partitions), len(source.sizes), source.size_bytes, source.is_image)


def copy_all(root: Path, sizes: Mapping[str, int], target: Path, on_copied: Callable[[int], None]) -> dict[str, str]:
    """Copy so many bytes of each file, durably; return the SHA-256 of each. Raises OSError."""
    target.mkdir(mode=0o700, exist_ok=True)
    directories = {target}
    sums, copied_bytes = {}, 0
    for path, size_bytes in sorted(sizes.items()):
        file = target / path
        if file.parent not in directories:
            file.parent.mkdir(mode=0o700)
            directories.add(file.parent)
        before_bytes = copied_bytes

        def on_part(done_bytes: int, before_bytes: int = before_bytes) -> None:
            on_copied(before_bytes + done_bytes)

        sums[path] = _copy(root / path, file, size_bytes, on_part)
        copied_bytes += size_bytes
    for directory in sorted(directories):
        sync_directory(directory)
    return sums


def _copy(source: Path, target: Path, size_bytes: int, on_part: Callable[[int], None]) -> str:
    """With its times: retention goes by those of a segment without timestamps."""
    digest, left_bytes = sha256(), size_bytes
    with open(source, "rb", opener=open_regular) as old, target.open("wb") as new:
        while left_bytes:
            data = old.read(min(left_bytes, COPIED_AT_ONCE))
            if not data:
                raise OSError(f"{source} is {left_bytes} bytes shorter than it was")
            digest.update(data)
            new.write(data)
            left_bytes -= len(data)
            on_part(size_bytes - left_bytes)
        new.flush()
        os.fsync(new.fileno())
    shutil.copystat(source, target)
    return digest.hexdigest()
