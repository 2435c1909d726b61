"""What a producer is shown of the coordinator's refusals, by API and version, as literal tables.

The coordinator decides in its own words (`tables`); clients of older versions know fewer of them, and Produce never
speaks of coordinators. Each refusal that a decision can have stands in each table once.
"""

from collections.abc import Callable
from typing import Any

import pytest

from oncelog.broker.turns.completion import Completion
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.generated.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from oncelog.protocol.generated.init_producer_id_request import InitProducerIdRequest
from oncelog.protocol.generated.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.clients.producer import TOPIC, Producer, broker_with_topic, log_of

pytestmark = pytest.mark.sampled(5)

REFUSALS = {
    "PRODUCER_FENCED",
    "INVALID_PRODUCER_ID_MAPPING",
    "CONCURRENT_TRANSACTIONS",
    "INVALID_TXN_STATE",
    "COORDINATOR_LOAD_IN_PROGRESS",
    "COORDINATOR_NOT_AVAILABLE",
    "NOT_COORDINATOR",
}
VERIFIED = REFUSALS | {"TRANSACTION_ABORTABLE"}

# By the verification before an append: refusal | Produce 3 to 10 | Produce 11 | Produce 12
PRODUCE = """
PRODUCER_FENCED              | INVALID_PRODUCER_EPOCH      | INVALID_PRODUCER_EPOCH      | INVALID_PRODUCER_EPOCH
TRANSACTION_ABORTABLE        | INVALID_TXN_STATE           | TRANSACTION_ABORTABLE       | TRANSACTION_ABORTABLE
CONCURRENT_TRANSACTIONS      | NOT_ENOUGH_REPLICAS         | NOT_ENOUGH_REPLICAS         | CONCURRENT_TRANSACTIONS
COORDINATOR_LOAD_IN_PROGRESS | NOT_ENOUGH_REPLICAS         | NOT_ENOUGH_REPLICAS         | NOT_ENOUGH_REPLICAS
COORDINATOR_NOT_AVAILABLE    | NOT_ENOUGH_REPLICAS         | NOT_ENOUGH_REPLICAS         | NOT_ENOUGH_REPLICAS
NOT_COORDINATOR              | NOT_ENOUGH_REPLICAS         | NOT_ENOUGH_REPLICAS         | NOT_ENOUGH_REPLICAS
INVALID_PRODUCER_ID_MAPPING  | INVALID_PRODUCER_ID_MAPPING | INVALID_PRODUCER_ID_MAPPING | INVALID_PRODUCER_ID_MAPPING
INVALID_TXN_STATE            | INVALID_TXN_STATE           | INVALID_TXN_STATE           | INVALID_TXN_STATE
"""
PRODUCE_VERSIONS = (range(3, 11), range(11, 12), range(12, 13))

# refusal | TxnOffsetCommit 0 and 1 | 2 and 3 | 4 and 5
OFFSETS = """
PRODUCER_FENCED              | INVALID_PRODUCER_EPOCH      | INVALID_PRODUCER_EPOCH       | INVALID_PRODUCER_EPOCH
TRANSACTION_ABORTABLE        | INVALID_TXN_STATE           | INVALID_TXN_STATE            | TRANSACTION_ABORTABLE
CONCURRENT_TRANSACTIONS      | CONCURRENT_TRANSACTIONS     | CONCURRENT_TRANSACTIONS      | CONCURRENT_TRANSACTIONS
COORDINATOR_LOAD_IN_PROGRESS | COORDINATOR_NOT_AVAILABLE   | COORDINATOR_LOAD_IN_PROGRESS | COORDINATOR_LOAD_IN_PROGRESS
COORDINATOR_NOT_AVAILABLE    | COORDINATOR_NOT_AVAILABLE   | COORDINATOR_NOT_AVAILABLE    | COORDINATOR_NOT_AVAILABLE
NOT_COORDINATOR              | NOT_COORDINATOR             | NOT_COORDINATOR              | NOT_COORDINATOR
INVALID_PRODUCER_ID_MAPPING  | INVALID_PRODUCER_ID_MAPPING | INVALID_PRODUCER_ID_MAPPING  | INVALID_PRODUCER_ID_MAPPING
INVALID_TXN_STATE            | INVALID_TXN_STATE           | INVALID_TXN_STATE            | INVALID_TXN_STATE
"""
OFFSET_VERSIONS = (range(2), range(2, 4), range(4, 6))

