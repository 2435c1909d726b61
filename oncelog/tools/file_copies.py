"""Files of one data directory in another: linked, cloned or copied, and durable there.

Owns: how. Does not own: which files may be shared, and when (`oncelog.tools.graduate`, `oncelog.tools.adopt`).
"""

import errno
import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path

COPIED_AT_ONCE = 16 * 1024 * 1024
NO_LINKS = (errno.EXDEV, errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK)
"""The errors of `os.link` that no repetition will change."""
_CLONE = 0x40049409
"""Linux: FICLONE. The file systems that know it share the bytes until one of both files is written to."""


def copy(source: Path, target: Path, on_copied: Callable[[int], None]) -> None:
    """With its times: retention goes by those of a segment without timestamps. Durable, except for its name. Raises
    OSError."""
    with source.open("rb") as old, target.open("wb") as new:
        try:
            fcntl.ioctl(new.fileno(), _CLONE, old.fileno())
            on_copied(source.stat().st_size)
        except OSError:
            while data := old.read(COPIED_AT_ONCE):
                new.write(data)
                on_copied(len(data))
        new.flush()
        os.fsync(new.fileno())
    shutil.copystat(source, target)


def write(path: Path, content: bytes) -> None:
    """Durable, except for its name. Raises OSError."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def sync_directory(directory: Path) -> None:
    """Its names are durable. Raises OSError."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
