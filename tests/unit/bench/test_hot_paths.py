"""What clients repeat most costs no more than the tables here say, whatever the load of the machine: lines of Python,
bytes that are allocated at a time, syncs.

The figures were counted with CPython 3.11. A change that needs more than 5 % above one says in its commit what that
buys, and changes the figure; a change that saves some lowers it.
"""

import gc
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from bench.hot_paths import HotPaths, lines_of
from bench.measure import count_lines, peak_bytes
from oncelog.protocol.generated import (
    add_partitions_to_txn_request,
    add_partitions_to_txn_response,
    end_txn_request,
    end_txn_response,
    fetch_request,
    produce_request,
    produce_response,
    transaction_log_value,
)
from oncelog.protocol.records.batch import encode_batch, read_header
from oncelog.protocol.records.record import Record, decode_records

ALLOWED = 1.05

LINES = {
    "oncelog.storage=memory": (479, 520, 735, 571, 1_079, 2_385, 1_166, 1_189, 2_355),
    "oncelog.flush.policy=os": (526, 550, 780, 619, 1_186, 2_585, 1_251, 1_296, 2_547),
    "oncelog.flush.policy=fsync": (660, 537, 893, 645, 1_336, 2_874, 1_442, 1_453, 2_895),
}
"""One record each; a transaction on one partition. From the bytes of the request to the bytes of the response."""

COUNTED = (
    "Produce",
    "Fetch",
    "transaction: AddPartitionsToTxn",
    "transaction: Produce",
    "transaction: EndTxn, markers, COMPLETE",
    "transaction",
    "transaction of version 2: Produce",
    "transaction of version 2: EndTxn, markers, COMPLETE",
    "transaction of version 2",
)

PEAK_BYTES = {
    "oncelog.storage=memory": (2_476, 2_710, 5_410, 2_572, 5_622, 5_512, 5_694),
    "oncelog.flush.policy=fsync": (3_620, 2_993, 6_338, 4_140, 8_344, 7_463, 8_050),
}
"""Memory that is allocated at most at a time, of the same requests without their sums. What is stored makes a table or
a list grow now and then: the least of several counts."""

CODEC_LINES = {
    "decode ProduceRequest 10": 60,
    "encode ProduceResponse 10": 29,
    "decode FetchRequest 12": 75,
    "decode AddPartitionsToTxnRequest 3": 41,
    "encode AddPartitionsToTxnResponse 3": 22,
    "decode EndTxnRequest 3": 16,
    "encode EndTxnResponse 3": 6,
    "encode TransactionLogValue 1": 22,
    "decode TransactionLogValue 1": 57,
    "read a batch's header": 2,
    "encode a batch of one record": 35,
    "decode a batch of one record": 77,
}
"""Messages have one topic and one partition, where they have any."""

pytestmark = [
    pytest.mark.interpreted,
    pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="other versions count lines in other ways"),
]


def beyond(figures: dict[str, int], counted: dict[str, int]) -> dict[str, tuple[int, int]]:
    """The figures that are exceeded, as (figure, counted)."""
    assert figures.keys() == counted.keys()
    return {name: (figures[name], lines) for name, lines in counted.items() if lines > figures[name] * ALLOWED}


@pytest.mark.parametrize("setting", LINES)
def test_a_request_costs_no_more_lines_than_its_figure(setting: str) -> None:
    world = HotPaths(setting)
    produce, fetch = world.produce(), world.fetch()
    first, second = world.transaction_v1(), world.transaction_v2()
    counted = [produce, fetch, *first, sum(first), *second, sum(second)]
    figures = dict(zip(COUNTED, LINES[setting], strict=True))
    assert beyond(figures, dict(zip(COUNTED, counted, strict=True))) == {}


@pytest.mark.parametrize("setting", PEAK_BYTES)
def test_a_request_allocates_no_more_than_its_figure(setting: str) -> None:
    world = HotPaths(setting, lambda _, run: peak_bytes(run))
    counted = [[world.produce(), world.fetch(), *world.transaction_v1(), *world.transaction_v2()] for _ in range(12)]
    names = [name for name in COUNTED if name not in ("transaction", "transaction of version 2")]
    figures = dict(zip(names, PEAK_BYTES[setting], strict=True))
    assert beyond(figures, dict(zip(names, map(min, zip(*counted, strict=True)), strict=True))) == {}


