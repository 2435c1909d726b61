"""What recovery makes of one partition: the log, or why it is offline, and a report for the operator.

Owns: these values. Does not own: how they are found (`recovery`).
"""

from dataclasses import dataclass, field
from uuid import UUID

from oncelog.broker.log.leader_epochs import LeaderEpochs
from oncelog.broker.log.producer_state import ProducerStateManager
from oncelog.broker.storage.local.segments import Segments
from oncelog.broker.turns.ports import Disk


@dataclass(frozen=True, slots=True)
class RecoveryReport:
    """The findings of recovery that interest an operator; no lines: nothing to report."""

    topic: str
    partition: int
    lines: tuple[str, ...]
    scanned_bytes: int
    cut_bytes: int
    offline_error: str | None


@dataclass(slots=True)
class RecoveredLog:
    segments: Segments
    producer_state: ProducerStateManager
    log_start_offset: int
    log_end_offset: int
    epochs: LeaderEpochs = field(default_factory=LeaderEpochs)
    lines: list[str] = field(default_factory=list)
    scanned_bytes: int = 0
    cut_bytes: int = 0
    offline_error: str | None = None
    good_end_offset: int = 0
    """Where the damaged part begins, if it is offline."""


class DamagedLogError(Exception):
    """Durable data is missing or damaged; the message has the file and position.

    `good_end_offset`: everything below it that was not deleted on purpose is intact."""

    def __init__(self, message: str, good_end_offset: int) -> None:
        super().__init__(message)
        self.good_end_offset = good_end_offset


def empty_log(disk: Disk, directory: str, topic_id: UUID) -> RecoveredLog:
    """A partition that has no files yet."""
    return RecoveredLog(Segments(disk, directory, topic_id, []), ProducerStateManager(), 0, 0)


def offline_log(disk: Disk, directory: str, topic_id: UUID, problem: str) -> RecoveredLog:
    """A partition whose files must not be read."""
    recovered = empty_log(disk, directory, topic_id)
    take_offline(recovered, directory, problem)
    return recovered


def take_offline(recovered: RecoveredLog, directory: str, problem: str) -> None:
    recovered.offline_error = f"{directory} is offline: {problem}"
    recovered.lines.append(recovered.offline_error)
