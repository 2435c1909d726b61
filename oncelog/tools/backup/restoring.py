"""Brings a backup back: into an empty data directory, whole or not at all.

Owns: what is checked before and meanwhile, whose the files are then, and the mark by which the next start knows that it
is older than it was. Does not own: the verdict on the logs (`oncelog.tools.log.check`).
Invariant: a directory that was not filled to the end, or of which a byte differs from the backup, cannot be served.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from oncelog.broker.storage.local.checkpoints import CLEAN_SHUTDOWN
from oncelog.broker.storage.local.data_directory import BACKUP_SUMS, RESTORED, RESTORING
from oncelog.tools.backup.copying import METADATA_DIRECTORY, Backup, copy_all
from oncelog.tools.held_directory import ROOT, HeldDirectory

_SUM = re.compile(r"([0-9a-f]{64})  ((?:[\w.-]+/)?[\w.-]+)\Z")


class CannotRestore(Exception):
    """The message says why, and what to do."""


class Damaged(CannotRestore):
    """The backup is not what it was."""


def sums_of(backup: HeldDirectory) -> dict[str, str]:
    """Return the checksum of each file of a backup. Raises CannotRestore, OSError."""
    files = dict(backup.files())
    if BACKUP_SUMS not in files:
        hint = "which `oncelog backup` writes last"
        raise CannotRestore(f"{backup.path} is not a backup: it has no {BACKUP_SUMS}, {hint}")
    sums = {}
    for line in backup.read(BACKUP_SUMS).decode(errors="replace").splitlines():
        match = _SUM.match(line)
        if match is None or {".", ".."} & {*match[2].split("/")}:
            raise Damaged(f"{backup.path / BACKUP_SUMS} is damaged: {line[:80]!r} is not a checksum with a name")
        sums[match[2]] = match[1]
    missing = [path for path in sums if path not in files]
    if missing:
        raise Damaged(f"{backup.path / missing[0]} is missing")
    return sums


def existing(data_dir: Path) -> HeldDirectory | None:
    """Open the directory to fill: a fresh volume, or what an earlier attempt has left; return None if it is missing.
    Raises CannotRestore, OSError."""
    try:
        directory = HeldDirectory(data_dir)
    except FileNotFoundError:
        return None
    except NotADirectoryError as error:
        raise CannotRestore(f"{data_dir} is no directory") from error
    names = directory.names()
    if RESTORING not in names and any(not _is_of_a_fresh_volume(name) for name in names):
        directory.close()
        raise CannotRestore(f"{data_dir} is not empty: move what is in it away, or restore into another directory")
    return directory


def parent_of(data_dir: Path) -> HeldDirectory:
    """Open the directory in which the missing one is to be made. Raises CannotRestore, OSError."""
    try:
        return HeldDirectory(data_dir.parent)
    except FileNotFoundError as error:
        raise CannotRestore(f"{data_dir.absolute().parent} does not exist: create it first") from error


def sizes_of(backup: HeldDirectory, sums: Mapping[str, str]) -> dict[str, int]:
    return {path: size for path, size in backup.files() if path in sums}


def restore(
    backup: HeldDirectory, sums: Mapping[str, str], target: HeldDirectory, on_copied: Callable[[int], None]
) -> Backup:
    """Fill the directory, which cannot be served before `finish`. Raises Damaged, OSError."""
    for name in target.names():
        if name != RESTORING and not _is_of_a_fresh_volume(name):
            target.remove(name)
    target.remove(RESTORING)
    target.write(RESTORING, f"{backup.path.absolute()}\n".encode())
    target.sync()
    sizes = sizes_of(backup, sums)
    for path, digest in copy_all(backup, sizes, target, on_copied).items():
        if digest != sums[path]:
            raise Damaged(f"{backup.path / path} has changed since the backup: its checksum is another")
    partitions = {path.rpartition("/")[0] for path in sizes} - {"", METADATA_DIRECTORY}
    return Backup(len(partitions), len(sizes), sum(sizes.values()), False)


def _is_of_a_fresh_volume(name: str) -> bool:
    return name == "lost+found" or (name.startswith(".") and name != CLEAN_SHUTDOWN)


def owner_of(backup: HeldDirectory, directory: HeldDirectory | None) -> tuple[int, int]:
    """Return the ids of the user and the group to which a data directory belongs once root has restored it: those of an
    existing directory; of a new one, or one of root's own (a fresh volume), those that had the files when the backup
    was made."""
    if directory is not None and directory.owner[0] != ROOT:
        return directory.owner
    with backup.within(METADATA_DIRECTORY) as metadata:
        return metadata.owner


def finish(target: HeldDirectory, owner: tuple[int, int] | None) -> None:
    """Let the directory be served from now on, by its owner. Raises OSError."""
    if owner is not None:
        target.give(owner)
        target.give_itself(owner)
    target.rename(RESTORING, RESTORED)
    target.sync()
