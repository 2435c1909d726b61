"""What is counted, timed and logged of requests, in a broker without sockets."""

import io
import json
from collections.abc import Iterator

import pytest
import structlog

from oncelog.broker.admin.collection import Bound, Collection
from oncelog.broker.observability.catalogue import Sample
from oncelog.broker.observability.logging import REQUESTS, level_of, start_logging
from oncelog.broker.observability.requests import RequestObserver
from oncelog.broker.requests.dispatch import Dispatcher
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.api_versions_request import ApiVersionsRequest
from oncelog.protocol.generated.create_topics_request import CreatableTopic, CreateTopicsRequest
from oncelog.protocol.generated.find_coordinator_request import FindCoordinatorRequest
from oncelog.protocol.generated.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from oncelog.protocol.generated.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from oncelog.protocol.message import Message
from oncelog.protocol.records.batch import encode_batch
from oncelog.protocol.records.record import Record
from tests.fakes.broker import VirtualBroker

pytestmark = pytest.mark.interpreted


@pytest.fixture(autouse=True)
def _structlog_as_it_was() -> Iterator[None]:
    yield
    structlog.reset_defaults()


class _Observed:
    """A broker whose requests are observed, at a clock that moves by a millisecond at each look."""

    def __init__(self, *, measures: bool, level: str = "info") -> None:
        self.virtual = VirtualBroker()
        self.stream = io.StringIO()
        self.log = start_logging(level, self.stream)
        self._ns = 0
        broker = self.virtual.broker
        broker.request_observer = RequestObserver(self.log, broker.metrics, measures=measures, timer_ns=self._timer_ns)
        self.virtual.dispatcher = Dispatcher(broker)

    def _timer_ns(self) -> int:
        self._ns += 1_000_000
        return self._ns

    def lines(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.stream.getvalue().splitlines()]


def produce(*batches: bytes, topic: str = "orders", acks: int = -1) -> ProduceRequest:
    data = [PartitionProduceData(index=0, records=memoryview(batch)) for batch in batches]
    topics = [TopicProduceData(name=topic, partition_data=[each]) for each in data]
    return ProduceRequest(acks=acks, timeout_ms=1_000, topic_data=topics)


def batch(sequence: int, producer_epoch: int = 1) -> bytes:
    return encode_batch(
        [Record(0, 1_700_000_000_000, None, b"x")], producer_id=5, producer_epoch=producer_epoch, base_sequence=sequence
    )


def test_a_request_is_one_line_at_debug_and_none_above() -> None:
    observed = _Observed(measures=False)
    level = level_of(observed.log)
    assert level is not None
    request: Message = ApiVersionsRequest(client_software_name="x", client_software_version="1")
    observed.virtual.ask(request, 3)
    level.child(REQUESTS).set("debug")
    observed.virtual.ask(request, 3)
    observed.virtual.ask(FindCoordinatorRequest(key_type=9, coordinator_keys=["id"]), 4)
    observed.virtual.ask(FindCoordinatorRequest(key_type=9, key="id"), 3)
    level.unset(REQUESTS)
    observed.virtual.ask(request, 3)
    first, second, third = observed.lines()
    assert (first["event"], first["level"], first["api"], first["version"]) == ("request", "debug", "API_VERSIONS", 3)
    assert (first["client_id"], first["duration_ms"]) == ("client", 1.0)
    assert isinstance(first["response_bytes"], int) and first["response_bytes"] > 100
    assert "error" not in second and third["error"] == "INVALID_REQUEST"


def test_a_produce_without_a_response_and_one_that_closes_are_observed_too() -> None:
    observed = _Observed(measures=True, level="debug")
    topic = CreatableTopic(name="orders", num_partitions=1, replication_factor=1)
    observed.virtual.ask(CreateTopicsRequest(topics=[topic]), 4)
    observed.virtual.start(produce(batch(0), acks=0), 8)
    observed.virtual.start(produce(b"no batch", acks=0), 8)
    _, silent, closing = observed.lines()
    assert (silent["response_bytes"], closing["response_bytes"]) == (0, 0)
    assert "closes" not in silent and "failed with" in str(closing["closes"])
    assert sum(observed.virtual.broker.metrics.request_seconds["PRODUCE"].counts) == 2


def test_times_are_kept_by_api_from_the_request_to_its_durable_response() -> None:
    observed = _Observed(measures=True)
    topic = CreatableTopic(name="orders", num_partitions=1, replication_factor=1)
    observed.virtual.ask(CreateTopicsRequest(topics=[topic]), 4)
    seconds = observed.virtual.broker.metrics.request_seconds
    reply = observed.virtual.start(produce(batch(0)), 8)
    assert "PRODUCE" not in seconds and not reply.is_there
    observed.virtual.time.settle()
    assert seconds["PRODUCE"].sum_ns == 1_000_000
    assert set(seconds) == {"CREATE_TOPICS", "PRODUCE"}


def test_duplicates_and_batches_out_of_order_or_of_an_older_epoch_are_counted() -> None:
    virtual = VirtualBroker()
    topic = CreatableTopic(name="orders", num_partitions=1, replication_factor=1)
    virtual.ask(CreateTopicsRequest(topics=[topic]), 4)
    metrics = virtual.broker.metrics
    for each in (batch(0), batch(0), batch(1), batch(7), batch(8), batch(2, producer_epoch=0)):
        virtual.ask(produce(each), 8)
    assert (metrics.appends, metrics.duplicate_batches) == (3, 1)
    assert metrics.rejected_batches["OUT_OF_ORDER_SEQUENCE_NUMBER"] == 2
    assert metrics.rejected_batches["INVALID_PRODUCER_EPOCH"] == metrics.producers_fenced["INVALID_PRODUCER_EPOCH"] == 1


async def test_a_metric_has_no_more_series_than_allowed_and_says_how_many_it_lacks() -> None:
    virtual = VirtualBroker()
    virtual.ask(CreateTopicsRequest(topics=[CreatableTopic(name="orders", num_partitions=4, replication_factor=1)]), 4)
    for partition in range(4):
        data = PartitionProduceData(index=partition, records=memoryview(batch(0)))
        virtual.ask(ProduceRequest(acks=-1, topic_data=[TopicProduceData(name="orders", partition_data=[data])]), 8)
    offsets = [OffsetCommitRequestPartition(partition_index=partition, committed_offset=0) for partition in range(4)]
    commit = OffsetCommitRequest(
        group_id="g" * 999, topics=[OffsetCommitRequestTopic(name="orders", partitions=offsets)]
    )
    virtual.ask(FindCoordinatorRequest(key_type=0, key="g"), 3)
    committed = virtual.ask(commit, 8)
    assert {each.error_code for each in committed.topics[0].partitions} == {ErrorCode.NONE}
    bounds = [Bound("max.connections", 1, 2)]
    collection = Collection(virtual.broker, 3, lambda: None, lambda: bounds)
    found = {family.name: samples for family, samples in await collection.collect()}
    assert found["group_lag"] == [Sample(("g" * 200, "orders", str(partition)), 1) for partition in range(3)]
    assert len(found["partition_size_bytes"]) == 3
    left_out = dict(found["series_left_out"])
    assert left_out[("group_lag",)] == left_out[("group_stable_lag",)] == 1
    assert left_out[("partition_size_bytes",)] == len(list(virtual.broker.logs.logs)) - 3
    assert found["bound_limit"] == [Sample(("max.connections",), 2)]
