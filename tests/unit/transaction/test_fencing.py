"""A producer that another has replaced, and one whose transaction was merely aborted: the error of each on every path.

The codes decide what clients do. "Fenced" from a coordinator is the end of a producer (Java and librdkafka alike); from
a partition or a group, and as TRANSACTION_ABORTABLE, it is the end of a transaction: abort, and continue.
"""

from collections.abc import Callable

import pytest

from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from oncelog.protocol.generated.init_producer_id_request import InitProducerIdRequest
from oncelog.protocol.generated.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.clients.producer import TIMEOUT_MS, TOPIC, TRANSACTIONAL_ID, Producer, broker_with_topic, log_of

E = ErrorCode
FENCED, OLD_EPOCH = E.PRODUCER_FENCED, E.INVALID_PRODUCER_EPOCH


def add_offsets(producer: Producer, version: int) -> ErrorCode:
    request = AddOffsetsToTxnRequest(group_id="group", **producer.identity)
    return ErrorCode(producer.broker.ask(request, version).error_code)


def commit_offset(producer: Producer, version: int) -> ErrorCode:
    data = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    topics = [TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[data])]
    reply = producer.broker.send(TxnOffsetCommitRequest(group_id="group", topics=topics, **producer.identity), version)
    producer.broker.let_pass(200)  # an implicit add may wait for the end before
    return ErrorCode(reply.message.topics[0].partitions[0].error_code)


def produce(producer: Producer, version: int) -> ErrorCode:
    reply = producer.start_produce(0, sequence=1, version=version)
    producer.broker.let_pass(200)
    return ErrorCode(reply.message.responses[0].partition_responses[0].error_code)


def resume(producer: Producer, version: int) -> ErrorCode:
    request = InitProducerIdRequest(
        transactional_id=TRANSACTIONAL_ID,
        transaction_timeout_ms=TIMEOUT_MS,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
    )
    return ErrorCode(producer.broker.ask(request, version).error_code)


def end(producer: Producer, version: int) -> ErrorCode:
    return ErrorCode(producer.ask_end(True, version).error_code)


Path = Callable[[Producer, int], ErrorCode]
# The errors that a zombie gets, by path and version: KIP-588 gave coordinators a code of their own, partitions have
# none.
ZOMBIE: list[tuple[Path, dict[int, ErrorCode]]] = [
    (resume, {3: OLD_EPOCH, 4: FENCED, 5: FENCED}),
    (lambda zombie, version: zombie.add(0, version=version)[0], {0: OLD_EPOCH, 1: OLD_EPOCH, 2: FENCED, 3: FENCED}),
    (lambda zombie, _: zombie.add_for_broker(0)[0], {5: FENCED}),
    (lambda zombie, _: zombie.add_for_broker(0, verify_only=True)[0], {5: FENCED}),
    (add_offsets, {0: OLD_EPOCH, 1: OLD_EPOCH, 2: FENCED, 3: FENCED, 4: FENCED}),
    (end, {0: OLD_EPOCH, 1: OLD_EPOCH, 2: FENCED, 3: FENCED, 4: FENCED, 5: FENCED}),
    (commit_offset, dict.fromkeys(range(6), OLD_EPOCH)),
    (produce, dict.fromkeys(range(3, 13), OLD_EPOCH)),
]


@pytest.mark.parametrize("rival_writes", [False, True])
@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize(
    "path", ZOMBIE, ids=["init", "add", "batched", "verify", "offsets", "end", "commit", "produce"]
)
def test_a_replaced_producer_is_fenced_by_every_path_and_writes_nothing(
    path: tuple[Path, dict[int, ErrorCode]], level: int, rival_writes: bool
) -> None:
    broker = broker_with_topic(f"oncelog.feature.transaction.version={level}")
    zombie = Producer(broker).init()
    assert zombie.add(0) == [E.NONE]
    assert zombie.produce() is E.NONE
    rival = Producer(broker).init()
    ask, expected = path
    if rival_writes and ask is not resume:
        assert rival.add(0) == [E.NONE]
        assert rival.produce() is E.NONE
    end_offset = log_of(broker).log_end_offset
    assert {version: ask(zombie, version) for version in expected} == expected
    assert log_of(broker).log_end_offset == end_offset
    if rival_writes and ask is not resume:
        assert rival.end(True) is E.NONE


@pytest.mark.parametrize("level", [1, 2])
def test_a_zombie_that_resumes_over_an_open_transaction_aborts_it_as_in_kafka_and_is_fenced_then(level: int) -> None:
    """Kafka compares epochs only once nothing is open."""
    broker = broker_with_topic(f"oncelog.feature.transaction.version={level}")
    zombie, rival = Producer(broker).init(), Producer(broker).init()
    assert rival.add(0) == [E.NONE]
    assert resume(zombie, 5) is E.CONCURRENT_TRANSACTIONS
    broker.let_pass(100)
    assert resume(zombie, 5) is FENCED


def test_a_batch_outside_of_the_transaction_is_abortable_for_clients_that_know_that_error() -> None:
    """KIP-890 gave TRANSACTION_ABORTABLE to Produce 11 and TxnOffsetCommit 4; older clients know INVALID_TXN_STATE."""
    producer = Producer(broker_with_topic()).init()
    assert producer.add(1) == [E.NONE]
    told = {version: producer.produce(0, version=version) for version in range(3, 12)}
    assert told == {**dict.fromkeys(range(3, 11), E.INVALID_TXN_STATE), 11: E.TRANSACTION_ABORTABLE}
    offsets = {version: commit_offset(producer, version) for version in range(5)}
    assert offsets == {**dict.fromkeys(range(4), E.INVALID_TXN_STATE), 4: E.TRANSACTION_ABORTABLE}
    assert producer.end(False) is E.NONE
    assert producer.add(0) == [E.NONE]
    assert producer.produce() is E.NONE
    assert producer.end(True) is E.NONE


@pytest.mark.parametrize("version", [9, 11, 12])
def test_a_producer_that_timed_out_is_refused_by_the_partition_and_continues_under_version_2_alone(
    version: int,
) -> None:
    for level, may_go_on in ((2, True), (1, False)):
        broker = broker_with_topic(f"oncelog.feature.transaction.version={level}")
        producer = Producer(broker).init()
        assert producer.add(0) == [E.NONE]
        assert producer.produce(version=version) is E.NONE
        broker.let_pass(TIMEOUT_MS + 100)
        assert produce(producer, version) is OLD_EPOCH
        assert end(producer, 5 if may_go_on else 4) is FENCED
        if may_go_on:
            assert producer.end(False, 5) is E.NONE
            assert producer.produce(version=12) is E.NONE
            assert producer.end(True, 5) is E.NONE
        else:
            assert resume(producer, 5) is FENCED


@pytest.mark.parametrize(
    ("timeout_ms", "error"), [(1, E.NONE), (5_000, E.NONE), (5_001, E.INVALID_TRANSACTION_TIMEOUT)]
)
def test_no_client_is_given_more_time_than_the_setting_allows(timeout_ms: int, error: ErrorCode) -> None:
    broker = broker_with_topic("transaction.max.timeout.ms=5000")
    request = InitProducerIdRequest(transactional_id="mine", transaction_timeout_ms=timeout_ms)
    assert broker.ask(request, 4).error_code == error