# What the coordinator's own APIs show of a fence (KIP-588); of every other refusal they show the code itself.
# API                | up to version | is INVALID_PRODUCER_EPOCH, from then on PRODUCER_FENCED
FENCED = """
init_producer_id     | 3
add_partitions       | 1
add_offsets          | 1
end_transaction      | 1
"""


def rows(table: str) -> list[list[str]]:
    return [[part.strip() for part in line.split("|")] for line in table.strip().splitlines()]


def refusing(refusal: str, *methods: str) -> Producer:
    """A producer whose coordinator refuses everything from now on."""
    producer = Producer(broker_with_topic()).init()
    transactions: Any = producer.broker.broker.transactions

    def verify(*_: object, **__: object) -> ErrorCode:
        return ErrorCode[refusal]

    def refuse(*_: object, **__: object) -> Completion[Any]:
        failed: Completion[Any] = Completion()
        failed.fail(KafkaError(ErrorCode[refusal]))
        return failed

    for method in methods:
        setattr(transactions, method, verify if method == "verify_partitions" else refuse)
    return producer


@pytest.mark.parametrize("row", rows(PRODUCE), ids=", ".join)
@pytest.mark.interpreted
def test_produce_shows_what_its_version_knows_of_a_refusal(row: list[str]) -> None:
    refusal, *shown = row
    for versions, expected in zip(PRODUCE_VERSIONS, shown, strict=True):
        for version in versions:
            producer = refusing(refusal, "verify_partitions", "add_partitions_implicitly")
            assert producer.produce(version=version).name == expected, version
            assert log_of(producer.broker).log_end_offset == 0


@pytest.mark.parametrize("row", rows(OFFSETS), ids=", ".join)
@pytest.mark.interpreted
def test_txn_offset_commit_shows_what_its_version_knows_of_a_refusal(row: list[str]) -> None:
    refusal, *shown = row
    for versions, expected in zip(OFFSET_VERSIONS, shown, strict=True):
        for version in versions:
            producer = refusing(refusal, "verify_partitions", "add_partitions_implicitly")
            partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=7)
            topics = [TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[partition])]
            request = TxnOffsetCommitRequest(group_id="group", topics=topics, **producer.identity)
            (topic,) = producer.broker.ask(request, version).topics
            assert ErrorCode(topic.partitions[0].error_code).name == expected, version


def _init(producer: Producer, version: int) -> int:
    request = InitProducerIdRequest(transactional_id="id", transaction_timeout_ms=1_000)
    return int(producer.broker.ask(request, version).error_code)


def _add_offsets(producer: Producer, version: int) -> int:
    request = AddOffsetsToTxnRequest(group_id="group", **producer.identity)
    return int(producer.broker.ask(request, version).error_code)


ASK: dict[str, tuple[Callable[[Producer, int], int], int, str]] = {
    # API: how it is asked, its last version, what of the coordinator answers
    "init_producer_id": (_init, 5, "init_two_phase"),
    "add_partitions": (lambda producer, version: producer.add(0, version=version)[0], 3, "add_partitions"),
    "add_offsets": (_add_offsets, 4, "add_partitions"),
    "end_transaction": (
        lambda producer, version: int(producer.ask_end(True, version).error_code),
        5,
        "end_transaction",
    ),
}


@pytest.mark.parametrize("row", rows(FENCED), ids=", ".join)
@pytest.mark.parametrize("refusal", sorted(REFUSALS))
@pytest.mark.interpreted
def test_the_coordinators_apis_show_a_refusal_as_it_is_but_for_a_fence_to_older_clients(
    row: list[str], refusal: str
) -> None:
    api, last_without = row[0], int(row[1])
    ask, last_version, method = ASK[api]
    for version in range(last_version + 1):
        is_old = refusal == "PRODUCER_FENCED" and version <= last_without
        expected = "INVALID_PRODUCER_EPOCH" if is_old else refusal
        assert ErrorCode(ask(refusing(refusal, method), version)).name == expected, version


def test_each_refusal_stands_in_each_table_once() -> None:
    for table in (PRODUCE, OFFSETS):
        refusals = [row[0] for row in rows(table)]
        assert len(refusals) == len(set(refusals))
        assert set(refusals) == VERIFIED
    assert {row[0] for row in rows(FENCED)} == set(ASK)
