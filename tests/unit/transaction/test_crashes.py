"""The machine stops at every operation of its disk, or every statement, of a transaction's life: it is all or nothing,
and every answer holds.
"""

from itertools import count
from typing import Any

import pytest

from oncelog.broker.log.partition_log import FetchIsolation
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from oncelog.protocol.generated.add_partitions_to_txn_request import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from oncelog.protocol.generated.create_topics_request import CreatableTopic, CreateTopicsRequest
from oncelog.protocol.generated.end_txn_request import EndTxnRequest
from oncelog.protocol.generated.find_coordinator_request import FindCoordinatorRequest
from oncelog.protocol.generated.init_producer_id_request import InitProducerIdRequest
from oncelog.protocol.generated.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestTopic
from oncelog.protocol.generated.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from oncelog.protocol.generated.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from oncelog.protocol.records.batch import encode_batch, iter_batches
from oncelog.protocol.records.record import Record, decode_records
from oncelog.testing.memory_disk import PowerCut
from tests.fakes.broker import VirtualBroker
from tests.fakes.logs import read_records
from tests.fakes.tables_broker import TablesBroker

TOPIC, GROUP, TRANSACTIONAL_ID = "topic", "group", "mover"
PARTITIONS = (0, 1)
TIMEOUT_MS = 10_000
ONE_PARTITION = ("offsets.topic.num.partitions=1", "transaction.state.log.num.partitions=1")
"""Most of a start is for the partitions of the coordinators, and one of each is all that one transaction touches."""
CHANCES = 2
PARTS = 4
"""Each takes every fourth operation: parts of a test can run side by side."""


class Mover:
    """Moves one value to two partitions and commits an offset, in one transaction; notes what was answered."""

    def __init__(self, committed: bool) -> None:
        self._committed = committed
        self.is_ended = False
        """EndTxn was answered NONE."""
        self.is_ending = False
        self._producer_id = -1
        self._producer_epoch = -1

    def run(self, broker: VirtualBroker) -> None:
        broker.ask(CreateTopicsRequest(topics=[CreatableTopic(name=TOPIC, num_partitions=2, replication_factor=1)]), 4)
        for kind in (0, 1):
            broker.ask(FindCoordinatorRequest(key=TRANSACTIONAL_ID, key_type=kind), 2)
        init = InitProducerIdRequest(transactional_id=TRANSACTIONAL_ID, transaction_timeout_ms=TIMEOUT_MS)
        pair = broker.ask(init, 1)
        self._producer_id, self._producer_epoch = pair.producer_id, pair.producer_epoch
        self._add_partitions(broker)
        for partition in PARTITIONS:
            self._produce(broker, partition)
        self._commit_offset(broker)
        self.is_ending = True
        ending = EndTxnRequest(
            transactional_id=TRANSACTIONAL_ID,
            producer_id=self._producer_id,
            producer_epoch=self._producer_epoch,
            committed=self._committed,
        )
        answer = broker.send(ending, 1)
        try:
            broker.time.advance(1_000)
        finally:
            self.is_ended = answer.is_there and not answer.is_closed and answer.message.error_code == ErrorCode.NONE

    def _add_partitions(self, broker: VirtualBroker) -> None:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=TRANSACTIONAL_ID,
            v3_and_below_producer_id=self._producer_id,
            v3_and_below_producer_epoch=self._producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=TOPIC, partitions=PARTITIONS)],
        )
        broker.ask(request, 0)

    def _produce(self, broker: VirtualBroker, partition: int) -> None:
        batch = encode_batch(
            [Record(0, broker.time.wall_ms(), None, b"moved")],
            producer_id=self._producer_id,
            producer_epoch=self._producer_epoch,
            base_sequence=0,
            transactional=True,
        )
        data = PartitionProduceData(index=partition, records=memoryview(batch))
        request = ProduceRequest(
            transactional_id=TRANSACTIONAL_ID,
            acks=-1,
            timeout_ms=1_000,
            topic_data=[TopicProduceData(name=TOPIC, partition_data=[data])],
        )
        answer = broker.ask(request, 8)
        assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE

    def _commit_offset(self, broker: VirtualBroker) -> None:
        identity: dict[str, Any] = {
            "transactional_id": TRANSACTIONAL_ID,
            "producer_id": self._producer_id,
            "producer_epoch": self._producer_epoch,
            "group_id": GROUP,
        }
        assert broker.ask(AddOffsetsToTxnRequest(**identity), 0).error_code == ErrorCode.NONE
        data = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=42)
        topics = [TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[data])]
        answer = broker.ask(TxnOffsetCommitRequest(topics=topics, **identity), 2)
        assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE


