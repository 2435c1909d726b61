"""The data directory of a broker that starts: whether it can be ours, and how it is opened.

Owns: the refusals, in words that say what to do. Does not own: the files (`broker.storage.local`).
"""

import os
from contextlib import ExitStack
from typing import Any

from oncelog.broker.config.settings import BrokerConfig, StartError
from oncelog.broker.storage.local.data_directory import (
    ADOPTED,
    BACKUP_SUMS,
    ForeignDirectoryError,
    check_data_directory,
)
from oncelog.broker.storage.local.partition_directory import directory_of
from oncelog.broker.system.disk import DEFAULT_OPEN_FILES, RealDisk
from oncelog.broker.turns.ports import Disk
from oncelog.protocol.topics import METADATA_TOPIC


def check_directory(config: BrokerConfig, disk: Disk) -> None:
    """Raises StartError for a directory that cannot be our data directory, OSError."""
    try:
        check_data_directory(disk, directory_of(METADATA_TOPIC, 0))
    except ForeignDirectoryError as error:
        raise StartError(f"cannot use {config.data_dir} as the data directory: {error}.") from error
    if disk.exists(BACKUP_SUMS) and not config.get_bool("oncelog.read.only"):
        raise StartError(
            f"{config.data_dir} is a backup, and would be none any more: `oncelog restore {config.data_dir} --data-dir "
            "NEW` brings it back; to look at it, start with --read-only."
        )


def suited_to_directory(config: BrokerConfig, log: Any) -> BrokerConfig:
    """Return the config, read-only for a directory that was adopted until a start says otherwise: a writable start ends
    its transactions and deletes records that are too old."""
    if config.get_str("oncelog.storage") != "local" or not os.path.exists(config.data_dir / ADOPTED):
        return config
    suited = config.read_only_by_default(ADOPTED)
    if suited is not config:
        log.warning(
            "directory.adopted",
            data_dir=str(config.data_dir),
            message="it was adopted from Apache Kafka, so it is served read-only; to continue from it, start once with "
            "--writable (oncelog.read.only=false)",
        )
    return suited


def open_directory(config: BrokerConfig, open_files: int = DEFAULT_OPEN_FILES) -> RealDisk:
    """Raises StartError for a directory that cannot be ours, DataDirectoryLocked, OSError."""
    is_read_only = config.get_bool("oncelog.read.only")
    disk = RealDisk(config.data_dir, open_files, read_only=is_read_only)
    with ExitStack() as unless_opened:
        unless_opened.callback(disk.close)
        check_directory(config, disk)  # before locking, which already creates a file
        disk.lock()
        if not is_read_only and disk.exists(ADOPTED):  # from here on it is a directory as any other
            disk.delete(ADOPTED)
            disk.sync_dir("")
        unless_opened.pop_all()
    return disk
