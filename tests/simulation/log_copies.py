"""Another copy of the directory in simulation: it was made while a start found it, ran on, and files of it come back.

Owns: what the copy lives through, which of its files take the place of the original's, and the verdict: no acknowledged
record is replaced, and none appears that was not sent here. A copy counts its starts and files as the original does;
often it has the same number of them.
"""

from collections.abc import Callable, Sequence
from random import Random

from oncelog.broker.log.partition_log import PartitionLog
from oncelog.broker.storage.local.boot_mark import NAME as BOOT
from oncelog.broker.storage.local.boot_mark import UNSETTLED
from oncelog.broker.storage.local.flushed_offsets import NAME as FLUSHED_OFFSETS
from oncelog.broker.storage.local.journal import NAMES as JOURNALS
from oncelog.protocol.errors import KafkaError
from oncelog.testing.memory_disk import MemoryDisk
from tests.fakes.logs import Logs, batch
from tests.simulation.log_auditor import LogAuditor, require

_COMING_BACK: tuple[tuple[str, ...], ...] = (
    JOURNALS,
    JOURNALS[:1],
    JOURNALS[1:],
    (FLUSHED_OFFSETS,),
    (FLUSHED_OFFSETS,),
)
_ALL = (*JOURNALS, FLUSHED_OFFSETS)
Start = Callable[[MemoryDisk], tuple[Logs, Sequence[PartitionLog]]]


class Copy:
    def __init__(self, disk: MemoryDisk) -> None:
        """Copy the directory as this start finds it."""
        self._disk = disk.kill()
        self._disk.notes.notes.clear()  # a directory of its own: it finds no note of the original's
        self.original_starts = 1

    def live(self, random: Random, start: Start) -> None:
        """Run the copy for as many starts as the original had, or another number, with some rounds each; the last is
        killed.
        """
        starts = self.original_starts if random.random() < 0.7 else random.randint(1, 4)
        for _ in range(starts):
            logs, opened = start(self._disk)
            for number in range(random.randint(0, 8)):
                for log in random.sample(list(opened), random.randint(1, len(opened))):
                    # A start on a damaged copy may find a partition offline.
                    if log.offline_error is None:
                        logs.append(log, batch(random.choice([1, 1, 3]), key=b"a", value=b"of the copy %d" % number))
                if random.random() < 0.3:
                    logs.store.file_sync.begin_checkpoint()
                if random.random() < 0.8:
                    logs.flush()
                log = random.choice(list(opened))
                if random.random() < 0.2 and log.offline_error is None:
                    self._delete_records(logs, log)
            if logs.store.cleaner is not None:
                logs.store.cleaner.stop()
            self._disk = logs.disk.kill()

    def _delete_records(self, logs: Logs, log: PartitionLog) -> None:
        """It moves the start of its log, below which a start deletes segments."""
        try:
            logs.delete_records(log, log.high_watermark)
        except KafkaError as error:
            require(False, "records may be deleted", str(error))

    def come_back(self, disk: MemoryDisk, random: Random) -> tuple[str, ...]:
        """Some files of the original are replaced by those of the copy; return which."""
        kinds = list(_COMING_BACK)
        # With all three of them from the copy, only `boot` knows better, where it names a run.
        if BOOT in disk.files and bytes(disk.files[BOOT].data) != UNSETTLED:
            kinds.append(_ALL)
        names = tuple(name for name in random.choice(kinds) if name in self._disk.files)
        for name in names:
            disk.write_atomically(name, bytes(self._disk.files[name].data))
        return names


def segments_on(disk: MemoryDisk, slot: int) -> bytes:
    """The bytes of all segments of a partition."""
    return b"".join(
        bytes(inode.data)
        for path, inode in sorted(disk.files.items())
        if path.startswith(f"topic-{slot}/") and path.endswith(".log")
    )


def audit_copies(
    audited: Sequence[tuple[LogAuditor, PartitionLog]],
    before: Sequence[bytes],
    after: Sequence[bytes],
    least: Sequence[int],
    *,
    kept_all: bool,
) -> None:
    """`before` and `after` that start: what the segments of each partition hold. `least`: where the logs end in a start
    that finds none of the files which the copy has replaced."""
    for (auditor, log), found, left, least_end in zip(audited, before, after, least, strict=True):
        auditor.damaged(log)
        model = auditor.model
        require(
            log.offline_error is not None
            or log.log_end_offset >= model.durable_end
            or (not kept_all and log.log_end_offset >= least_end),
            "a journal of another copy costs nothing that was acknowledged",
            log.name,
            log.log_end_offset,
            least_end,
            model.durable_end,
        )
        if model.is_compacted:
            continue
        for written in model.batches:
            is_due = written.next_offset <= max(model.log_start, model.durable_start)
            # Behind a write that a power cut has torn, a start cuts the log: with a line, as without any copy.
            is_cut = not kept_all and log.offline_error is None and written.next_offset > log.log_end_offset
            is_acknowledged = written.next_offset <= model.durable_end
            if is_acknowledged and not is_due and not is_cut and written.data in found:
                require(written.data in left, "no acknowledged batch is overwritten", log.name, written.base_offset)
