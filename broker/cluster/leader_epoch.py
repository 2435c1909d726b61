"""A partition's leader epochs as clients ask for them (KIP-320, KIP-101), for Fetch, ListOffsets, OffsetForLeaderEpoch.

One node leads every partition from its first record on: its log holds one epoch, which began with the log.
"""

from oncelog.broker.log.partition_log import PartitionLog
from oncelog.protocol.errors import ErrorCode, KafkaError

UNDEFINED_EPOCH = -1
UNDEFINED_END_OFFSET = -1


def check_leader_epoch(log: PartitionLog, current_leader_epoch: int) -> None:
    """−1 skips the check; raises FENCED_LEADER_EPOCH for an older epoch, UNKNOWN_LEADER_EPOCH for a newer one."""
    if current_leader_epoch == -1 or current_leader_epoch == log.leader_epoch:
        return
    older = current_leader_epoch < log.leader_epoch
    raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH)


def end_offset_for_epoch(log: PartitionLog, epoch: int) -> tuple[int, int]:
    """The largest epoch up to `epoch` that the log has, and where it ended; −1 and −1 if that cannot be told."""
    if epoch == log.leader_epoch:
        return epoch, log.log_end_offset
    if epoch == UNDEFINED_EPOCH or epoch > log.leader_epoch:
        return UNDEFINED_EPOCH, UNDEFINED_END_OFFSET
    return epoch, log.log_start_offset
