"""Where a share group begins to read a partition that it has never read: `share.auto.offset.reset` (KIP-932, KIP-1106).

Owns: the offset that follows from the setting. Does not own: the setting.
"""

from oncelog.broker.config.offset_reset import EARLIEST, LATEST, OffsetReset
from oncelog.broker.log.partition_log import PartitionLog
from oncelog.broker.log.store import FoundRecord
from oncelog.broker.log.values import FetchIsolation
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.ports import WallMs
from oncelog.protocol.errors import ErrorCode, KafkaError


def first_offset(log: PartitionLog, reset: OffsetReset, wall_ms: WallMs) -> Completion[int]:
    """Return the start offset for this value of the setting, as a reader of uncommitted records finds it. Fails with
    KafkaError: OFFSET_NOT_AVAILABLE if no record is as young as the duration says."""
    if reset.kind == EARLIEST:
        return Completion.of(log.log_start_offset)
    answered = log.when_answers_are_durable()
    if answered is not None:  # what its producer knows of is older than the group
        return answered.flat_map(lambda _: _at_the_end_or_since(log, reset, wall_ms))
    return _at_the_end_or_since(log, reset, wall_ms)


def _at_the_end_or_since(log: PartitionLog, reset: OffsetReset, wall_ms: WallMs) -> Completion[int]:
    if reset.kind == LATEST:
        return Completion.of(log.high_watermark)
    timestamp_ms = max(0, wall_ms - reset.duration_ms)
    try:
        found = log.offset_for_timestamp(timestamp_ms, FetchIsolation.HIGH_WATERMARK)
    except KafkaError as error:
        return Completion.failed(error)
    later = found if isinstance(found, Completion) else Completion.of(found)
    return later.map(lambda record: _offset_of(record, log, timestamp_ms))


def _offset_of(record: FoundRecord | None, log: PartitionLog, timestamp_ms: int) -> int:
    if record is None:
        message = f"Offset for timestamp {timestamp_ms} not found for topic partition: {log.name}"
        raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE, message)
    return record[0]
