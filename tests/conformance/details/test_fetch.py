"""Details of reading: sessions, topic ids, whole batches, isolation, offsets, epochs."""

import pytest

from oncelog.broker.fetching.session import next_epoch
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from oncelog.protocol.generated.delete_topics_request import DeleteTopicsRequest
from oncelog.protocol.generated.fetch_request import FetchRequest
from oncelog.protocol.generated.metadata_request import MetadataRequest, MetadataRequestTopic
from oncelog.protocol.generated.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from oncelog.protocol.records.batch import iter_batches
from tests.clients.producer import Producer, broker_with_topic
from tests.conformance.details.asking import (
    NOW_MS,
    TOPIC,
    batch,
    create,
    fetch,
    fetch_request,
    list_offset,
    produce,
    with_topic,
)
from tests.fakes.broker import VirtualBroker

E = ErrorCode
LAST_EPOCH = 2**31 - 1


def offsets_in(records: bytes | memoryview | None) -> list[tuple[int, int]]:
    """First and last offset of each batch."""
    found = iter_batches(memoryview(records or b""))
    return [(header.base_offset, header.base_offset + header.last_offset_delta) for header, _ in found]


def test_detail_16_a_session_lists_what_changed_and_its_epoch_must_be_the_next() -> None:
    broker = VirtualBroker()
    topic_id = create(broker, TOPIC)
    full = broker.ask(fetch_request(session_epoch=0, topic_id=topic_id), 13)
    session_id = full.session_id
    assert session_id != 0 and len(full.responses) == 1

    def go_on(epoch: int, version: int = 13) -> tuple[int, int]:
        asked = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1_000, session_id=session_id, session_epoch=epoch)
        answer = broker.ask(asked, version)
        return answer.error_code, len(answer.responses)

    assert go_on(1) == (E.NONE, 0), "nothing has changed"
    produce(broker)
    assert go_on(2) == (E.NONE, 1)
    assert go_on(2)[0] == go_on(4)[0] == E.INVALID_FETCH_SESSION_EPOCH
    assert go_on(3, version=12)[0] == E.FETCH_SESSION_TOPIC_ID_ERROR
    session = broker.broker.fetch_sessions
    assert len(session) == 1
    assert broker.ask(fetch_request(session_id=session_id, session_epoch=-1, topic_id=topic_id), 13).session_id == 0
    assert go_on(3)[0] == E.FETCH_SESSION_ID_NOT_FOUND


def test_detail_16_the_epoch_after_the_last_is_1() -> None:
    assert [next_epoch(epoch) for epoch in (0, 1, LAST_EPOCH - 1, LAST_EPOCH)] == [1, 2, LAST_EPOCH, 1]


def test_detail_17_fetch_from_version_13_names_topics_by_id_and_a_topic_created_again_has_another() -> None:
    broker = VirtualBroker()
    old_id = create(broker, TOPIC)
    produce(broker)
    assert offsets_in(fetch(broker, version=13, topic_id=old_id).records) == [(0, 0)]
    broker.ask(DeleteTopicsRequest(topic_names=[TOPIC], timeout_ms=1_000), 5)
    new_id = create(broker, TOPIC)
    assert new_id != old_id
    for version in range(13, 19):
        assert fetch(broker, version=version, topic_id=old_id).error_code == E.UNKNOWN_TOPIC_ID
        assert fetch(broker, version=version, topic_id=new_id).error_code == E.NONE
    for version in range(10, 14):
        (topic,) = broker.ask(MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)]), version).topics
        assert topic.topic_id == new_id
    assert broker.killed().broker.topics.by_id(new_id) is not None


def test_detail_19_the_first_batch_comes_whole_and_is_the_one_that_holds_the_offset() -> None:
    broker = with_topic()
    produce(broker, batch(*[b"x" * 1_000] * 5))
    produce(broker, batch(b"y"))
    for version in range(4, 13):
        data = fetch(broker, 3, version, max_bytes=1, partition_max_bytes=1)
        assert offsets_in(data.records) == [(0, 4)]
        assert len(data.records or b"") > 5_000
        empty = fetch(broker, 6, version)
        assert empty.records is not None and len(empty.records) == 0


def test_detail_20_beyond_the_end_and_before_the_start_is_out_of_range_and_the_end_waits() -> None:
    broker = with_topic()
    produce(broker, batch(b"a", b"b", b"c"))
    partition = DeleteRecordsPartition(partition_index=0, offset=1)
    broker.ask(
        DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=TOPIC, partitions=[partition])], timeout_ms=1_000), 2
    )
    for offset in (-1, 0, 4, 2**62):
        refused = fetch(broker, offset)
        assert refused.error_code == E.OFFSET_OUT_OF_RANGE
        assert (refused.high_watermark, refused.log_start_offset) == (-1, -1), "as Kafka 4.3; clients ask ListOffsets"
    assert fetch(broker, 1).log_start_offset == 1
    waiting = broker.send(fetch_request(3, max_wait_ms=60_000), 11)
    assert not waiting.is_there
    produce(broker)
    assert offsets_in(waiting.message.responses[0].partitions[0].records) == [(3, 3)]


