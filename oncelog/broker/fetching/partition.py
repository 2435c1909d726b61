"""Reads one partition for a Fetch: which log it is, whether it may be read, what the response contains.

Errors are Kafka's: an id never found UNKNOWN_TOPIC_ID, a deleted topic UNKNOWN_TOPIC_OR_PARTITION, one recreated under
the same name INCONSISTENT_TOPIC_ID (KIP-516), epochs FENCED_LEADER_EPOCH and UNKNOWN_LEADER_EPOCH (KIP-320), a last
fetched epoch that ended earlier in this log a diverging epoch (KIP-595), offsets OFFSET_OUT_OF_RANGE.
"""

from functools import partial
from typing import NamedTuple

from oncelog.broker.cluster.leader_epoch import check_leader_epoch, end_offset_for_epoch
from oncelog.broker.cluster.topics import Topics
from oncelog.broker.fetching.session import FetchedPartition
from oncelog.broker.log.partition_log import FetchIsolation, PartitionLog, Records
from oncelog.broker.log.values import ReadBounds
from oncelog.broker.turns.completion import Completion
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.generated.fetch_response import AbortedTransaction, EpochEndOffset, PartitionData


def find_log(topics: Topics, wanted: FetchedPartition) -> PartitionLog:
    """The log that a partition of a fetch refers to now, and from now on; raises KafkaError."""
    name = wanted.topic
    if wanted.topic_id is None:
        if name is None or topics.get(name) is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    else:
        topic = topics.by_id(wanted.topic_id)
        if topic is not None:
            name = wanted.topic = topic.name
        elif name is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        else:
            is_recreated = topics.get(name) is not None
            raise KafkaError(ErrorCode.INCONSISTENT_TOPIC_ID if is_recreated else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    log = topics.find_partition(name, wanted.index)
    if log is None:
        raise topics.missing(name, wanted.index)
    wanted.log = log
    return log


def refuse_follower(wanted: FetchedPartition, log: PartitionLog) -> None:
    """No other node has a replica; raises KafkaError."""
    if wanted.current_leader_epoch < 0:
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    check_leader_epoch(log, wanted.current_leader_epoch)
    raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH)


def diverging_epoch(wanted: FetchedPartition, log: PartitionLog) -> EpochEndOffset | None:
    """Where the log and what the reader has read diverge, if they do; raises KafkaError if the epoch forbids reading.
    Called before every read and count."""
    # Any negative epoch means none, only in Fetch.
    if wanted.current_leader_epoch >= 0:
        check_leader_epoch(log, wanted.current_leader_epoch)
    if wanted.last_fetched_epoch >= 0:
        epoch, end_offset = end_offset_for_epoch(log, wanted.last_fetched_epoch)
        if end_offset < 0 or wanted.fetch_offset < log.log_start_offset:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        if epoch < wanted.last_fetched_epoch or end_offset < wanted.fetch_offset:
            return EpochEndOffset(epoch=epoch, end_offset=end_offset)
    log.check_readable(wanted.fetch_offset)
    return None


def readable_bytes(wanted: FetchedPartition, log: PartitionLog, isolation: FetchIsolation) -> int:
    """How many bytes a read would add to a response, without reading."""
    found = log.readable_bytes(wanted.fetch_offset, isolation)
    # One batch is returned whole, however small the limit.
    return min(found, max(wanted.max_bytes, 1))


def plan_partition(
    wanted: FetchedPartition, log: PartitionLog, isolation: FetchIsolation
) -> PartitionData | ReadBounds:
    """The response for a partition with nothing to read, or else the bounds of its reader: decided from offsets alone.
    Raises KafkaError."""
    diverging = diverging_epoch(wanted, log)
    if log.high_watermark < log.log_end_offset:
        log.start_round_for(isolation)
    if diverging is None:
        bounds = log.bounds(isolation)
        if wanted.fetch_offset < bounds.upper_bound:
            return bounds
    return PartitionData(
        partition_index=wanted.index,
        high_watermark=log.high_watermark,
        last_stable_offset=log.last_stable_offset,
        log_start_offset=log.log_start_offset,
        diverging_epoch=diverging or EpochEndOffset(),
        aborted_transactions=() if diverging is None and isolation is FetchIsolation.TXN_COMMITTED else None,
        records=b"",
    )


class PartitionRead(NamedTuple):
    """A partition of a response whose records are not in memory yet."""

    data: Completion[PartitionData]
    """It fails with KafkaError."""
    at_most_bytes: int
    """How many bytes its records may add to the response."""


def read_partition(
    wanted: FetchedPartition, log: PartitionLog, bounds: ReadBounds, max_bytes: int, *, at_least_one: bool
) -> PartitionData | PartitionRead:
    """The response for a partition that was planned in this turn, with its records, now or later. Raises KafkaError."""
    found = log.read(wanted.fetch_offset, max_bytes, bounds, at_least_one=at_least_one)
    if isinstance(found, Completion):
        at_most_bytes = min(max_bytes, log.stored.read_at_most(wanted.fetch_offset))
        return PartitionRead(found.map(partial(_with_records, wanted, bounds)), at_most_bytes)
    return _with_records(wanted, bounds, found)


def _with_records(wanted: FetchedPartition, bounds: ReadBounds, read: Records) -> PartitionData:
    records, transactions = read
    aborted: list[AbortedTransaction] | None = None
    if transactions is not None:
        aborted = [
            AbortedTransaction(producer_id=transaction.producer_id, first_offset=transaction.first_offset)
            for transaction in transactions
        ]
    return PartitionData(
        partition_index=wanted.index,
        high_watermark=bounds.high_watermark,
        last_stable_offset=bounds.last_stable_offset,
        log_start_offset=bounds.log_start_offset,
        aborted_transactions=aborted,
        records=records,
    )
