"""Files of one data directory in another: cloned or copied, and durable there.

Owns: how. Does not own: which files may be shared, and when (`oncelog.tools.graduate`, `oncelog.tools.adopt`), which
are refused (`held_directory`).
"""

import errno
import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from oncelog.broker.system.regular_files import open_regular
from oncelog.tools.held_directory import HeldDirectory

COPIED_AT_ONCE = 16 * 1024 * 1024
NO_LINKS = (errno.EXDEV, errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK)
"""The errors of `os.link` that no repetition will change."""
_CLONE = 0x40049409
"""The request FICLONE on Linux. The file systems that know it share the bytes until one of both files is written to."""
_PERMISSIONS = 0o777
"""Without the bits by which a copy that root owns would run as root."""


def copy(source: HeldDirectory, target: HeldDirectory, path: str, on_copied: Callable[[int], None]) -> None:
    """Copy a file. The copy is durable, except for its name. Raises OSError."""
    with copying(source, target, path) as (old, new):
        try:
            fcntl.ioctl(new.fileno(), _CLONE, old.fileno())
            on_copied(os.fstat(old.fileno()).st_size)
        except OSError:
            while data := old.read(COPIED_AT_ONCE):
                new.write(data)
                on_copied(len(data))


@contextmanager
def copying(source: HeldDirectory, target: HeldDirectory, path: str) -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """Yield a file and the new one with its path in the other directory, which is durable then, except for its name. It
    has the times of the old one: retention goes by those of a segment without timestamps. Raises OSError."""
    with open(source.open(path), "rb") as old, open(target.create(path), "wb") as new:
        yield old, new
        new.flush()
        status = os.fstat(old.fileno())
        os.fchmod(new.fileno(), status.st_mode & _PERMISSIONS)
        os.utime(new.fileno(), ns=(status.st_atime_ns, status.st_mtime_ns))
        os.fsync(new.fileno())


def read(path: Path) -> bytes:
    """Raises OSError, also for what is no regular file."""
    with open(path, "rb", opener=open_regular) as file:
        return file.read()


def write(path: Path, content: bytes) -> None:
    """Write a file; it is durable, except for its name. Raises OSError."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def sync_directory(directory: Path) -> None:
    """Make the names in a directory durable. Raises OSError."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