def visible(broker: VirtualBroker, partition: int) -> list[bytes | None]:
    """The values that a read_committed reader gets of one partition."""
    log = broker.broker.topics.find_partition(TOPIC, partition)
    if log is None:
        return []
    result = read_records(log, 0, 1 << 20, FetchIsolation.TXN_COMMITTED)
    aborted = {transaction.producer_id for transaction in result.aborted_transactions or ()}
    return [
        record.value
        for header, batch in iter_batches(result.records)
        if not header.is_control and header.producer_id not in aborted
        for record in decode_records(batch)
    ]


def committed_offset(broker: VirtualBroker) -> int:
    request = OffsetFetchRequest(
        group_id=GROUP, topics=[OffsetFetchRequestTopic(name=TOPIC, partition_indexes=(0,))], require_stable=True
    )
    answer = broker.ask(request, 7)
    if answer.error_code:
        return -1
    assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE, "an offset is still undecided"
    return int(answer.topics[0].partitions[0].committed_offset)


def check_outcome(broker: VirtualBroker, mover: Mover, committed: bool) -> None:
    """Require, once timeouts have passed: all or nothing, nothing open, and the outcome that was answered."""
    broker.time.advance(2 * TIMEOUT_MS)
    values = [visible(broker, partition) for partition in PARTITIONS]
    offset = committed_offset(broker)
    everything = [[b"moved"], [b"moved"]]
    assert (values, offset) in ((everything, 42), ([[], []], -1))
    if mover.is_ended:
        assert (values == everything) is committed
    elif not committed:
        assert values != everything
    for partition in PARTITIONS:
        log = broker.broker.topics.find_partition(TOPIC, partition)
        if log is not None:
            assert log.last_stable_offset == log.high_watermark == log.log_end_offset, "a transaction is left open"
    assert broker.broker.transactions.open_count == 0


@pytest.mark.sampled(5)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize(
    ("how", "chances_at_the_end"),
    [("power", 8), pytest.param("power", 40, marks=pytest.mark.slow), ("kill", 1), ("tables", 4)],
)
def test_a_transaction_is_whole_or_not_there_wherever_the_machine_stops(
    committed: bool, how: str, chances_at_the_end: int, part: int
) -> None:
    for operation in count(part, PARTS):
        start = TablesBroker if how == "tables" else VirtualBroker
        broker = start(*ONE_PARTITION, seed=operation)
        broker.operations_left = operation
        mover = Mover(committed)
        try:
            mover.run(broker)
        except (PowerCut, AssertionError):
            # Inside a handler the dispatcher sees the cut first, and closes the connection.
            if not broker.has_ended:
                raise
        is_cut = broker.has_ended
        broker.operations_left = None
        # What of the unsynced survives a power cut is chance: several draws for each moment.
        draws = range(chances_at_the_end if mover.is_ending else CHANCES)
        survivors = [broker.killed()] if how == "kill" else [broker.crashed(operation * 1_000 + draw) for draw in draws]
        for survivor in survivors:
            check_outcome(survivor, mover, committed)
        # Recovering what a recovery has left gives the same again.
        check_outcome(survivors[0].killed(), mover, committed)
        if not is_cut:
            assert mover.is_ended and operation > 10
            return


def test_an_open_transaction_outlives_a_restart_and_its_timeout_continues() -> None:
    broker = VirtualBroker(*ONE_PARTITION)
    mover = Mover(True)
    broker.ask(CreateTopicsRequest(topics=[CreatableTopic(name=TOPIC, num_partitions=2, replication_factor=1)]), 4)
    for kind in (0, 1):
        broker.ask(FindCoordinatorRequest(key=TRANSACTIONAL_ID, key_type=kind), 2)
    pair = broker.ask(InitProducerIdRequest(transactional_id=TRANSACTIONAL_ID, transaction_timeout_ms=TIMEOUT_MS), 1)
    mover._producer_id, mover._producer_epoch = pair.producer_id, pair.producer_epoch
    mover._add_partitions(broker)
    mover._produce(broker, 0)
    broker.time.advance(TIMEOUT_MS - 1_000)
    survivor = broker.killed()
    log = survivor.broker.topics.partition(TOPIC, 0)
    survivor.time.advance(900)
    assert log.last_stable_offset == 0 < log.high_watermark
    survivor.time.advance(200)
    assert log.last_stable_offset == log.high_watermark
    assert visible(survivor, 0) == []


def test_a_producer_id_is_never_given_twice_across_power_cuts() -> None:
    broker = VirtualBroker(*ONE_PARTITION)
    given: list[int] = []
    for round_number in range(5):
        for _ in range(3):
            given.append(
                broker.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1_000), 1).producer_id
            )
        broker = broker.crashed(round_number)
    assert len(set(given)) == len(given)
