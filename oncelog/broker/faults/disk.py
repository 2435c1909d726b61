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
from oncelog.broker.system.wrapped_disk import WrappedDisk, WrappedFile
from oncelog.broker.turns.ports import Buffer, Disk, File
from oncelog.protocol.records.record import decode_records
from oncelog.protocol.topics import TRANSACTION_STATE

if TYPE_CHECKING:
    from oncelog.broker.faults.faults import Faults

_LOG_SUFFIX = ".log"


class FaultDisk(WrappedDisk):
    def __init__(self, disk: Disk, faults: "Faults") -> None:
        super().__init__(disk)
        self._faults = faults

    def open(self, path: str) -> File:
        file = self._below.open(path)
        topic, _, partition = path.rpartition("/")[0].rpartition("-")
        if path.endswith(_LOG_SUFFIX) and topic and partition.isdecimal():
            return _LogFile(file, self._faults, (topic, int(partition)))
        return file


class _LogFile(WrappedFile):
    """The `.log` file of a segment."""

    def __init__(self, file: File, faults: "Faults", partition: tuple[str, int]) -> None:
        super().__init__(file)
        self._faults = faults
        self._partition = partition

    def append(self, parts: Sequence[Buffer]) -> int:
        if not self._faults.watches_appends:
            return self._below.append(parts)
        occurrence = self._occurrence(parts)
        planted = self._faults.fire(occurrence)
        if planted is not None:
            self._fail(planted.rule.action, parts)
        position = self._below.append(parts)
        self._faults.fire(replace(occurrence, point=Point.APPENDED), is_append=True)
        return position

    def _fail(self, action: Action, parts: Sequence[Buffer]) -> NoReturn:
        if action is Action.TEAR:
            whole = b"".join(parts)
            self._below.append((whole[: len(whole) // 2],))
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
