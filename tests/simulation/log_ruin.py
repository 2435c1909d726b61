"""What else may befall the files of a log in simulation: directories and files that are gone, refused or unreadable.

Owns: the choice and what is done, before a start or while the log runs, and the verdict: no damage is silent. Each
acknowledged record can be read, or its partition is offline and a line says so. Not after a power cut or a full disk,
for then it may be unknown how far a log was synced.
"""

from collections.abc import Iterable
from random import Random

from oncelog.broker.log.partition_log import PartitionLog
from oncelog.broker.storage.local.flushed_offsets import NAME as FLUSHED_OFFSETS
from oncelog.broker.storage.local.journal import _MAGIC as MAGIC
from oncelog.broker.storage.local.journal import NAMES as JOURNALS
from oncelog.testing.memory_disk import MemoryDisk
from tests.fakes.logs import Logs
from tests.simulation.log_auditor import LogAuditor, require

BATCHES = (".log", ".swap")
"""Files of which every byte counts; compaction's is about to become a `.log`."""
KINDS = ("gone", "gone", "EIO", "EIO", "EACCES", "directory", "no directory", "directory refused")


class Ruin:
    def __init__(self, random: Random, disk: MemoryDisk) -> None:
        """Something happens to one partition; sometimes the journal is lost as well."""
        self._random = random
        directories = sorted({path.rpartition("/")[0] for path in disk.files if path.startswith("topic-")})
        self.directory = random.choice(directories) if directories else ""
        self._kind = random.choice(KINDS)
        self.is_late = self._kind == "EIO" and random.random() < 0.5
        # Without the journal no other file names a directory, or a last segment: its loss is what the line is about
        # then.
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


JOURNAL_KINDS = ("bit", "bit of the last frames", "cut", "older", "older with flushed-offsets", "empty")


class JournalRuin:
    """Damages the journal of a stopped or killed broker, as a bad sector or an operator with an old copy does."""

    def __init__(self) -> None:
        self._older: dict[str, bytes] = {}

    def copy(self, disk: MemoryDisk) -> None:
        """Keep the files as they are now, as the copy that is restored later."""
        self._older = {
            name: bytes(disk.files[name].data) for name in (*JOURNALS, FLUSHED_OFFSETS) if name in disk.files
        }

    def happen(self, disk: MemoryDisk, random: Random) -> str:
        """Damage the journal; return the kind of damage, or an empty string if there was nothing to damage."""
        kind = random.choice(JOURNAL_KINDS)
        if "older" in kind:
            names = (*JOURNALS, FLUSHED_OFFSETS) if "flushed" in kind else JOURNALS
            if not all(name in self._older and name in disk.files for name in names):
                return ""
            for name in names:
                disk.files[name].data[:] = disk.files[name].synced[:] = self._older[name]
            return kind
        name = random.choice(JOURNALS)
        data = disk.files[name].data if name in disk.files else bytearray()
        if not data:
            return ""
        if kind == "bit":
            data[random.randrange(len(data))] ^= 1 << random.randrange(8)
        elif kind == "bit of the last frames":
            frames = [at for at in range(0, len(data), 512) if data.startswith(MAGIC, at)]
            if not frames:
                return ""
            data[random.choice(frames[-4:]) + random.randrange(80)] ^= 1 << random.randrange(8)
        else:
            del data[random.randrange(len(data)) if kind == "cut" else 0 :]
        disk.files[name].synced = bytearray(data)
        return kind


def audit_journal_ruin(audited: Iterable[tuple[LogAuditor, PartitionLog]], *, had_lost_answers: bool) -> None:
    """The segments have it all, and nothing of it is removed for what the journal lacks, but for what was answered
    ahead if the start knows of its loss."""
    for auditor, log in audited:
        auditor.damaged(log)
        answered_end = 0 if had_lost_answers else auditor.model.answered_end
        acknowledged = max(auditor.model.durable_end, answered_end)
        require(
            log.offline_error is not None or log.log_end_offset >= acknowledged,
            "a damaged journal removes nothing that was acknowledged",
            log.name,
            log.log_end_offset,
            acknowledged,
        )


def audit_damage(audited: Iterable[tuple[LogAuditor, PartitionLog]]) -> None:
    """A byte was changed. Such a log is not written to again: what it shows is all that matters."""
    for auditor, log in audited:
        auditor.damaged(log)
        is_shorter = log.offline_error is None and log.log_end_offset < auditor.model.durable_end
        require(not is_shorter, "damage never shortens a log silently")


def audit_ruin(logs: Logs, audited: Iterable[tuple[LogAuditor, PartitionLog]]) -> None:
    for auditor, log in audited:
        was_offline = log.offline_error is not None
        auditor.damaged(log)
        lines = [line for report in logs.reports for line in report.lines] + logs.damaged
        if log.offline_error is not None:
            require(log.offline_error in (lines if was_offline else logs.damaged), "no damage is silent", log.name)
        elif log.log_end_offset < auditor.model.durable_end:
            require(bool(logs.store.problems), "no damage is silent", log.name)


def bare(disk: MemoryDisk, partition_count: int) -> MemoryDisk:
    """Leave of each partition that has its beginning yet the `.log` files alone: all else can be rebuilt."""
    for slot in range(partition_count):
        names = disk.list_dir(f"topic-{slot}")
        if f"{0:020d}.log" in names:
            for name in names:
                if name.endswith(("index", ".snapshot", ".batches")):
                    disk.delete(f"topic-{slot}/{name}")
    return disk


def change_a_byte(disk: MemoryDisk, random: Random, *, with_logs: bool) -> str | None:
    """Change a byte in a file of a partition, as a bad sector does; return the file's name.

    Not in a `.log` after a power cut or a full disk: how far the log was synced may be unknown then, and damage above
    looks like a torn write. Not in a snapshot once segments were deleted: nothing else records what producers did
    there.
    """
    names = []
    for path in sorted(disk.files):
        directory, _, name = path.rpartition("/")
        is_rebuilt = not path.endswith((".snapshot", ".batches")) or f"{0:020d}.log" in disk.list_dir(directory)
        is_allowed = is_rebuilt and (with_logs or not name.endswith(BATCHES))
        if directory.startswith("topic-") and disk.files[path].data and is_allowed:
            names.append(path)
    if not names:
        return None
    name = random.choice(names)
    data = disk.files[name].data
    data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    disk.files[name].synced = bytearray(data)
    return name
