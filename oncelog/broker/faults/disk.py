"""A Disk that reports each batch written to a partition's log, before and after.

Owns: turning a written batch into an occurrence. Everything else is passed to the disk below.
"""

import errno
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

from oncelog.broker.coordinator.runtime import CoordinatorRecord
from oncelog.broker.coordinator.transaction.records import from_record
from oncelog.broker.faults.planted import Occurrence
from oncelog.broker.faults.rule import Action, Point
from oncelog.broker.turns.ports import Buffer, Disk, File, Notes
from oncelog.protocol.records.record import decode_records
from oncelog.protocol.topics import TRANSACTION_STATE

if TYPE_CHECKING:
    from oncelog.broker.faults.faults import Faults

_LOG_SUFFIX = ".log"


class FaultDisk:
    def __init__(self, disk: Disk, faults: "Faults") -> None:
        self._disk = disk
        self._faults = faults

    def open(self, path: str) -> File:
        file = self._disk.open(path)
        topic, _, partition = path.rpartition("/")[0].rpartition("-")
        if path.endswith(_LOG_SUFFIX) and topic and partition.isdecimal():
            return _LogFile(file, self._faults, (topic, int(partition)))
        return file

    def exists(self, path: str) -> bool:
        return self._disk.exists(path)

    def list_dir(self, path: str) -> list[str]:
        return self._disk.list_dir(path)

    def make_dir(self, path: str) -> None:
        self._disk.make_dir(path)

    def read_bytes(self, path: str) -> bytes:
        return self._disk.read_bytes(path)

    def read_range(self, path: str, start: int, end: int) -> bytes:
        return self._disk.read_range(path, start, end)

    def write_atomically(self, path: str, data: Buffer) -> None:
        self._disk.write_atomically(path, data)

    def rename(self, old_path: str, new_path: str) -> None:
        self._disk.rename(old_path, new_path)

    def delete(self, path: str) -> None:
        self._disk.delete(path)

    def delete_tree(self, path: str) -> None:
        self._disk.delete_tree(path)

    def sync_dir(self, path: str) -> None:
        self._disk.sync_dir(path)

    def volume_bytes(self) -> tuple[int, int]:
        return self._disk.volume_bytes()

    @property
    def notes(self) -> Notes:
        return self._disk.notes


class _LogFile:
    """A segment's `.log`."""

    def __init__(self, file: File, faults: "Faults", partition: tuple[str, int]) -> None:
        self._file = file
        self._faults = faults
        self._partition = partition

    @property
    def path(self) -> str:
        return self._file.path

    @property
    def size_bytes(self) -> int:
        return self._file.size_bytes

    def append(self, parts: Sequence[Buffer]) -> int:
        if not self._faults.watches_appends:
            return self._file.append(parts)
        occurrence = self._occurrence(parts)
        planted = self._faults.fire(occurrence)
        if planted is not None:
            self._fail(planted.rule.action, parts)
        position = self._file.append(parts)
        self._faults.fire(replace(occurrence, point=Point.APPENDED), is_append=True)
        return position

    def _fail(self, action: Action, parts: Sequence[Buffer]) -> NoReturn:
        if action is Action.TEAR:
            whole = b"".join(parts)
            self._file.append((whole[: len(whole) // 2],))
            self._faults.crash()
        code = errno.ENOSPC if action is Action.NO_ROOM else errno.EIO
        raise OSError(code, f"{os.strerror(code)} (a fault rule)", self.path)

    def _occurrence(self, parts: Sequence[Buffer]) -> Occurrence:
        transactional_ids: tuple[str, ...] = ()
        state: str | None = None
        if self._partition[0] == TRANSACTION_STATE:
            for record in decode_records(memoryview(b"".join(parts))):
                transactional_id, metadata = from_record(CoordinatorRecord(record.key or b"", record.value))
                transactional_ids += (transactional_id,)
                state = None if metadata is None else metadata.state.kafka_name
        return Occurrence(Point.APPEND, transactional_ids=transactional_ids, partitions=(self._partition,), state=state)

    def read_view(self, start: int, end: int) -> memoryview:
        return self._file.read_view(start, end)

    def cached_view(self, start: int, end: int) -> memoryview | None:
        return self._file.cached_view(start, end)

    def overwrite(self, position: int, data: Buffer) -> None:
        self._file.overwrite(position, data)

    def write_durably(self, position: int, data: Buffer) -> None:
        self._file.write_durably(position, data)

    def truncate(self, size_bytes: int) -> None:
        self._file.truncate(size_bytes)

    def sync(self) -> None:
        self._file.sync()

    def close(self) -> None:
        self._file.close()
