"""Files of one data directory in another: linked, cloned or copied, and durable there.

Owns: how. Does not own: which files may be shared, and when (`oncelog.tools.graduate`, `oncelog.tools.adopt`).
"""

import errno
import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from oncelog.broker.storage.local.partition_directory import partition_of
from oncelog.broker.system.regular_files import open_regular, require_regular

COPIED_AT_ONCE = 16 * 1024 * 1024
NO_LINKS = (errno.EXDEV, errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK)
"""The errors of `os.link` that no repetition will change."""
_CLONE = 0x40049409
"""The request FICLONE on Linux. The file systems that know it share the bytes until one of both files is written to."""


def check_files(data_dir: Path) -> None:
    """Check before anything is changed that whatever is in the directory and in those of its partitions can be read as
    a file. Raises OSError with the name of what cannot."""
    for entry in sorted(data_dir.iterdir()):
        if not entry.is_dir():
            _check(entry)
        elif partition_of(entry.name):
            for file in sorted(entry.iterdir()):
                _check(file)


def _check(file: Path) -> None:
    try:
        mode = file.stat().st_mode
    except FileNotFoundError:  # a link to nothing: who needs it misses it
        return
    require_regular(file, mode)


def copy(source: Path, target: Path, on_copied: Callable[[int], None]) -> None:
    """Copy a file with its times: retention goes by those of a segment without timestamps. The copy is durable, except
    for its name. Raises OSError."""
    with open(source, "rb", opener=open_regular) as old, target.open("wb") as new:
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
