"""Leader epochs in requests (KIP-320, KIP-101), for Fetch, ListOffsets, OffsetForLeaderEpoch.

Does not own: the current epoch (`broker.cluster.leadership`), where each epoch began (`broker.log.leader_epochs`).
"""

from oncelog.broker.log.partition_log import PartitionLog
from oncelog.protocol.errors import ErrorCode, KafkaError


def check_leader_epoch(log: PartitionLog, current_leader_epoch: int) -> None:
    """−1 skips the check; raises FENCED_LEADER_EPOCH for an older epoch, UNKNOWN_LEADER_EPOCH for a newer one."""
    if current_leader_epoch == -1 or current_leader_epoch == log.leader_epoch:
        return
    older = current_leader_epoch < log.leader_epoch
    raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH)


def end_offset_for_epoch(log: PartitionLog, epoch: int) -> tuple[int, int]:
    """The largest epoch up to `epoch` that the log has, and its end offset; −1 and −1 if unknown."""
    return log.epochs.end_of(epoch, log.log_end_offset)
