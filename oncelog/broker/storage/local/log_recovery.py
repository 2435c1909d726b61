"""Recovers the logs of a data directory, one by one, when they are opened.

Owns: the order for one log: whose directory it is, what only the journal has, then its files. Does not own: what each
of these steps does (`data_directory`, `redo`, `recovery`), what becomes of a recovered log (`log_store`).
Imported with the first log that has files: a first start has none.
"""

from uuid import UUID

from oncelog.broker.apis.compatibility import Compatibility
from oncelog.broker.log.log_config import INT64_MAX, LogConfig
from oncelog.broker.storage.disk_errors import trouble
from oncelog.broker.storage.local.checkpoints import CleanerCheckpoint
from oncelog.broker.storage.local.data_directory import DataDirectory
from oncelog.broker.storage.local.flushed_offsets import FlushedOffsets
from oncelog.broker.storage.local.left_journal import LeftJournal
from oncelog.broker.storage.local.partition_directory import directory_of
from oncelog.broker.storage.local.recovered_log import RecoveredLog, offline_log
from oncelog.broker.storage.local.recovery import recover_log
from oncelog.broker.storage.local.recovery_progress import RecoveryProgress
from oncelog.broker.turns.ports import Clock, Disk


class LogRecovery:
    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        directory: DataDirectory,
        flushed: FlushedOffsets,
        left: LeftJournal,
        cleaned: CleanerCheckpoint,
        compatibility: Compatibility,
        progress: RecoveryProgress | None,
    ) -> None:
        self._disk = disk
        self._clock = clock
        self._directory = directory
        self._flushed = flushed
        self._left = left
        self._cleaned = cleaned
        self._compatibility = compatibility
        self._progress = progress

    def recover(self, topic: str, partition: int, topic_id: UUID, config: LogConfig) -> RecoveredLog:
        """Claim the directory of a partition, put back what only the journal has, and recover its files."""
        points, recorded = self._left.points(topic_id, partition), self._flushed.get(topic_id, partition)
        directory = directory_of(topic, partition)
        lines: list[str] = []
        try:
            problem = self._directory.claim(topic, partition, topic_id, lines)
            if problem is None:
                problem = self.put_back(directory, topic_id, partition, lines)
        except OSError as error:
            problem = trouble(error)
        if problem is not None:
            recovered = offline_log(self._disk, directory, topic_id, problem)
            recovered.lines[:0] = lines
            return recovered
        progress = self._progress
        if progress is not None:
            progress.on_partition(directory)
        recovered = recover_log(
            self._disk,
            directory,
            topic_id,
            config,
            points,
            self._clock.monotonic_ms(),
            is_journal_whole=self._flushed.is_whole,
            is_journal_damaged=self._left.contents.problem is not None,
            compacted_offset=INT64_MAX if config.is_compacted else self._cleaned.get(topic, partition),
            committed_offset=self._left.committed_offset(topic_id, partition),
            is_end_proven=self._left.is_end_proven,
            checkpointed_offset=recorded.synced_offset if recorded is not None else 0,
            compatibility=self._compatibility,
            on_scanned=progress.on_scanned if progress is not None else None,
        )
        if progress is not None and len(recovered.segments):
            progress.on_recovered()
        recovered.lines[:0] = lines
        return recovered

    def put_back(self, directory: str, topic_id: UUID, partition: int, lines: list[str]) -> str | None:
        """Put back what only the journal has; appends what was done to `lines`. Returns why nothing may be, or None.
        Raises OSError."""
        tail = self._left.tail((topic_id, partition))
        points = self._flushed.get(topic_id, partition)
        spans = tail.above(points) if tail is not None else ()
        if tail is None or not tail.spans:
            return None
        if spans:
            from oncelog.broker.storage.local.redo import plan, put_back  # needed only after a kill

            log_start_offset = points.log_start_offset if points is not None else 0
            planned = plan(self._disk, directory, spans, log_start_offset, only_extend=not self._left.is_in_use)
            if planned.contradiction is not None:
                return (
                    f"{planned.contradiction}, so one of them is of another copy of this directory: restore both as "
                    "they were in one moment; `oncelog log repair` keeps what the segment has"
                )
            missing_bytes = put_back(self._disk, planned, topic_id)
            if missing_bytes:
                lines.append(f"{directory}: {missing_bytes} bytes come from the journal")
        # Also if the log turns out to be damaged: what a repair makes of its segments must stay.
        tail.synced_offset, tail.spans = tail.end_offset(points), []
        return None
