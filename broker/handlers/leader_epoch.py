"""The check of a client's leader epoch against the partition's (KIP-320), shared by Fetch and ListOffsets."""

from broker.log.partition_log import PartitionLog
from protocol.errors import ErrorCode, KafkaError


def check_leader_epoch(log: PartitionLog, current_leader_epoch: int) -> None:
    """−1 skips the check; raises FENCED_LEADER_EPOCH for an older epoch, UNKNOWN_LEADER_EPOCH for a newer one."""
    if current_leader_epoch == -1 or current_leader_epoch == log.leader_epoch:
        return
    older = current_leader_epoch < log.leader_epoch
    raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH)
