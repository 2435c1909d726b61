"""Two requests of one producer at once, over two connections: the answer to the first, and to the second.

The second comes while what the first has logged is not durable yet, a state that no client can bring about at will.
"""

from collections.abc import Callable
from itertools import product

import pytest

from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.add_partitions_to_txn_request import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from oncelog.protocol.generated.end_txn_request import EndTxnRequest
from tests.clients.producer import TOPIC, TRANSACTIONAL_ID, Producer, broker_with_topic, log_of
from tests.fakes.broker import Reply

E = ErrorCode


def _end(commit: bool) -> Callable[[Producer, int], Reply]:
    def start(producer: Producer, version: int) -> Reply:
        request = EndTxnRequest(committed=commit, **producer.identity)
        return producer.broker.start(request, 5 if version == 2 else 3)

    return start


def _add(producer: Producer, version: int) -> Reply:
    """Add a partition by the old protocol in both levels: the new one adds with Produce."""
    identity = {f"v3_and_below_{name}": value for name, value in producer.identity.items()}
    topics = [AddPartitionsToTxnTopic(name=TOPIC, partitions=(1,))]
    return producer.broker.start(AddPartitionsToTxnRequest(v3_and_below_topics=topics, **identity), 3)


def _write(producer: Producer, version: int) -> Reply:
    return producer.start_produce(1, version=12 if version == 2 else 11)


START = {"commit": _end(True), "abort": _end(False), "add": _add, "write": _write}

# The transaction has partition 0; `add` is of partition 1, `write` is to partition 1.
# version | first  | second | answer to the first       | answer to the second
TABLE = """
1 | commit | commit | NONE                  | CONCURRENT_TRANSACTIONS
1 | commit | abort  | NONE                  | CONCURRENT_TRANSACTIONS
1 | commit | add    | NONE                  | CONCURRENT_TRANSACTIONS
1 | commit | write  | NONE                  | NOT_ENOUGH_REPLICAS
1 | abort  | commit | NONE                  | CONCURRENT_TRANSACTIONS
1 | abort  | abort  | NONE                  | CONCURRENT_TRANSACTIONS
1 | abort  | add    | NONE                  | CONCURRENT_TRANSACTIONS
1 | abort  | write  | NONE                  | NOT_ENOUGH_REPLICAS
1 | add    | commit | NONE                  | NONE
1 | add    | abort  | NONE                  | NONE
1 | add    | add    | NONE                  | NONE
1 | add    | write  | NONE                  | NONE
1 | write  | commit | TRANSACTION_ABORTABLE | NONE
1 | write  | abort  | TRANSACTION_ABORTABLE | NONE
1 | write  | add    | TRANSACTION_ABORTABLE | NONE
1 | write  | write  | TRANSACTION_ABORTABLE | TRANSACTION_ABORTABLE
2 | commit | commit | NONE                  | CONCURRENT_TRANSACTIONS
2 | commit | abort  | NONE                  | CONCURRENT_TRANSACTIONS
2 | commit | add    | NONE                  | CONCURRENT_TRANSACTIONS
2 | commit | write  | NONE                  | INVALID_PRODUCER_EPOCH
2 | abort  | commit | NONE                  | CONCURRENT_TRANSACTIONS
2 | abort  | abort  | NONE                  | CONCURRENT_TRANSACTIONS
2 | abort  | add    | NONE                  | CONCURRENT_TRANSACTIONS
2 | abort  | write  | NONE                  | INVALID_PRODUCER_EPOCH
2 | add    | commit | NONE                  | NONE
2 | add    | abort  | NONE                  | NONE
2 | add    | add    | NONE                  | NONE
2 | add    | write  | NONE                  | NONE
2 | write  | commit | NONE                  | NONE
2 | write  | abort  | NONE                  | NONE
2 | write  | add    | NONE                  | NONE
2 | write  | write  | NONE                  | NONE
"""
ROWS = [[part.strip() for part in line.split("|")] for line in TABLE.strip().splitlines()]


def code_of(producer: Producer, reply: Reply) -> str:
    while not reply.is_there:
        producer.broker.let_pass(10)
    message = reply.message
    if hasattr(message, "responses"):
        return E(message.responses[0].partition_responses[0].error_code).name
    if hasattr(message, "results_by_topic_v3_and_below"):
        (topic,) = message.results_by_topic_v3_and_below
        return E(topic.results_by_partition[0].partition_error_code).name
    return E(message.error_code).name


@pytest.mark.parametrize("row", ROWS, ids=", ".join)
def test_two_requests_at_once_are_answered_as_the_table_says(row: list[str]) -> None:
    version, first, second, *expected = row
    producer = Producer(broker_with_topic()).init()
    if version == "1":
        assert producer.add(0) == [E.NONE]
    assert producer.produce(version=12 if version == "2" else 11) is E.NONE
    replies = [START[name](producer, int(version)) for name in (first, second)]
    assert [code_of(producer, reply) for reply in replies] == expected
    check_whole(producer, first, second, expected)


def check_whole(producer: Producer, first: str, second: str, told: list[str]) -> None:
    """Require that each request that was answered NONE had its effect; nothing is left open by an end, and no end is
    half.
    """
    broker = producer.broker
    taken = [name for name, code in zip((first, second), told, strict=True) if code == "NONE"]
    ends = [name for name in taken if name in ("commit", "abort")]
    assert len(ends) <= 1
    described = broker.broker.transactions.describe(TRANSACTIONAL_ID)
    broker.let_pass(10)  # an addition is answered before it is durable
    metadata = described.result()
    if ends:
        assert metadata.state.kafka_name == f"Complete{ends[0].capitalize()}"
        assert all(log_of(broker, each).last_stable_offset == log_of(broker, each).log_end_offset for each in (0, 1))
    else:
        assert metadata.state.kafka_name == "Ongoing"
    has_marker = "add" in taken and bool(ends)
    assert bool(log_of(broker, 1).log_end_offset) is ("write" in taken or has_marker)


def test_each_pair_of_requests_stands_in_the_table_in_each_version() -> None:
    assert [tuple(row[:3]) for row in ROWS] == list(product("12", START, START))
