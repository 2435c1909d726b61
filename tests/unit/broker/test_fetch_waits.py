"""A Fetch that waits: what it costs, what ends its wait, and that records leave as the file gave them."""

from random import Random
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.broker.log.values import EndMarker, FetchIsolation
from oncelog.broker.requests.context import Peer
from oncelog.broker.storage.local.reader import PLENTY_BYTES
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from oncelog.testing.memory_disk import MemoryFile
from tests.clients.fetch_session import (
    BY_ID,
    BY_NAME,
    TOPIC,
    SessionReader,
    append,
    create,
    fetch_in_tiny_slices,
    fetch_request,
    started,
    told,
)
from tests.fakes.broker import HOST, PORT, Reply, VirtualBroker
from tests.fakes.logs import Logs, batch, files_of, read_records, segments_of


def waiting(broker: VirtualBroker, topic_id: UUID, *offsets: int, min_bytes: int = 1, isolation: int = 0) -> Reply:
    request = fetch_request(
        {(topic_id, index): offset for index, offset in enumerate(offsets)},
        max_wait_ms=500,
        min_bytes=min_bytes,
        isolation_level=isolation,
        session_epoch=-1,
    )
    reply = broker.send(request, BY_ID)
    assert not reply.is_there
    return reply


class Reads:
    """Counts the reads of log files."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.views: list[memoryview] = []
        read_view = MemoryFile.read_view

        def counted(file: MemoryFile, start: int, end: int) -> memoryview:
            view = read_view(file, start, end)
            self.views.append(view)
            return view

        monkeypatch.setattr(MemoryFile, "read_view", counted)


def test_records_are_read_once_however_often_a_fetch_is_woken(monkeypatch: pytest.MonkeyPatch) -> None:
    broker, topic_id = started()
    size = len(batch(1))
    reply = waiting(broker, topic_id, 0, 0, 0, min_bytes=90 * size)
    reads = Reads(monkeypatch)
    for number in range(90):
        assert not reply.is_there and not reads.views
        append(broker, TOPIC, number % 3)
    assert [len(data.records) for data in told(reply.message).values()] == [30 * size] * 3
    assert len(reads.views) == 3


def test_records_leave_as_the_file_gave_them(monkeypatch: pytest.MonkeyPatch) -> None:
    broker, topic_id = started()
    append(broker, TOPIC, 0, 100)
    reads = Reads(monkeypatch)
    reply = broker.start(fetch_request({(topic_id, 0): 0}, session_epoch=-1), BY_ID)
    (view,) = reads.views
    assert any(part is view for part in reply._exchange.parts or ())


def test_a_reader_of_committed_records_is_woken_when_the_transaction_ends() -> None:
    broker, topic_id = started()
    reply = waiting(broker, topic_id, 0, isolation=1)
    append(broker, TOPIC, producer_id=7, base_sequence=0, transactional=True)
    append(broker, TOPIC)
    assert not reply.is_there
    log = broker.broker.topics.partition(TOPIC, 0)
    log.append_end_txn_marker(EndMarker(7, 0, True, 0), 0)
    broker.time.settle()
    assert len(told(reply.message)[topic_id, 0].records) == log.size_bytes


def test_records_in_the_next_segment_end_the_wait() -> None:
    # A reader gets records of one segment at a time: waiting would bring it no more.
    broker, topic_id = started("log.segment.bytes=1048576")
    reply = waiting(broker, topic_id, 0, min_bytes=50_000_000)
    for _ in range(2):
        assert not reply.is_there
        append(broker, TOPIC, 0, 4, value=b"x" * 100_000)
    append(broker, TOPIC, 0, 4, value=b"x" * 100_000)
    first, _ = segments_of(broker.broker.topics.partition(TOPIC, 0))
    assert len(told(reply.message)[topic_id, 0].records) == first.size_bytes


def test_deletion_ends_the_wait_with_an_error() -> None:
    broker, topic_id = started()
    create(broker, "other")
    reply = waiting(broker, topic_id, 0)
    broker.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="other")]), 6)
    assert not reply.is_there
    broker.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name=TOPIC)]), 6)
    assert told(reply.message)[topic_id, 0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize(
    ("version", "expected"), [(5, ErrorCode.NOT_LEADER_OR_FOLLOWER), (6, ErrorCode.KAFKA_STORAGE_ERROR)]
)
def test_damage_ends_the_wait_in_words_that_the_version_knows(version: int, expected: ErrorCode) -> None:
    broker, _ = started()
    reply = broker.send(fetch_request({(TOPIC, 0): 0}, max_wait_ms=500), version)
    broker.broker.topics.partition(TOPIC, 0).take_offline("a bit has flipped")
    broker.time.settle()
    assert told(reply.message)[TOPIC, 0].error_code == expected


def test_a_client_that_goes_away_waits_no_more_and_its_session_stays() -> None:
    broker, topic_id = started()
    reader = SessionReader(broker, BY_ID)
    reader.want((topic_id, 0))
    reader.fetch()
    reply = reader.send(max_wait_ms=500)
    assert broker.broker.purgatory.waiting_count == 1
    reply._exchange._context.peer.disconnect()
    assert broker.broker.purgatory.waiting_count == 0
    append(broker, TOPIC)
    assert not reply.is_there
    reader.epoch += 1
    assert told(reader.fetch()).keys() == {(topic_id, 0)}


def test_a_session_by_name_continues_with_a_topic_that_was_recreated_while_it_waited() -> None:
    broker, _ = started()
    reader = SessionReader(broker, BY_NAME)
    reader.want((TOPIC, 0))
    reader.fetch()
    reply = reader.send(max_wait_ms=500)
    broker.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name=TOPIC)]), 6)
    reader.take(reply.message)
    assert reader.views[TOPIC, 0].error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    create(broker, TOPIC)
    append(broker, TOPIC)
    assert told(reader.fetch())[TOPIC, 0].records


def test_what_was_counted_for_one_fetch_is_not_counted_for_another() -> None:
    broker, topic_id = started()
    size = len(batch(1))
    reader = SessionReader(broker, BY_ID)
    reader.want((topic_id, 0))
    reader.fetch()
    reply = reader.send(max_wait_ms=500, min_bytes=10 * size)
    for _ in range(5):
        append(broker, TOPIC)
    broker.time.advance(500)
    reader.take(reply.message)
    reader.want((topic_id, 0), 5)
    reader.fetch()
    reply = reader.send(max_wait_ms=500, min_bytes=3 * size)
    for _ in range(3):
        assert not reply.is_there
        append(broker, TOPIC)
    assert len(told(reply.message)[topic_id, 0].records) == 3 * size


def test_a_batch_above_the_limit_of_its_partition_ends_the_wait() -> None:
    broker, topic_id = started()
    request = fetch_request({(topic_id, 0): 0}, max_wait_ms=500, partition_max_bytes=0, session_epoch=-1)
    reply = broker.send(request, BY_ID)
    append(broker, TOPIC)
    assert told(reply.message)[topic_id, 0].records


@pytest.mark.parametrize(
    "limits", [{"max_bytes": -1}, {"partition_max_bytes": -1}, {"partition_max_bytes": -(1 << 31)}]
)
def test_a_negative_limit_counts_as_zero(limits: dict[str, int]) -> None:
    """Apache Kafka 4.3 answers UNKNOWN_SERVER_ERROR for the partition, by an internal exception."""
    broker, topic_id = started()
    for _ in range(2):
        append(broker, TOPIC)
    reply = broker.send(fetch_request({(topic_id, 0): 0}, session_epoch=-1, **limits), BY_ID)
    assert reply.message == broker.send(fetch_request({(topic_id, 0): 0}, session_epoch=-1, max_bytes=0), BY_ID).message
    assert told(reply.message)[topic_id, 0].records


def test_where_the_high_watermark_lies_is_known_though_the_log_has_grown_on(monkeypatch: pytest.MonkeyPatch) -> None:
    logs = Logs()
    log = logs.open()
    first = batch(3)
    logs.append(log, first)
    flushed = files_of(log).begin_sync()
    logs.append(log, batch(2))
    log.advance_high_watermark(flushed.synced_offset)
    reads = Reads(monkeypatch)
    assert log.readable_bytes(0, FetchIsolation.HIGH_WATERMARK) == len(first)
    assert not reads.views


@given(seed=st.integers(0, 2**32), offset=st.integers(0, 60))
def test_what_is_counted_is_what_a_reading_gives(seed: int, offset: int) -> None:
    random = Random(seed)
    logs = Logs()
    log = logs.open(segment_bytes=random.choice((800, 2_000, 100_000)))
    for number in range(random.randint(0, 20)):
        producer: dict[str, int | bool] = {}
        if random.random() < 0.1:
            producer = {"producer_id": number, "base_sequence": 0, "transactional": True}
        logs.append(log, batch(random.randint(1, 4), value=b"x" * random.randint(0, 100), **producer))
        if random.random() < 0.7:
            logs.flush()
    offset = min(offset, log.log_end_offset)
    for isolation in FetchIsolation:
        counted = log.readable_bytes(offset, isolation)
        read_bytes = len(read_records(log, offset, 2**31 - 1, isolation).records)
        segments = segments_of(log)
        bound = log.upper_bound(isolation)
        same_segment = not read_bytes or segments.slot_of(offset) == segments.slot_of(bound - 1)
        assert counted == read_bytes if same_segment else counted == PLENTY_BYTES


@pytest.mark.parametrize("turns", range(20))
@pytest.mark.parametrize("index", range(3))
def test_a_fetch_in_slices_notices_an_append_in_any_turn(
    turns: int, index: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetch_in_tiny_slices(monkeypatch)
    broker, topic_id = started()
    request = fetch_request({(topic_id, index): 0 for index in range(3)}, max_wait_ms=500, session_epoch=-1)
    reply = broker.start(request, BY_ID)
    for _ in range(turns):
        broker.time.turn()
    assert not reply.is_there
    append(broker, TOPIC, index)
    assert told(reply.message)[topic_id, index].records
    assert broker.broker.purgatory.watcher_count == broker.broker.purgatory.waiting_count == 0


@pytest.mark.parametrize("turns", range(20))
@pytest.mark.parametrize("max_wait_ms", [0, 500])
def test_a_fetch_in_slices_whose_client_goes_leaves_nothing_behind(
    turns: int, max_wait_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetch_in_tiny_slices(monkeypatch)
    broker, topic_id = started()
    request = fetch_request({(topic_id, index): 0 for index in range(3)}, max_wait_ms=max_wait_ms, session_epoch=-1)
    peer = Peer("10.0.0.1", 40_000, "PLAINTEXT", (HOST, PORT))
    broker.dispatcher.dispatch(broker.frame(request, BY_ID), peer)
    for _ in range(turns):
        broker.time.turn()
    peer.disconnect()
    broker.time.settle()
    assert broker.broker.purgatory.watcher_count == broker.broker.purgatory.waiting_count == 0
    assert broker.broker.slices.elements_held == 0
