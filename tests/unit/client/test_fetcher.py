"""Which replica a consumer reads from, and when it asks for more."""

import asyncio
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from oncelog.client.consuming.fetcher import Fetcher
from oncelog.client.options.settings import ConsumerSettings
from oncelog.client.values.errors import ConnectionLost, CorruptBatch, FatalError, KafkaError
from oncelog.client.values.records import TopicPartition
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.fetch_request import FetchRequest
from oncelog.protocol.generated.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from tests.fakes.logs import batch

PLACE = TopicPartition("topic", 0)
LEADER, FOLLOWER = 1, 2
pytestmark = pytest.mark.interpreted

OnAnswer = Callable[[FetchResponse | None, KafkaError | None], None]


class Brokers:
    """Two, of which the first leads; a request waits until the test answers it."""

    refused = None

    def __init__(self) -> None:
        self.nodes = {LEADER: ("leader", 1), FOLLOWER: ("follower", 1)}
        self.refuses = False
        self.asked: list[tuple[int, FetchRequest, OnAnswer]] = []

    def leader(self, topic_partition: TopicPartition) -> int:
        return LEADER

    def forget_leaders(self, topics: Any) -> None: ...

    def live_transport(self, node_id: int) -> Any:
        def send(api: Any, request: FetchRequest, on_answer: OnAnswer) -> None:
            self.asked.append((node_id, request, on_answer))

        def version_of(api: Any) -> int:
            if self.refuses:
                raise FatalError("no common version")
            return 12

        return SimpleNamespace(send=send, connection=SimpleNamespace(version_of=version_of))


def fetcher(brokers: Brokers, retry_backoff_s: float = 0.0) -> Fetcher:
    cluster: Any = SimpleNamespace(connections=brokers, metadata=brokers)
    settings = ConsumerSettings(
        fetch_max_bytes=1 << 20, queued_max_bytes=1 << 20, retry_backoff_ms=retry_backoff_s * 1000, client_rack="here"
    )
    made = Fetcher(cluster, settings)
    made.assign([PLACE], keep=False)
    made.partitions[PLACE].seek(0)
    return made


def answer(fetching: Fetcher, brokers: Brokers, error: KafkaError | None = None, **data: Any) -> None:
    """Answer the request that waits, and let the next one be sent."""
    respond(brokers, error, **data)
    fetching._pump()


def respond(
    brokers: Brokers, error: KafkaError | None = None, others: Sequence[PartitionData] = (), **data: Any
) -> None:
    _, _, on_answer = brokers.asked[-1]
    parts = [PartitionData(partition_index=0, **data), *others]
    response = FetchResponse(responses=[FetchableTopicResponse(topic="topic", partitions=parts)])
    on_answer(None if error is not None else response, error)


async def test_a_consumer_sends_its_rack_and_reads_from_the_preferred_replica() -> None:
    brokers = Brokers()
    fetching = fetcher(brokers)
    fetching._pump()
    answer(fetching, brokers, preferred_read_replica=FOLLOWER)
    answer(fetching, brokers)
    assert [node_id for node_id, _, _ in brokers.asked] == [LEADER, FOLLOWER, FOLLOWER]
    assert {request.rack_id for _, request, _ in brokers.asked} == {"here"}


@pytest.mark.parametrize(
    "failed",
    [{"error_code": ErrorCode.OFFSET_OUT_OF_RANGE}, {"error_code": ErrorCode.NOT_LEADER_OR_FOLLOWER}, None],
    ids=["behind", "gone", "lost"],
)
async def test_after_any_error_of_a_follower_the_leader_is_asked_again(failed: dict[str, Any] | None) -> None:
    brokers = Brokers()
    fetching = fetcher(brokers)
    fetching._pump()
    answer(fetching, brokers, preferred_read_replica=FOLLOWER)
    answer(fetching, brokers, ConnectionLost() if failed is None else None, **(failed or {}))
    assert [node_id for node_id, _, _ in brokers.asked] == [LEADER, FOLLOWER, LEADER]
    assert not fetching.partitions[PLACE].out_of_range


async def test_a_follower_that_left_the_cluster_is_not_asked() -> None:
    brokers = Brokers()
    fetching = fetcher(brokers)
    fetching._pump()
    del brokers.nodes[FOLLOWER]
    answer(fetching, brokers, preferred_read_replica=FOLLOWER)
    assert [node_id for node_id, _, _ in brokers.asked] == [LEADER, LEADER]


def offsets_of(request: FetchRequest) -> list[int]:
    return [partition.fetch_offset for topic in request.topics for partition in topic.partitions]


def offsets_of_all(brokers: Brokers) -> list[int]:
    return [offset for _, request, _ in brokers.asked for offset in offsets_of(request)]


