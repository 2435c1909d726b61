"""A backup on disks in memory: what `oncelog backup` does with an image, without its files."""

import json
from collections.abc import Iterable
from typing import Any

from oncelog.broker.log.partition_log import PartitionLog
from oncelog.broker.log.store import LogStore, LogView
from oncelog.broker.storage.local.data_directory import IMAGE, IMAGE_LIST, IMAGE_WANTED
from oncelog.testing.memory_disk import MemoryDisk
from tests.fakes.logs import all_batches, files_of


def taken(disk: MemoryDisk, store: LogStore, logs: Iterable[LogView]) -> dict[str, int] | None:
    """The sizes of the files of an image of this moment; None if the store cannot take one yet."""
    disk.open(IMAGE_WANTED).close()
    store.step(logs)
    if not disk.exists(IMAGE_LIST):
        return None
    sizes: dict[str, int] = json.loads(disk.read_bytes(IMAGE_LIST))["files"]
    return sizes


def copied(disk: MemoryDisk, sizes: dict[str, int]) -> MemoryDisk:
    """A disk with what the image has, durable; the image is gone then."""
    copy = MemoryDisk(is_watched=disk.is_watched)
    copy.notes = disk.notes.copy()
    copy.notes.notes.clear()  # a directory of its own: it finds no note
    for path, size_bytes in sizes.items():
        copy.make_dir(path.rpartition("/")[0])
        copy.open(path).append([disk.read_bytes(f"{IMAGE}/{path}")[:size_bytes]])
    copy.make_durable()
    disk.delete_tree(IMAGE)
    return copy


def seen(log: PartitionLog) -> tuple[Any, ...]:
    """Return what the layers above read of a log: its error, offsets, batches and producers."""
    batches = [bytes(data) for _, data in all_batches(log)]
    return log.offline_error, files_of(log).log_start_offset, log.log_end_offset, batches, _producers(log)


def _producers(log: PartitionLog) -> list[tuple[int, ...]]:
    return sorted(
        (
            state.producer_id,
            state.producer_epoch,
            state.last_sequence,
            state.last_offset,
            state.current_transaction_first_offset,
        )
        for state in log.producer_state.producers()
    )
