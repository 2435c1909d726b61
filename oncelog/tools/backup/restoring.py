"""Brings a backup back: into an empty data directory, whole or not at all.

Owns: what is checked before and meanwhile, and the mark by which the next start knows that it is older than it was.
Does not own: the verdict on the logs (`oncelog.tools.log.check`).
Invariant: a directory that was not filled to the end, or of which a byte differs from the backup, cannot be served.
"""

import os
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from oncelog.broker.storage.local.checkpoints import CLEAN_SHUTDOWN
from oncelog.broker.storage.local.data_directory import BACKUP_SUMS, RESTORED, RESTORING
from oncelog.tools.backup.copying import METADATA_DIRECTORY, Backup, copy_all
from oncelog.tools.file_copies import read, sync_directory, write

_SUM = re.compile(r"([0-9a-f]{64})  ((?:[\w.-]+/)?[\w.-]+)\Z")


class CannotRestore(Exception):
    """The message says why, and what to do."""


class Damaged(CannotRestore):
    """The backup is not what it was."""


def sums_of(backup: Path) -> dict[str, str]:
    """Return the checksum of each file of a backup. Raises CannotRestore, OSError."""
    if not (backup / BACKUP_SUMS).is_file():
        raise CannotRestore(f"{backup} is not a backup: it has no {BACKUP_SUMS}, which `oncelog backup` writes last")
    sums = {}
    for line in read(backup / BACKUP_SUMS).decode(errors="replace").splitlines():
        match = _SUM.match(line)
        if match is None or ".." in match[2]:
            raise Damaged(f"{backup / BACKUP_SUMS} is damaged: {line[:80]!r} is not a checksum with a name")
        sums[match[2]] = match[1]
    missing = [path for path in sums if not (backup / path).is_file()]
    if missing:
        raise Damaged(f"{backup / missing[0]} is missing")
    return sums


def check_empty(data_dir: Path) -> None:
    """Raises CannotRestore unless the directory is missing, a fresh volume, or what an earlier attempt has left."""
    if data_dir.exists() and not data_dir.is_dir():
        raise CannotRestore(f"{data_dir} is no directory")
    names = os.listdir(data_dir) if data_dir.exists() else []
    if RESTORING not in names and any(not _is_of_a_fresh_volume(name) for name in names):
        raise CannotRestore(f"{data_dir} is not empty: move what is in it away, or restore into another directory")
    if not data_dir.absolute().parent.is_dir():
        raise CannotRestore(f"{data_dir.absolute().parent} does not exist: create it first")


def size_of(backup: Path, sums: Mapping[str, str]) -> dict[str, int]:
    return {path: (backup / path).stat().st_size for path in sums}


def restore(backup: Path, sums: Mapping[str, str], data_dir: Path, on_copied: Callable[[int], None]) -> Backup:
    """Fill the directory, which cannot be served before `finish`. Raises Damaged, OSError."""
    data_dir.mkdir(mode=0o700, exist_ok=True)
    _empty(data_dir)
    write(data_dir / RESTORING, f"{backup.absolute()}\n".encode())
    sync_directory(data_dir)
    sizes = size_of(backup, sums)
    for path, digest in copy_all(backup, sizes, data_dir, on_copied).items():
        if digest != sums[path]:
            raise Damaged(f"{backup / path} has changed since the backup: its checksum is another")
    partitions = {path.rpartition("/")[0] for path in sizes} - {"", METADATA_DIRECTORY}
    return Backup(len(partitions), len(sizes), sum(sizes.values()), False)


def _empty(data_dir: Path) -> None:
    for entry in sorted(data_dir.iterdir()):
        if entry.name != RESTORING and not _is_of_a_fresh_volume(entry.name):
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()


def _is_of_a_fresh_volume(name: str) -> bool:
    return name == "lost+found" or (name.startswith(".") and name != CLEAN_SHUTDOWN)


def finish(data_dir: Path) -> None:
    """From now on it can be served. What root has restored belongs to whom the directory belongs. Raises OSError."""
    owner = data_dir.stat()
    if os.geteuid() == 0 and owner.st_uid != 0:
        for directory, _, names in os.walk(data_dir):
            for path in (directory, *(os.path.join(directory, name) for name in names)):
                os.chown(path, owner.st_uid, owner.st_gid)
    os.replace(data_dir / RESTORING, data_dir / RESTORED)
    sync_directory(data_dir)