def test_a_request_that_writes_costs_one_sync_and_a_transaction_two_whose_records_none() -> None:
    def syncs(world: HotPaths, run: Callable[[], None]) -> int:
        before = world.sync_count
        run()
        return world.sync_count - before

    world = HotPaths("oncelog.flush.policy=fsync", syncs)
    for _ in range(3):
        assert (world.produce(), world.fetch()) == (1, 0)
        assert (world.transaction_v1(), world.transaction_v2()) == ((1, 0, 1), (1, 1))


def test_a_request_costs_the_same_each_time() -> None:
    world = HotPaths()
    assert [world.produce() for _ in range(3)] == [world.produce()] * 3
    assert world.transaction_v1() == world.transaction_v1()


def test_a_codec_costs_no_more_lines_than_its_figure() -> None:
    assert beyond(CODEC_LINES, {name: lines_of(run) for name, run in codecs().items()}) == {}


def test_a_collection_of_garbage_is_not_counted() -> None:
    """A callback of collections runs lines of its own, in whatever allocates at that moment."""

    def run() -> list[list[int]]:
        return [[index] for index in range(100)]

    def listen(phase: str, _information: dict[str, int]) -> None:
        heard.append(phase)

    heard: list[str] = []
    before, lines = gc.get_threshold(), count_lines(run)
    gc.callbacks.append(listen)
    gc.set_threshold(1, 1, 1)
    try:
        assert count_lines(run) == lines
        run()
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(listen)
    assert heard


def test_a_walk_that_is_added_would_be_noticed() -> None:
    """The measure itself: five lines more for each of twenty are beyond any figure's allowance."""
    batch = memoryview(encode_batch([Record(index, 0, b"key", bytes(100)) for index in range(20)]))
    assert lines_of(lambda: decode_records(batch)) > CODEC_LINES["decode a batch of one record"] + 100


def codecs() -> dict[str, Callable[[], Any]]:
    batch = memoryview(encode_batch([Record(0, 0, b"key", bytes(100))]))
    produce = produce_request.ProduceRequest(
        acks=-1,
        topic_data=[
            produce_request.TopicProduceData(
                name="orders", partition_data=[produce_request.PartitionProduceData(index=1, records=batch)]
            )
        ],
    )
    produced = produce_response.ProduceResponse(
        responses=[
            produce_response.TopicProduceResponse(
                name="orders", partition_responses=[produce_response.PartitionProduceResponse(index=1)]
            )
        ]
    )
    fetch = fetch_request.FetchRequest(
        topics=[fetch_request.FetchTopic(topic="orders", partitions=[fetch_request.FetchPartition(partition=1)])]
    )
    add = add_partitions_to_txn_request.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="order-service-1",
        v3_and_below_topics=[add_partitions_to_txn_request.AddPartitionsToTxnTopic(name="orders", partitions=[1])],
    )
    added = add_partitions_to_txn_response.AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[
            add_partitions_to_txn_response.AddPartitionsToTxnTopicResult(
                name="orders",
                results_by_partition=[
                    add_partitions_to_txn_response.AddPartitionsToTxnPartitionResult(partition_index=1)
                ],
            )
        ]
    )
    end = end_txn_request.EndTxnRequest(transactional_id="order-service-1")
    value = transaction_log_value.TransactionLogValue(
        transaction_partitions=[transaction_log_value.PartitionsSchema(topic="orders", partition_ids=[1])]
    )
    record = [Record(0, 0, b"key", bytes(100))]
    return {
        "decode ProduceRequest 10": _decode(produce_request, produce, 10),
        "encode ProduceResponse 10": partial(produce_response.encode, produced, 10),
        "decode FetchRequest 12": _decode(fetch_request, fetch, 12),
        "decode AddPartitionsToTxnRequest 3": _decode(add_partitions_to_txn_request, add, 3),
        "encode AddPartitionsToTxnResponse 3": partial(add_partitions_to_txn_response.encode, added, 3),
        "decode EndTxnRequest 3": _decode(end_txn_request, end, 3),
        "encode EndTxnResponse 3": partial(end_txn_response.encode, end_txn_response.EndTxnResponse(), 3),
        "encode TransactionLogValue 1": partial(transaction_log_value.encode, value, 1),
        "decode TransactionLogValue 1": _decode(transaction_log_value, value, 1),
        "read a batch's header": partial(read_header, batch),
        "encode a batch of one record": partial(encode_batch, record),
        "decode a batch of one record": partial(decode_records, batch),
    }


def _decode(module: Any, message: Any, version: int) -> Callable[[], Any]:
    return partial(module.decode, memoryview(b"".join(module.encode(message, version))), version)
