"""The log directories of one Kafka broker, as they were found; nothing in them is changed.

Owns: whether they are of one node, whether a Kafka runs on them, their checkpoints. Does not own: whose each is
(`properties`), the metadata (`metadata`), what is adopted (`oncelog.tools.adopt.plan`).
"""

import fcntl
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from oncelog.broker.storage.local.checkpoints import (
    CLEANER_OFFSET,
    LOG_START,
    RECOVERY_POINT,
    read_checkpoint,
)
from oncelog.broker.storage.local.partition_directory import partition_of
from oncelog.broker.system.disk import RealDisk
from oncelog.broker.system.regular_files import open_regular
from oncelog.tools.kafka_directory import NotPossible
from oncelog.tools.kafka_directory.bootstrap import BOOTSTRAP
from oncelog.tools.kafka_directory.metadata import METADATA_DIRECTORY
from oncelog.tools.kafka_directory.properties import Node, read_node

_LOCK = ".lock"

Place = tuple[str, int]
"""A topic and a partition."""


@dataclass(frozen=True, slots=True)
class KafkaDir:
    path: Path
    disk: RealDisk
    """The directory's disk, for reading."""
    node: Node
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
    """Yield the directories of one broker. Raises NotPossible."""
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
    while it is held Kafka cannot start. Raises NotPossible."""
    try:
        descriptor = open_regular(path / _LOCK, os.O_RDONLY)
    except FileNotFoundError:
        return  # after a clean stop, which deletes it
    except OSError as error:
        raise NotPossible(f"cannot read {path}: {error.strerror}") from error
    stack.callback(os.close, descriptor)
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        raise NotPossible(f"a Kafka is running on {path}: stop it, or take a copy of the directory") from error


def _read(path: Path) -> KafkaDir:
    node, disk = read_node(path), RealDisk(path, read_only=True)
    return KafkaDir(
        path, disk, node, *(_checkpoint(disk, name) for name in (LOG_START, RECOVERY_POINT, CLEANER_OFFSET))
    )


def _checkpoint(disk: RealDisk, name: str) -> dict[Place, int]:
    return {(topic, partition): offset for topic, partition, offset in read_checkpoint(disk, name)}


def _check_together(found: Sequence[KafkaDir]) -> None:
    first = found[0]
    for other in found[1:]:
        if other.path.resolve() == first.path.resolve():
            raise NotPossible(f"{other.path} is given twice")
        own, others = first.node, other.node
        if (others.cluster_id, others.node_id) != (own.cluster_id, own.node_id):
            raise NotPossible(
                f"{first.path} is of node {own.node_id} of the cluster {own.cluster_id}, {other.path} of node "
                f"{others.node_id} of {others.cluster_id}: adopt one broker at a time"
            )
    if not any(each.has_metadata for each in found):
        raise NotPossible(
            f"{first.path} has no {METADATA_DIRECTORY}, so nothing is known about its topics: give the directory that "
            "has it too (metadata.log.dir)"
        )
