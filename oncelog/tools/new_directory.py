"""A directory that is made as a whole: under another name until it is, and then under its own, durably."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from oncelog.tools.file_copies import sync_directory


class NotNew(Exception):
    """The directory cannot be made; the message says why, and what to do."""


def check_new(directory: Path) -> None:
    """Raises NotNew unless it is missing or empty."""
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise NotNew(f"{directory} exists and is not empty: choose a new directory")
    parent = directory.absolute().parent
    if not parent.is_dir():
        raise NotNew(f"{parent} does not exist: create it first")


@contextmanager
def made_whole(directory: Path, suffix: str) -> Iterator[Path]:
    """Yield the directory to fill, beside the other, which it becomes unless something is raised; then nothing is left,
    nor of an earlier attempt that was killed. Raises NotNew, OSError."""
    check_new(directory)
    unfinished = directory.absolute().with_name(directory.name + suffix)
    shutil.rmtree(unfinished, ignore_errors=True)
    try:
        yield unfinished
        if directory.exists():
            directory.rmdir()
        unfinished.rename(directory)
        sync_directory(directory.absolute().parent)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
