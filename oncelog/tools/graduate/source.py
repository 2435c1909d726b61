"""The data directory that graduates: recovered by our own code, closed cleanly, and read.

Owns: whether it can graduate. Does not own: what becomes of it.

Our recovery runs before Kafka's could: only ours knows the journal, which holds what was committed last, and only ours
distinguishes a torn write from damage below the flushed end. After a clean stop it reads next to nothing. It leaves a
clean stop behind, so that Kafka trusts the files as well and scans nothing.
"""

from dataclasses import dataclass
from pathlib import Path

from oncelog.broker.cluster.metadata_log import ClusterState
from oncelog.broker.storage.disk_errors import trouble
from oncelog.broker.storage.local.data_directory import (
    GRADUATED,
    KAFKAS_MARK,
    KAFKAS_MARK_TO_BE,
    ForeignDirectoryError,
    check_data_directory,
)
from oncelog.broker.storage.local.overlay_disk import OverlayDisk
from oncelog.broker.storage.local.partition_directory import directory_of, partition_of
from oncelog.broker.system.disk import DataDirectoryLocked, RealDisk
from oncelog.broker.turns.ports import Disk
from oncelog.protocol.errors import KafkaError
from oncelog.protocol.printable import printable_names
from oncelog.tools.graduate.settings import FIRST_LINE, PROPERTIES
from oncelog.tools.kafka_directory import NotPossible
from oncelog.tools.kafka_directory.metadata import METADATA_DIRECTORY
from oncelog.tools.kafka_directory.taking import recover

_LOCK = ".lock"
_DAMAGED = "; `oncelog log verify` shows what is lost, and `oncelog log repair` makes the rest usable"
_LEFT_BY_REMOVALS = ("-delete", "-stray")
"""The suffixes of directories that Kafka knows how to treat."""


@dataclass(frozen=True, slots=True)
class Source:
    """The data directory to graduate."""

    cluster_id: str
    node_id: int
    state: ClusterState
    directories: tuple[str, ...]
    """The directories of the partitions that have files, without the metadata log's."""

    def count_of(self, topic: str) -> int:
        """Return how many partitions of an internal topic have files."""
        return sum((partition_of(name) or ("",))[0] == topic for name in self.directories)


def lock(data_dir: Path) -> RealDisk:
    """Return the directory, locked until `close`: no broker of ours can start on it meanwhile. Raises NotPossible."""
    if not (data_dir / _LOCK).is_file():
        if (data_dir / KAFKAS_MARK).is_file():
            raise _is_kafkas(data_dir)
        raise NotPossible(f"{data_dir} is not a data directory of a broker")
    try:
        disk = RealDisk(data_dir)
        _check_owner(disk, data_dir)
        disk.lock()
    except DataDirectoryLocked as error:
        raise NotPossible(f"{error}: stop it first (SIGTERM), and wait until it has ended") from error
    except ForeignDirectoryError as error:
        raise NotPossible(f"cannot use {data_dir}: {error}") from error
    except OSError as error:
        raise NotPossible(f"cannot use {data_dir}: {error.strerror or error}") from error
    return disk


def _check_owner(disk: RealDisk, data_dir: Path) -> None:
    """Raises NotPossible, ForeignDirectoryError, OSError. Our own marks are no obstacle: the work is repeated."""
    if disk.exists(KAFKAS_MARK):
        raise _is_kafkas(data_dir)
    if not disk.exists(KAFKAS_MARK_TO_BE) and not disk.exists(GRADUATED):
        check_data_directory(disk, METADATA_DIRECTORY)


def _is_kafkas(data_dir: Path) -> NotPossible:
    return NotPossible(
        f"{data_dir} belongs to Apache Kafka already (it has {KAFKAS_MARK}): start Kafka with the server.properties "
        "there"
    )


def read(disk: Disk, *, changes_nothing: bool) -> Source:
    """Recover the directory and close it cleanly, or, with `changes_nothing`, find out what that would give. Raises
    NotPossible."""
    if not disk.exists(METADATA_DIRECTORY):
        raise NotPossible("it has no metadata log, so nothing is known about its topics: restore it from a copy")
    try:
        state = recover(OverlayDisk(disk) if changes_nothing else disk, _DAMAGED)
    except KafkaError as error:
        raise NotPossible(f"the metadata log cannot be replayed: {error}; restore it from a copy") from error
    except OSError as error:
        raise NotPossible(trouble(error)) from error
    if state.registration is None or state.cluster_id is None:
        raise NotPossible("it is of an earlier version: start and stop `oncelog serve` of this version on it once")
    partitions = [
        directory_of(topic.name, index) for topic in state.topics.values() for index in range(topic.partition_count)
    ]
    found = tuple(name for name in partitions if disk.exists(name))
    return Source(state.cluster_id, state.registration.broker_id, state, found)


def check_in_place(disk: RealDisk, data_dir: Path) -> None:
    """Raise NotPossible unless Kafka could start on the directory: it must contain only partitions, and a file of the
    user's must not be overwritten."""
    if disk.exists(PROPERTIES) and not disk.read_bytes(PROPERTIES).startswith(FIRST_LINE.encode()):
        raise NotPossible(f"{data_dir / PROPERTIES} exists, and would be overwritten: move it away")
    foreign = [
        name
        for name in disk.list_dir("")
        if (data_dir / name).is_dir() and partition_of(name) is None and not name.endswith(_LEFT_BY_REMOVALS)
    ]
    if foreign:
        raise NotPossible(
            f"Kafka would not start on {data_dir}, for it contains {printable_names(foreign)}: move that away, "
            "or use --out with a directory on the same file system"
        )
