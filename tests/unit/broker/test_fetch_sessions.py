"""Fetch sessions (KIP-227): what opens and ends them, which errors they have, who must go, and what waits for what."""

import random
from typing import Any
from uuid import UUID

import pytest

from oncelog.broker.fetching import session_cache
from oncelog.broker.fetching.session import next_epoch
from oncelog.broker.system.clock import SystemEntropy
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from oncelog.protocol.generated.fetch_response import FetchResponse
from tests.clients.fetch_session import (
    BY_ID,
    BY_NAME,
    TOPIC,
    Key,
    SessionReader,
    append,
    create,
    fetch_in_tiny_slices,
    fetch_request,
    started,
    told,
)
from tests.fakes.broker import VirtualBroker


def opened(broker: VirtualBroker, *keys: Key, version: int = BY_ID) -> SessionReader:
    reader = SessionReader(broker, version)
    for key in keys:
        reader.want(key)
    reader.fetch()
    return reader


def ask(broker: VirtualBroker, version: int, offsets: dict[Key, int], **fields: Any) -> FetchResponse:
    response: FetchResponse = broker.ask(fetch_request(offsets, **fields), version)
    return response


@pytest.mark.parametrize("version", [7, BY_NAME, BY_ID])
def test_an_incremental_answer_has_only_what_changed(version: int) -> None:
    broker, topic_id = started()
    topic = topic_id if version == BY_ID else TOPIC
    reader = opened(broker, (topic, 0), (topic, 1), (topic, 2), version=version)
    assert reader.session_id > 0
    assert told(reader.fetch()) == {}
    append(broker, TOPIC, 1)
    assert told(reader.fetch()).keys() == {(topic, 1)}
    reader.want((topic, 1), 1)
    assert told(reader.fetch()) == {}


def test_records_come_again_until_the_reader_moves_on() -> None:
    broker, topic_id = started()
    reader = opened(broker, (topic_id, 0))
    append(broker, TOPIC)
    first = told(reader.fetch())[topic_id, 0]
    assert bytes(told(reader.fetch())[topic_id, 0].records) == bytes(first.records)


def test_a_moved_log_start_is_reported_without_records() -> None:
    broker, topic_id = started()
    append(broker, TOPIC, 0, 5)
    reader = SessionReader(broker, BY_ID)
    reader.want((topic_id, 0), 5)
    reader.fetch()
    assert told(reader.fetch()) == {}
    broker.broker.topics.partition(TOPIC, 0).advance_log_start(3)
    data = told(reader.fetch())[topic_id, 0]
    assert (data.log_start_offset, data.high_watermark, bytes(data.records)) == (3, 5, b"")


