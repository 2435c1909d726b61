"""What becomes of each file of a data directory when it graduates.

Owns: the role of a file by its name and place. Does not own: linking, copying and removing them (`steps`).
Invariant: what may be shared by a hard link is a file into which neither broker ever writes again: those of a closed
segment. Appends, index growth and truncations happen in the last segment; retention and compaction delete or replace
closed ones, which leaves the other link alone.
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from oncelog.broker.log.store import LOGIN_SECRET
from oncelog.broker.storage.local.boot_mark import NAME as BOOT_MARK
from oncelog.broker.storage.local.checkpoints import (
    CLEAN_SHUTDOWN,
    CLEANER_OFFSET,
    LEADER_EPOCHS,
    LOG_START,
    RECOVERY_POINT,
)
from oncelog.broker.storage.local.data_directory import ADOPTED, GRADUATED
from oncelog.broker.storage.local.flushed_offsets import NAME as FLUSHED_OFFSETS
from oncelog.broker.storage.local.journal import NAMES as JOURNALS
from oncelog.broker.storage.local.partition_directory import PARTITION_METADATA
from oncelog.broker.storage.local.segment import LOG_SUFFIX
from oncelog.broker.storage.local.segment_manifest import NAME as MANIFEST
from oncelog.broker.storage.producer_snapshot import BATCHES_SUFFIX
from oncelog.tools.kafka_directory.metadata import METADATA_DIRECTORY

_OF_SEGMENTS = re.compile(r"(\d{20})\.(log|index|timeindex|txnindex|snapshot)\Z")
_KAFKAS = frozenset((RECOVERY_POINT, LOG_START, CLEANER_OFFSET, CLEAN_SHUTDOWN))
_OURS = frozenset((*JOURNALS, FLUSHED_OFFSETS, ADOPTED, LOGIN_SECRET, BOOT_MARK))
_NEITHER = frozenset((".lock", GRADUATED))


class Role(Enum):
    CLOSED = "closed"
    """The file of a closed segment."""
    GROWING = "growing"
    """A file of the last segment, or one that is small and rewritten: a checkpoint."""
    OURS = "own"
    """A file without a meaning for Kafka."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class FoundFile:
    path: str
    """The path within the data directory; for a directory that is unknown, its own."""
    role: Role
    size_bytes: int


def find_files(data_dir: Path, directories: Collection[str]) -> Iterator[FoundFile]:
    """Yield the files; `directories` are those of partitions that graduate."""
    known = frozenset(directories)
    for entry in sorted(data_dir.iterdir()):
        name = entry.name
        if name in known:
            yield from _files_of_partition(entry)
        elif name == METADATA_DIRECTORY:
            yield from (_found(file, f"{name}/{file.name}", Role.OURS) for file in sorted(entry.iterdir()))
        elif name in _KAFKAS:
            yield _found(entry, name, Role.GROWING)
        elif name not in _NEITHER:
            yield _found(entry, name, Role.OURS if name in _OURS else Role.UNKNOWN)


def _files_of_partition(directory: Path) -> Iterator[FoundFile]:
    files = sorted(directory.iterdir())
    last_base = max((file.stem for file in files if file.suffix == LOG_SUFFIX), default="")
    for file in files:
        yield _found(file, f"{directory.name}/{file.name}", _role_in_partition(file.name, last_base))


def _role_in_partition(name: str, last_base: str) -> Role:
    of_segment = _OF_SEGMENTS.match(name)
    if of_segment is not None:
        return Role.CLOSED if of_segment[1] < last_base else Role.GROWING
    if name in (LEADER_EPOCHS, PARTITION_METADATA):
        return Role.GROWING
    return Role.OURS if is_ours_in_partition(name) else Role.UNKNOWN


def is_ours_in_partition(name: str) -> bool:
    return name == MANIFEST or name.endswith(BATCHES_SUFFIX)


def _found(file: Path, path: str, role: Role) -> FoundFile:
    return FoundFile(path, role, file.stat().st_size if file.is_file() else 0)
