"""Kafka's checkpoint files: one offset for each partition, and a partition's leader epochs, as text.

Owns: their format (version 0, a count, then `topic partition offset` or `epoch offset` lines). They are written for
Kafka and its tools; recovery here relies on `flushed_offsets`, whose entries have a topic id and a checksum. Only the
cleaner reads its own, and recovery the leader epochs of batches that it does not read.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import pairwise

from oncelog.broker.log.leader_epochs import EpochStart
from oncelog.broker.turns.ports import Disk

RECOVERY_POINT = "recovery-point-offset-checkpoint"
LOG_START = "log-start-offset-checkpoint"
CLEANER_OFFSET = "cleaner-offset-checkpoint"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
CLEAN_SHUTDOWN_CONTENT = b'{"version":0,"brokerEpoch":-1}'
LEADER_EPOCHS = "leader-epoch-checkpoint"
_VERSION = 0


def write_checkpoint(disk: Disk, name: str, offsets: Iterable[tuple[str, int, int]]) -> None:
    lines = [f"{topic} {partition} {offset}\n" for topic, partition, offset in offsets]
    disk.write_atomically(name, f"{_VERSION}\n{len(lines)}\n{''.join(lines)}".encode())


def encode_leader_epochs(entries: Sequence[EpochStart]) -> bytes:
    return f"{_VERSION}\n{len(entries)}\n{''.join(f'{epoch} {start}' + chr(10) for epoch, start in entries)}".encode()


def parse_leader_epochs(data: bytes) -> tuple[EpochStart, ...] | None:
    """Return the entries of a whole checkpoint whose epochs and offsets both increase; None for other `data`."""
    lines = data.decode(errors="replace").splitlines()
    try:
        entries = tuple((int(epoch), int(start)) for epoch, start in map(str.split, lines[2:]))
    except ValueError:
        return None
    grows = all(one[0] < two[0] and one[1] < two[1] for one, two in pairwise(entries))
    return entries if entries and grows and encode_leader_epochs(entries) == data else None


def read_checkpoint(disk: Disk, name: str) -> list[tuple[str, int, int]]:
    """The entries; none if the file is missing or damaged: every reader has a fallback."""
    return parse_checkpoint(disk.read_bytes(name)) or [] if disk.exists(name) else []


def parse_checkpoint(data: bytes) -> list[tuple[str, int, int]] | None:
    """Return the entries of a whole checkpoint file; None for other `data`."""
    lines = data.decode(errors="replace").splitlines()
    try:
        if int(lines[0]) != _VERSION or int(lines[1]) != len(lines) - 2:
            return None
        return [(topic, int(partition), int(offset)) for topic, partition, offset in map(str.split, lines[2:])]
    except (ValueError, IndexError):
        return None


class CleanerCheckpoint:
    """How far each log has been cleaned."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._offsets = {
            (topic, partition): offset for topic, partition, offset in read_checkpoint(disk, CLEANER_OFFSET)
        }

    def get(self, topic: str, partition: int) -> int:
        return self._offsets.get((topic, partition), 0)

    def set(self, topic: str, partition: int, offset: int) -> None:
        self._offsets[topic, partition] = offset
        self._write()

    def forget(self, topic: str) -> None:
        """The topic is deleted: a new one of the same name inherits nothing."""
        self._remove([key for key in self._offsets if key[0] == topic])

    def on_opened(self, topic: str, partition: int, log_end_offset: int) -> None:
        """An offset past its end is of an earlier topic of that name, whose removal this file has missed."""
        if self.get(topic, partition) > log_end_offset:
            self._remove([(topic, partition)])

    def _remove(self, gone: Sequence[tuple[str, int]]) -> None:
        for key in gone:
            del self._offsets[key]
        if gone:
            with suppress(OSError):  # a full disk; the next write omits it
                self._write()

    def _write(self) -> None:
        write_checkpoint(self._disk, CLEANER_OFFSET, [(*key, offset) for key, offset in self._offsets.items()])
