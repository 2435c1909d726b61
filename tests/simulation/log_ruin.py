"""What else may befall the files of a log in simulation: directories and files that are gone, refused or unreadable.

Owns: the choice and what is done, before a start or while the log runs, and the verdict: no damage is silent. Each
acknowledged record can be read, or its partition is offline and a line says so. Not after a power cut or a full disk,
for then nobody may know how far a log was synced.
"""

from collections.abc import Iterable
from random import Random

from oncelog.broker.log.partition_log import PartitionLog
from oncelog.broker.storage.local.flushed_offsets import NAME as FLUSHED_OFFSETS
from oncelog.testing.memory_disk import MemoryDisk
from tests.fakes.logs import Logs
from tests.simulation.log_auditor import LogAuditor, require

KINDS = ("gone", "gone", "EIO", "EIO", "EACCES", "directory", "no directory", "directory refused")


class Ruin:
    def __init__(self, random: Random, disk: MemoryDisk) -> None:
        """Something happens to one partition; sometimes the journal is lost as well."""
        self._random = random
        directories = sorted({path.rpartition("/")[0] for path in disk.files if path.startswith("topic-")})
        self.directory = random.choice(directories) if directories else ""
        self._kind = random.choice(KINDS)
        self.is_late = self._kind == "EIO" and random.random() < 0.5
        # Without the journal nobody remembers a directory, or a last segment: its loss is what the line is about then.
        if not self.is_late and random.random() < 0.2:
            disk.files.pop(FLUSHED_OFFSETS, None)

    def happen(self, disk: MemoryDisk) -> None:
        if not self.directory:
            return
        path = self._random.choice(sorted(path for path in disk.files if path.startswith(f"{self.directory}/")))
        match self._kind:
            case "gone":
                del disk.files[path]
            case "EIO":
                disk.unreadable.add(path)
            case "EACCES":
                disk.refused.add(path)
            case "directory":
                del disk.files[path]
                disk.directories.add(path)
            case "no directory":
                disk.delete_tree(self.directory)
            case "directory refused":
                disk.refused.add(self.directory)


def audit_ruin(logs: Logs, audited: Iterable[tuple[LogAuditor, PartitionLog]]) -> None:
    for auditor, log in audited:
        was_offline = log.offline_error is not None
        auditor.damaged(log)
        lines = [line for report in logs.reports for line in report.lines] + logs.damaged
        if log.offline_error is not None:
            require(log.offline_error in (lines if was_offline else logs.damaged), "no damage is silent", log.name)
        elif log.log_end_offset < auditor.model.durable_end:
            require(bool(logs.store.problems), "no damage is silent", log.name)