def give(brokers: Brokers, base_offset: int, end: int, others: Sequence[PartitionData] = ()) -> None:
    """Three records, of a log that has so many."""
    records = base_offset.to_bytes(8, "big") + batch(3)[8:]
    respond(brokers, others=others, high_watermark=end, last_stable_offset=end, records=records)


async def test_the_next_records_are_asked_for_before_those_that_came_are_handed_out() -> None:
    brokers = Brokers()
    fetching = fetcher(brokers)
    fetching._pump()
    give(brokers, 0, end=9)
    assert [offsets_of(request) for _, request, _ in brokers.asked] == [[0], [3]]


@pytest.mark.parametrize("take", [lambda it: it.take(1), lambda it: it.take_chunks(1)], ids=["records", "chunks"])
async def test_a_reader_that_never_yields_to_the_loop_still_has_the_next_records_fetched(take: Any) -> None:
    brokers = Brokers()
    fetching = fetcher(brokers)
    fetching._pump()
    give(brokers, 0, end=9)
    give(brokers, 3, end=9)
    assert len(brokers.asked) == 2, "two responses are enough to have"
    for _ in range(3):
        take(fetching)
    assert offsets_of(brokers.asked[-1][1]) == [6]


async def test_at_the_end_of_the_log_a_seek_before_the_next_turn_of_the_loop_counts_for_the_long_poll() -> None:
    brokers = Brokers()
    fetching = fetcher(brokers)
    fetching._pump()
    give(brokers, 0, end=3)
    assert len(fetching.take(10)) == 3
    fetching.partitions[PLACE].seek(1)
    await asyncio.sleep(0)
    assert [offsets_of(request) for _, request, _ in brokers.asked] == [[0], [1]]


async def test_a_broker_without_a_common_version_is_the_error_of_a_poll_and_costs_no_records() -> None:
    brokers = Brokers()
    fetching = fetcher(brokers)
    fetching._pump()
    brokers.refuses = True
    give(brokers, 0, end=9)
    assert len(fetching.take(10)) == 3
    with pytest.raises(FatalError, match="no common version"):
        fetching.take(10)


OTHER = TopicPartition("topic", 1)


async def test_the_error_of_a_partition_is_raised_although_another_always_has_records() -> None:
    brokers = Brokers()
    fetching = fetcher(brokers)
    fetching.assign([PLACE, OTHER], keep=True)
    fetching.partitions[OTHER].seek(0)
    fetching._pump()
    refused = PartitionData(partition_index=1, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    give(brokers, 0, end=1_000, others=[refused])
    assert len(fetching.take(3)) == 3
    give(brokers, 3, end=1_000)
    with pytest.raises(KafkaError, match="topic-1"):
        fetching.take(3)
    assert len(fetching.take(3)) == 3


@pytest.mark.parametrize("take", [lambda it: it.take(9), lambda it: it.take_chunks(1 << 20)], ids=["records", "chunks"])
async def test_records_before_the_error_of_their_partition_are_returned_before_it(take: Any) -> None:
    brokers = Brokers()
    fetching = fetcher(brokers)
    fetching._pump()
    give(brokers, 0, end=9)
    respond(brokers, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert take(fetching)
    with pytest.raises(KafkaError, match="topic-0"):
        take(fetching)


@pytest.mark.parametrize("damaged", [bytes(100), bytes(batch(3))[:-1]], ids=["no size", "no end"])
@pytest.mark.parametrize(("backoff_s", "again"), [(0.0, [0]), (60.0, [])])
async def test_after_a_response_without_a_whole_batch_nothing_is_fetched_until_its_error_is_raised_and_for_the_backoff(
    damaged: bytes, backoff_s: float, again: list[int]
) -> None:
    brokers = Brokers()
    fetching = fetcher(brokers, retry_backoff_s=backoff_s)
    fetching._pump()
    respond(brokers, high_watermark=3, last_stable_offset=3, records=memoryview(damaged))
    fetching._pump()
    assert offsets_of_all(brokers) == [0]
    with pytest.raises(CorruptBatch):
        fetching.take(10)
    assert fetching.take(10) == []
    fetching._pump()
    assert offsets_of_all(brokers) == [0, *again]


async def test_a_batch_that_was_damaged_on_its_way_is_fetched_again_after_its_error() -> None:
    brokers = Brokers()
    fetching = fetcher(brokers)
    fetching._pump()
    respond(brokers, high_watermark=3, last_stable_offset=3, records=memoryview(bytes(batch(3))[:-1] + b"?"))
    with pytest.raises(CorruptBatch):
        fetching.take(10)
    answer(fetching, brokers)
    give(brokers, 0, end=3)
    assert [each.offset for each in fetching.take(10)] == [0, 1, 2]