def test_detail_21_read_committed_ends_at_the_last_stable_offset_and_names_what_was_aborted() -> None:
    broker = broker_with_topic()
    producer = Producer(broker).init()
    producer.produce(sequence=0, version=12)
    plain = fetch(broker, 0, isolation_level=0)
    assert (plain.high_watermark, plain.last_stable_offset, plain.aborted_transactions) == (1, 0, None)
    assert offsets_in(plain.records) == [(0, 0)]
    committed = fetch(broker, 0, isolation_level=1)
    assert (committed.high_watermark, committed.last_stable_offset) == (1, 0)
    assert (committed.aborted_transactions, offsets_in(committed.records)) == ([], [])
    first_pair = producer.pair
    producer.end(commit=False, version=5)
    plain, committed = (fetch(broker, 0, isolation_level=isolation) for isolation in (0, 1))
    assert offsets_in(plain.records) == offsets_in(committed.records) == [(0, 0), (1, 1)]
    assert plain.aborted_transactions is None
    aborted = [(each.producer_id, each.first_offset) for each in committed.aborted_transactions or ()]
    assert aborted == [(first_pair[0], 0)]
    assert committed.last_stable_offset == 2


@pytest.mark.parametrize("commit", [True, False])
def test_detail_22_a_marker_takes_an_offset_and_a_position_goes_past_it(commit: bool) -> None:
    broker = broker_with_topic()
    producer = Producer(broker).init()
    producer.produce(sequence=0, version=12)
    assert list_offset(broker, -1, isolation_level=1).offset == 0
    assert list_offset(broker, -1, isolation_level=0).offset == 1
    producer.end(commit, version=5)
    for isolation in (0, 1):
        assert list_offset(broker, -1, isolation_level=isolation).offset == 2
        assert offsets_in(fetch(broker, 1, isolation_level=isolation).records) == [(1, 1)]


def test_detail_23_list_offsets_knows_its_negative_timestamps_each_from_its_version_on() -> None:
    broker = with_topic()
    produce(broker, batch(b"a", b"b"))
    produce(broker, batch(b"c"))
    since = {-1: 1, -2: 1, -3: 7, -4: 8, -5: 9, -6: 11}
    expected = {-1: 3, -2: 0, -3: 1, -4: 0}
    for timestamp, first in since.items():
        for version in range(1, 12):
            answer = list_offset(broker, timestamp, version)
            if version < first:
                assert answer.error_code == E.UNSUPPORTED_VERSION, (timestamp, version)
            else:
                assert answer.error_code == E.NONE, (timestamp, version)
                assert answer.offset == expected.get(timestamp, answer.offset), (timestamp, version)
    for version in range(4, 12):
        assert list_offset(broker, -1, version).leader_epoch == 0
        assert list_offset(broker, NOW_MS + 1, version).offset == 1


def test_detail_24_an_older_leader_epoch_is_fenced_a_later_one_unknown_and_none_is_not_looked_at() -> None:
    broker = with_topic()
    produce(broker)
    epoch = broker.broker.topics.partition(TOPIC, 0).leader_epoch

    def for_leader_epoch(current: int, version: int) -> int:
        partition = OffsetForLeaderPartition(partition=0, current_leader_epoch=current, leader_epoch=epoch)
        topics = [OffsetForLeaderTopic(topic=TOPIC, partitions=[partition])]
        (topic,) = broker.ask(OffsetForLeaderEpochRequest(topics=topics), version).topics
        if topic.partitions[0].error_code == E.NONE:
            assert (topic.partitions[0].leader_epoch, topic.partitions[0].end_offset) == (epoch, 1)
        return int(topic.partitions[0].error_code)

    for current, expected in ((-1, E.NONE), (epoch, E.NONE), (epoch + 1, E.UNKNOWN_LEADER_EPOCH)):
        assert [fetch(broker, 0, version, leader_epoch=current).error_code for version in (9, 12)] == [expected] * 2
        assert [list_offset(broker, -1, version, leader_epoch=current).error_code for version in (4, 11)] == [
            expected
        ] * 2
        assert [for_leader_epoch(current, version) for version in (2, 3, 4)] == [expected] * 3
    (topic,) = broker.ask(MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)]), 7).topics
    assert topic.partitions[0].leader_epoch == epoch >= 0
    ((header, _),) = iter_batches(memoryview(bytes(fetch(broker).records or b"")))
    assert header.partition_leader_epoch == epoch
    assert broker.killed().broker.topics.partition(TOPIC, 0).leader_epoch >= epoch
