"""The log directories of one Kafka broker, as they were found; nothing in them is changed.

Owns: whose they are, whether a Kafka runs on them, their checkpoints. Does not own: the
metadata (`kafka_metadata`), what is adopted (`plan`).
"""

import fcntl
import os
import re
from base64 import urlsafe_b64decode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from oncelog.broker.storage.local.checkpoints import (
    CLEANER_OFFSET,
    LOG_START,
    RECOVERY_POINT,
    read_checkpoint,
)
from oncelog.broker.storage.local.data_directory import KAFKAS_MARK
from oncelog.broker.storage.local.partition_directory import partition_of
from oncelog.broker.system.disk import RealDisk
from oncelog.broker.system.regular_files import open_regular
from oncelog.tools.adopt.kafka_metadata import BOOTSTRAP, METADATA_DIRECTORY
from oncelog.tools.file_copies import read

_LOCK = ".lock"
_META_LINE = re.compile(r"([^#!=:\s]+)\s*[=:]\s*(.*?)\s*\Z")
_OF_ZOOKEEPER = "0"

Place = tuple[str, int]
"""A topic and a partition."""


class AdoptError(Exception):
    """Raised if the adoption cannot be done; the message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class KafkaDir:
    path: Path
    disk: RealDisk
    """The directory's disk, for reading."""
    cluster_id: str
    node_id: int
    directory_id: UUID | None
    """The directory's id; None in one that was formatted by a Kafka before 3.7 (KIP-858)."""
    log_starts: Mapping[Place, int]
    recovery_points: Mapping[Place, int]
    """The offset up to which each log was flushed."""
    cleaned: Mapping[Place, int]
    """The offset up to which each log was compacted."""

    @property
    def has_metadata(self) -> bool:
        """Whether the directory has metadata, as also one that is formatted and was never started."""
        return self.disk.exists(METADATA_DIRECTORY) or self.disk.exists(BOOTSTRAP)

    def directories(self, suffix: str = "") -> list[str]:
        """Return the names of partitions' directories, or of those with a suffix, which are not partitions yet or any
        more."""
        names = [name for name in self.disk.list_dir("") if (self.path / name).is_dir()]
        return [name for name in names if (name.endswith(suffix) if suffix else partition_of(name))]


@contextmanager
def opened(paths: Sequence[Path]) -> Iterator[list[KafkaDir]]:
    """Yield the directories of one broker. Raises AdoptError."""
    with ExitStack() as stack:
        found = []
        for path in paths:
            _check_stopped(path, stack)
            found.append(_read(path))
            stack.callback(found[-1].disk.close)
        _check_together(found)
        yield found


def _check_stopped(path: Path, stack: ExitStack) -> None:
    """Hold a shared lock on a file that Kafka locks exclusively while it runs. So the lock shows whether it runs, and
    while it is held Kafka cannot start. Raises AdoptError."""
    try:
        descriptor = open_regular(path / _LOCK, os.O_RDONLY)
    except FileNotFoundError:
        return  # after a clean stop, which deletes it
    except OSError as error:
        raise AdoptError(f"cannot read {path}: {error.strerror}") from error
    stack.callback(os.close, descriptor)
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        raise AdoptError(f"a Kafka is running on {path}: stop it, or take a copy of the directory") from error


def _read(path: Path) -> KafkaDir:
    if not path.is_dir():
        raise AdoptError(f"{path} is no directory")
    try:
        properties = _properties(read(path / KAFKAS_MARK).decode(errors="replace"))
    except FileNotFoundError as error:
        hint = "the directory itself is meant, the log.dirs of its server.properties"
        raise AdoptError(f"{path} is not a log directory of Apache Kafka (it has no {KAFKAS_MARK}): {hint}") from error
    except OSError as error:
        raise AdoptError(f"cannot read {path / KAFKAS_MARK}: {error.strerror}") from error
    if properties.get("version") == _OF_ZOOKEEPER or "broker.id" in properties:
        raise AdoptError(
            f"{path} is of a Kafka with ZooKeeper, where its topics are: migrate it to KRaft with Kafka 3.9 first "
            "(KIP-866)"
        )
    try:
        cluster_id, node_id = properties["cluster.id"], int(properties["node.id"])
        directory_id = properties.get("directory.id")
        disk = RealDisk(path, read_only=True)
        return KafkaDir(
            path,
            disk,
            cluster_id,
            node_id,
            None if directory_id is None else UUID(bytes=urlsafe_b64decode(f"{directory_id}==")),
            _checkpoint(disk, LOG_START),
            _checkpoint(disk, RECOVERY_POINT),
            _checkpoint(disk, CLEANER_OFFSET),
        )
    except (KeyError, ValueError) as error:
        raise AdoptError(f"{path / KAFKAS_MARK} is damaged ({error}): restore it from a copy") from error


def _checkpoint(disk: RealDisk, name: str) -> dict[Place, int]:
    return {(topic, partition): offset for topic, partition, offset in read_checkpoint(disk, name)}


def _properties(text: str) -> dict[str, str]:
    found = (_META_LINE.match(line.strip()) for line in text.splitlines() if not line.lstrip().startswith(("#", "!")))
    return {line[1]: line[2] for line in found if line is not None}


def _check_together(found: Sequence[KafkaDir]) -> None:
    first = found[0]
    for other in found[1:]:
        if other.path.resolve() == first.path.resolve():
            raise AdoptError(f"{other.path} is given twice")
        if (other.cluster_id, other.node_id) != (first.cluster_id, first.node_id):
            raise AdoptError(
                f"{first.path} is of node {first.node_id} of the cluster {first.cluster_id}, {other.path} of node "
                f"{other.node_id} of {other.cluster_id}: adopt one broker at a time"
            )
    if not any(each.has_metadata for each in found):
        raise AdoptError(
            f"{first.path} has no {METADATA_DIRECTORY}, so nothing is known about its topics: give the directory that "
            "has it too (metadata.log.dir)"
        )