def test_an_error_is_reported_as_long_as_it_lasts_and_its_end_is_reported_too() -> None:
    broker, _ = started()
    reader = opened(broker, (TOPIC, 0), ("later", 0), version=BY_NAME)
    for _ in range(2):
        assert told(reader.fetch())["later", 0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    create(broker, "later")
    assert told(reader.fetch())["later", 0].error_code == ErrorCode.NONE
    assert told(reader.fetch()) == {}


def test_a_partition_is_forgotten_and_the_session_ends_with_the_last_one() -> None:
    broker, topic_id = started()
    reader = opened(broker, (topic_id, 0), (topic_id, 1))
    reader.forget((topic_id, 0))
    append(broker, TOPIC, 0)
    assert told(reader.fetch()) == {}
    reader.forget((topic_id, 1))
    assert reader.fetch().session_id == 0
    assert len(broker.broker.fetch_sessions) == 0 == broker.broker.purgatory.watcher_count


def test_a_recreated_topic_of_the_same_name_is_not_the_one_that_a_session_by_id_reads() -> None:
    broker, topic_id = started()
    append(broker, TOPIC)
    reader = SessionReader(broker, BY_ID)
    reader.want((topic_id, 0), 1)
    reader.fetch()
    assert told(reader.fetch()) == {}
    broker.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name=TOPIC)]), 6)
    assert told(reader.fetch())[topic_id, 0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    create(broker, TOPIC)
    append(broker, TOPIC, 0, 2)
    data = told(reader.fetch())[topic_id, 0]
    assert data.error_code == ErrorCode.INCONSISTENT_TOPIC_ID and not data.records
    never_known = ask(broker, BY_ID, {(topic_id, 0): 0}, session_epoch=-1)
    assert told(never_known)[topic_id, 0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize(
    ("session_id", "epoch", "version", "expected"),
    [
        (-1, 1, BY_ID, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        (0, 2, BY_ID, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        (0, 2**31 - 1, BY_ID, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        (0, 1, BY_NAME, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR),
    ],
)
def test_a_request_that_does_not_fit_its_session_is_refused_and_changes_nothing(
    session_id: int, epoch: int, version: int, expected: ErrorCode
) -> None:
    broker, topic_id = started()
    reader = opened(broker, (topic_id, 0))
    refused = ask(broker, version, {}, session_id=session_id or reader.session_id, session_epoch=epoch)
    assert (refused.error_code, refused.session_id, refused.responses) == (expected, 0, [])
    append(broker, TOPIC)
    assert told(reader.fetch()).keys() == {(topic_id, 0)}


def test_epochs_continue_with_one_after_the_largest() -> None:
    assert (next_epoch(0), next_epoch(7), next_epoch(2**31 - 1)) == (1, 8, 1)
    broker, topic_id = started()
    reader = opened(broker, (topic_id, 0))
    (session,) = broker.broker.fetch_sessions._sessions.values()
    session.epoch = reader.epoch = 2**31 - 1
    assert reader.fetch().error_code == ErrorCode.NONE
    assert reader.epoch == 1
    assert reader.fetch().error_code == ErrorCode.NONE


def test_epoch_minus_one_ends_the_session_and_is_answered_in_full() -> None:
    broker, topic_id = started()
    reader = opened(broker, (topic_id, 0))
    last = ask(broker, BY_ID, {(topic_id, 1): 0}, session_id=reader.session_id, session_epoch=-1)
    assert last.session_id == 0 and told(last).keys() == {(topic_id, 1)}
    assert reader.send().message.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_epoch_zero_with_a_session_id_puts_a_new_session_in_its_place() -> None:
    broker, topic_id = started()
    reader = opened(broker, (topic_id, 0))
    again = ask(broker, BY_ID, {(topic_id, 1): 0}, session_id=reader.session_id, session_epoch=0)
    assert again.session_id not in (0, reader.session_id)
    assert len(broker.broker.fetch_sessions) == 1


def test_without_slots_there_are_no_sessions() -> None:
    broker, topic_id = started("max.incremental.fetch.session.cache.slots=0")
    reader = opened(broker, (topic_id, 0))
    assert reader.session_id == 0
    assert broker.broker.purgatory.watcher_count == 0


def test_a_full_cache_refuses_until_a_session_was_unused_for_two_minutes() -> None:
    broker, topic_id = started("max.incremental.fetch.session.cache.slots=2")
    used, old = opened(broker, (topic_id, 0)), opened(broker, (topic_id, 0))
    broker.time.advance(60_000)
    used.fetch()
    assert opened(broker, (topic_id, 0), (topic_id, 1)).session_id == 0
    broker.time.advance(60_001)
    assert opened(broker, (topic_id, 0)).session_id > 0
    assert old.send().message.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert used.fetch().error_code == ErrorCode.NONE
    assert broker.broker.metrics.fetch_session_evictions == 1


def test_a_larger_session_takes_the_place_of_the_smallest_that_lived_for_two_minutes() -> None:
    broker, topic_id = started("max.incremental.fetch.session.cache.slots=2")
    small = opened(broker, (topic_id, 0), (topic_id, 1))
    large = opened(broker, (topic_id, 0), (topic_id, 1), (topic_id, 2))
    for _ in range(3):
        broker.time.advance(50_000)
        small.fetch()
        large.fetch()
    assert opened(broker, (topic_id, 0), (topic_id, 1)).session_id == 0
    assert opened(broker, (topic_id, 0), (topic_id, 1), (topic_id, 2)).session_id > 0
    assert large.fetch().error_code == ErrorCode.NONE
    assert small.send().message.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_waiting_request_gets_an_error_when_its_session_continues_elsewhere() -> None:
    broker, topic_id = started()
    reader = opened(broker, (topic_id, 0))
    waiting = reader.send(max_wait_ms=500)
    assert not waiting.is_there
    later = ask(broker, BY_ID, {}, session_id=reader.session_id, session_epoch=reader.epoch + 1)
    assert later.error_code == ErrorCode.NONE
    assert waiting.message.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert broker.broker.purgatory.waiting_count == 0


@pytest.mark.parametrize("max_wait_ms", [0, 500])
@pytest.mark.parametrize("has_data", [False, True])
@pytest.mark.parametrize("turns", range(10))
def test_a_request_in_slices_ends_when_its_session_continues_elsewhere(
    turns: int, has_data: bool, max_wait_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetch_in_tiny_slices(monkeypatch)
    broker, topic_id = started()
    keys = [(topic_id, index) for index in range(3)]
    reader = opened(broker, *keys)
    for index in range(3):
        append(broker, TOPIC, index)
        if not has_data:
            broker.broker.topics.partition(TOPIC, index).advance_log_start(1)
            reader.want(keys[index], 1)
    first = reader.send(0, max_wait_ms=max_wait_ms)
    while broker.broker.fetch_sessions.find(fetch_request({}, session_id=reader.session_id, session_epoch=1), True):
        broker.time.turn()  # it is decoded and taken
    for _ in range(turns):
        broker.time.turn()
    later = ask(broker, BY_ID, {}, session_id=reader.session_id, session_epoch=reader.epoch + 1)
    whole = set(keys) if has_data else set()
    assert later.error_code == ErrorCode.NONE and told(later).keys() >= whole
    if first.message.error_code == ErrorCode.NONE:  # it was read before
        assert told(first.message).keys() >= whole
    else:
        assert first.message.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    ask(broker, BY_ID, {}, session_id=reader.session_id, session_epoch=-1)
    assert broker.broker.purgatory.watcher_count == broker.broker.purgatory.waiting_count == 0


def test_a_request_that_waits_is_answered_though_its_session_is_gone() -> None:
    broker, topic_id = started()
    reader = opened(broker, (topic_id, 0))
    waiting = reader.send(max_wait_ms=500)
    ask(broker, BY_ID, {}, session_id=reader.session_id, session_epoch=-1)
    append(broker, TOPIC)
    assert told(waiting.message).keys() == {(topic_id, 0)}
    assert broker.broker.purgatory.watcher_count == 0


def test_a_partition_that_returned_records_moves_to_the_end_of_the_order() -> None:
    broker, topic_id = started()
    for index in range(3):
        for _ in range(4):
            append(broker, TOPIC, index)
    reader = SessionReader(broker, BY_ID)
    order = []
    for index in range(3):
        reader.want((topic_id, index))
    for _ in range(6):
        reader.fetch(max_bytes=1)
        ((key, _),) = [(key, view) for key, view in reader.views.items() if view.records]
        order.append(key[1])
        reader.want(key, reader.offsets[key] + 1)
    assert order == [0, 1, 2, 0, 1, 2]


def test_sessions_of_disconnected_readers_are_notified_of_a_log_only_once() -> None:
    broker, topic_id = started()
    opened(broker, (topic_id, 0), (topic_id, 1))
    assert broker.broker.purgatory.watcher_count == 2
    append(broker, TOPIC)
    assert broker.broker.purgatory.watcher_count == 1


def test_another_isolation_in_the_same_session_sees_its_own_end() -> None:
    broker, topic_id = started()
    append(broker, TOPIC, producer_id=7, base_sequence=0, transactional=True)
    reader = SessionReader(broker, BY_ID, isolation=1)
    reader.want((topic_id, 0))
    assert not told(reader.fetch())[topic_id, 0].records
    assert told(reader.fetch()) == {}
    reader.isolation = 0
    assert told(reader.fetch())[topic_id, 0].records


@pytest.mark.interpreted
def test_a_session_that_grows_and_grows_ends_and_others_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client without any right may ask for partitions that do not exist, more with each request."""
    monkeypatch.setattr(session_cache, "MOST_PARTITIONS", 100)
    broker, topic_id = started()
    reader = opened(broker, (topic_id, 0))
    partitions = iter(range(1_000))
    grown = opened(broker, (UUID(int=1), next(partitions)))
    errors = []
    for _ in range(15):
        for _ in range(10):
            grown.want((UUID(int=1), next(partitions)))
        errors.append(grown.fetch().error_code)
    assert errors.index(ErrorCode.FETCH_SESSION_ID_NOT_FOUND) == 9
    assert reader.fetch().error_code == 0
    assert broker.broker.fetch_sessions.partition_count <= 100
    many = ask(broker, BY_ID, {(UUID(int=1), number): 0 for number in range(100)}, session_epoch=0)
    assert (many.error_code, many.session_id) == (0, 0), "it is served without a session"
    few = ask(broker, BY_ID, {(UUID(int=1), number): 0 for number in range(99)}, session_epoch=0)
    assert few.session_id > 0


def test_names_that_no_topic_has_are_kept_in_no_session() -> None:
    broker, _ = started()
    long = "x" * 30_000
    assert ask(broker, BY_NAME, {(long, 0): 0}, session_epoch=0).session_id == 0
    reader = opened(broker, (TOPIC, 0), version=BY_NAME)
    reader.want((long, 0))
    assert reader.fetch().error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_ids_of_sessions_do_not_follow_from_those_before() -> None:
    """A client that guesses the id of another's session can end it."""
    told_by_the_generator = []
    for _ in range(2):
        random.seed(1)
        told_by_the_generator.append(SystemEntropy().random())
    assert len(set(told_by_the_generator)) == 2
