"""ShareFetch as its clients see it: records, waits, sessions, where a group begins, topics that come and go."""

import pytest

from oncelog.broker.log.values import EndMarker
from oncelog.broker.sharing.sessions import PartitionId
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.generated.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from tests.clients.fetch_session import create
from tests.clients.share_member import (
    ACCEPT,
    REJECT,
    RELEASE,
    RENEW,
    Key,
    ShareMember,
    acknowledge_errors,
    acquired,
    errors,
    rows,
)
from tests.unit.sharing.world import GROUP, LOCK_MS, TOPIC, World, reading

NONE = ErrorCode.NONE


# --- what a member gets -----------------------------------------------------------------------------------------------


def test_a_member_gets_whole_batches_and_which_of_their_records_are_its() -> None:
    """Records leave as they are stored, and the acquired ranges cover what the member may process."""
    world = World()
    world.append(3)
    world.append(2)
    response = world.member().fetch(world.keys)
    assert acquired(response) == {world.keys[0]: [(0, 4, 1)]}
    assert response.acquisition_lock_timeout_ms == LOCK_MS


def test_no_record_is_handed_to_two_members_within_its_lock() -> None:
    """A member does not get what another one holds, but what is appended later."""
    world = World()
    world.append(2)
    first, second = world.member("first"), world.member("second")
    assert acquired(first.fetch(world.keys)) == {world.keys[0]: [(0, 1, 1)]}
    assert acquired(second.fetch(world.keys)) == {}
    world.append()
    assert acquired(second.fetch()) == {world.keys[0]: [(2, 2, 1)]}


def test_batches_outside_of_the_acquired_range_are_left_out() -> None:
    """A response has the batches of its acquired records, and not those before or behind them that were read, too."""
    world = World()
    for _ in range(3):
        world.append(2)
    first, second = world.member("first"), world.member("second")
    first.fetch(world.keys, max_records=1)
    data = rows(second.fetch(world.keys, max_records=1))[world.keys[0]]
    (range_,) = data.acquired_records
    assert (range_.first_offset, range_.last_offset) == (2, 3)
    size = world.broker.broker.topics.partition(TOPIC, 0).size_bytes // 3
    assert len(data.records) == size


def test_with_the_record_limit_a_member_gets_no_more_records_than_it_wants() -> None:
    """KIP-1206: the limit is strict, though the batch is returned whole."""
    world = World()
    world.append(5)
    member = world.member()
    assert acquired(member.fetch(world.keys, share_acquire_mode=1, max_records=2)) == {world.keys[0]: [(0, 1, 1)]}
    assert acquired(member.fetch(share_acquire_mode=1, max_records=2)) == {world.keys[0]: [(2, 3, 1)]}


def test_partitions_share_the_limits_of_a_request_and_take_turns() -> None:
    """Each request of a session begins at the next partition, so that none starves."""
    world = World(partitions=3)
    for index in range(3):
        world.append(2, index)
    member = world.member()
    got = [list(acquired(member.fetch(world.keys if number == 0 else (), max_records=2))) for number in range(3)]
    assert sorted(key for (key,) in got) == world.keys


def test_a_member_gets_no_more_bytes_than_it_wants_but_for_a_first_batch() -> None:
    """The first batch is returned whatever its size; the next ones wait."""
    world = World(partitions=2)
    for index in range(2):
        world.append(1, index, value=b"x" * 500)
    member = world.member()
    assert len(acquired(member.fetch(world.keys, max_bytes=100))) == 1
    assert len(acquired(member.fetch(max_bytes=100))) == 1
    assert acquired(member.fetch()) == {}


def test_as_many_records_are_in_flight_as_the_group_allows() -> None:
    """A member waits at the limit until others have acknowledged."""
    world = World("group.share.min.partition.max.record.locks=100")
    world.configure(share_partition_max_record_locks="100")
    world.append(100)
    world.append(10)
    first, second = world.member("first"), world.member("second")
    assert acquired(first.fetch(world.keys)) == {world.keys[0]: [(0, 99, 1)]}
    reply = second.start_fetch(world.keys, max_wait_ms=500)
    assert not reply.is_there
    first.acknowledge({world.keys[0]: [(0, 99, [ACCEPT])]})
    assert acquired(reply.message) == {world.keys[0]: [(100, 109, 1)]}


# --- waiting ----------------------------------------------------------------------------------------------------------


def test_a_fetch_waits_for_as_many_bytes_as_it_wants() -> None:
    """Records of all its partitions count."""
    world = World(partitions=2)
    world.append(1, 0, value=b"x" * 100)
    reply = world.member().start_fetch(world.keys, max_wait_ms=500, min_bytes=300)
    assert not reply.is_there
    world.append(1, 1, value=b"x" * 100)
    assert acquired(reply.message) == {key: [(0, 0, 1)] for key in world.keys}


def test_a_fetch_takes_what_there_is_when_its_time_is_up() -> None:
    """The answer has no records if there are none."""
    world = World()
    member = world.member()
    reply = member.start_fetch(world.keys, max_wait_ms=500)
    world.let_pass(499)
    assert not reply.is_there
    world.let_pass(1)
    assert errors(reply.message) == {world.keys[0]: NONE} and not acquired(reply.message)
    member.epoch += 1
    reply = member.start_fetch(max_wait_ms=500, min_bytes=10_000)
    world.append()
    world.let_pass(500)
    assert acquired(reply.message) == {world.keys[0]: [(0, 0, 1)]}


def test_one_record_wakes_all_who_wait_and_goes_to_the_one_that_waits_longest() -> None:
    """The others keep waiting."""
    world = World()
    replies = [world.member(name).start_fetch(world.keys, max_wait_ms=500) for name in ("first", "second")]
    assert world.broker.broker.purgatory.waiting_count == 2
    world.append()
    assert [reply.is_there for reply in replies] == [True, False]
    world.append()
    assert acquired(replies[1].message) == {world.keys[0]: [(1, 1, 1)]}


class Waiter:
    """Counts how often it is woken."""

    def __init__(self) -> None:
        self.woken = 0

    def on_moved(self, partition: PartitionId) -> None:
        self.woken += 1

    def on_ended(self, partition: PartitionId, error: KafkaError) -> None:
        raise AssertionError(error)


def test_who_waits_is_woken_only_if_there_is_something_to_acquire() -> None:
    """Hundreds may wait while one works: its acknowledgements are nothing to them, but what it releases is."""
    world, member = reading(4)
    life = world.manager.find(GROUP, PartitionId(*world.keys[0]))
    assert life is not None
    waiter = Waiter()
    life.watch(waiter)
    member.acknowledge({world.keys[0]: [(0, 0, [ACCEPT])]})
    member.acknowledge({world.keys[0]: [(1, 1, [REJECT])]})
    assert waiter.woken == 0
    member.acknowledge({world.keys[0]: [(2, 2, [RELEASE])]})
    assert waiter.woken == 1


def test_a_client_that_has_left_acquires_nothing() -> None:
    """Records that arrive after its connection has ended are for others."""
    world = World()
    first, second = world.member("first"), world.member("second")
    reply = first.start_fetch(world.keys, max_wait_ms=500)
    first.disconnect()
    world.append()
    assert not reply.is_there
    assert acquired(second.fetch(world.keys)) == {world.keys[0]: [(0, 0, 1)]}
    assert not world.broker.broker.slices.elements_held
    assert not world.broker.broker.purgatory.waiting_count


def test_a_fetch_whose_session_moves_on_without_it_acquires_nothing() -> None:
    """Its client has sent another request, perhaps on another connection, and does not wait for this one."""
    world = World()
    member = world.member()
    reply = member.start_fetch(world.keys, max_wait_ms=500)
    member.epoch = 1
    assert not rows(member.fetch())
    assert reply.message.error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    world.append()
    assert acquired(member.fetch()) == {world.keys[0]: [(0, 0, 1)]}


# --- sessions ---------------------------------------------------------------------------------------------------------


def test_the_end_of_a_session_releases_what_its_member_holds() -> None:
    """The session ends by a request, or with the connection; each wakes the members that wait."""
    world = World()
    world.append()
    first, second, third = (world.member(name) for name in ("first", "second", "third"))
    first.fetch(world.keys)
    reply = second.start_fetch(world.keys, max_wait_ms=500)
    first.close()
    assert acquired(reply.message) == {world.keys[0]: [(0, 0, 2)]}
    second.epoch += 1
    reply = third.start_fetch(world.keys, max_wait_ms=500)
    second.disconnect()
    assert acquired(reply.message) == {world.keys[0]: [(0, 0, 3)]}


def test_a_fetch_that_closes_its_session_acknowledges_first() -> None:
    """The records that it has not acknowledged are available again."""
    world, member = reading(2)
    response = member.fetch(acknowledged={world.keys[0]: [(0, 0, [ACCEPT])]}, share_session_epoch=-1)
    assert acknowledge_errors(response) == {world.keys[0]: NONE}
    assert acquired(world.member("other").fetch(world.keys)) == {world.keys[0]: [(1, 1, 2)]}


def test_a_member_that_opens_its_session_again_still_holds_its_records() -> None:
    """It may have lost a response, and acknowledges what it has got."""
    world, member = reading()
    member.epoch = 0
    assert acquired(member.fetch(world.keys)) == {}
    assert errors(member.acknowledge({world.keys[0]: [(0, 0, [ACCEPT])]})) == {world.keys[0]: NONE}


def test_a_session_has_what_was_added_and_not_what_was_forgotten() -> None:
    """The partitions of a session change with its requests."""
    world = World(partitions=2)
    for index in range(2):
        world.append(1, index)
    member = world.member()
    assert list(acquired(member.fetch(world.keys[:1]))) == world.keys[:1]
    assert list(acquired(member.fetch(world.keys[1:]))) == world.keys[1:]
    world.append(1, 0)
    world.append(1, 1)
    assert list(acquired(member.fetch(forgotten=world.keys[:1]))) == world.keys[1:]


def test_a_request_without_a_place_for_its_session_waits_before_it_is_refused() -> None:
    """Clients thus do not retry at once."""
    world = World("group.share.max.share.sessions=1", "group.share.max.size=1")
    world.member("first").fetch(world.keys)
    second = world.member("second")
    reply = second.start_fetch(world.keys, max_wait_ms=500)
    world.let_pass(499)
    assert not reply.is_there
    world.let_pass(1)
    assert reply.message.error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
    reply = second.start_fetch(world.keys, max_wait_ms=500)
    second.disconnect()
    assert not world.broker.broker.slices.elements_held


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"group_id": None}, ErrorCode.INVALID_REQUEST),
        ({"member_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"member_id": None}, ErrorCode.INVALID_REQUEST),
        ({"member_id": "x" * 37}, ErrorCode.INVALID_REQUEST),
        ({"share_session_epoch": 1}, ErrorCode.SHARE_SESSION_NOT_FOUND),
        ({"share_session_epoch": -1}, ErrorCode.SHARE_SESSION_NOT_FOUND),
    ],
)
def test_a_request_that_names_no_session_is_refused(fields: dict[str, object], error: ErrorCode) -> None:
    """Both APIs refuse it as a whole."""
    world = World()
    assert world.member().fetch(world.keys, **fields).error_code == error
    assert world.member().acknowledge({}, **fields).error_code in (error, ErrorCode.INVALID_SHARE_SESSION_EPOCH)


def test_epochs_are_checked_by_both_requests() -> None:
    """Only a fetch opens a session, without acknowledgements."""
    world = World()
    member = world.member()
    opening = member.fetch(acknowledged={world.keys[0]: [(0, 0, [ACCEPT])]})
    assert opening.error_code == ErrorCode.INVALID_REQUEST
    assert member.acknowledge({}).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    member.fetch(world.keys)
    assert member.fetch(share_session_epoch=2).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert member.acknowledge({}, share_session_epoch=2).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert member.acknowledge({}).error_code == NONE


# --- where a group begins, and what may be read -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reset", "offset"), [("latest", 6), ("earliest", 0), ("by_duration:PT30S", 4), ("by_duration:PT1H", 0)]
)
def test_a_group_begins_where_its_setting_says(reset: str, offset: int) -> None:
    """share.auto.offset.reset decides once, when the partition is first read."""
    world = World()
    world.configure(share_auto_offset_reset=reset)
    world.initialize(world.topic_id, 0, -1)
    for _ in range(3):
        world.append(2, timestamp=world.broker.time.wall_ms())
        world.let_pass(20_000)
    member = world.member()
    member.fetch(world.keys)
    member.epoch = 0
    world.append(timestamp=world.broker.time.wall_ms())
    life = next(iter(world.manager._lives[GROUP].values()))
    assert life.state is not None and life.state.start_offset == offset


def test_a_group_that_begins_with_young_records_has_an_error_while_there_are_none() -> None:
    """Kafka's share consumers retry on this error."""
    world = World()
    world.configure(share_auto_offset_reset="by_duration:PT1S")
    world.initialize(world.topic_id, 0, -1)
    world.append(timestamp=1)
    member = world.member()
    assert errors(member.fetch(world.keys)) == {world.keys[0]: ErrorCode.OFFSET_NOT_AVAILABLE}
    world.append(timestamp=world.broker.time.wall_ms())
    assert acquired(member.fetch()) == {world.keys[0]: [(1, 1, 1)]}


def test_read_committed_waits_for_the_end_of_transactions_and_skips_aborted_ones() -> None:
    """No aborted record is handed out; markers are gaps that members report."""
    world = World()
    world.configure(share_isolation_level="read_committed")
    log = world.broker.broker.topics.partition(TOPIC, 0)
    world.append(2, producer_id=7, base_sequence=0, transactional=True)
    member = world.member()
    reply = member.start_fetch(world.keys, max_wait_ms=500)
    world.append(1)
    assert not reply.is_there
    log.append_end_txn_marker(EndMarker(7, 0, False, 0), world.broker.time.wall_ms())
    world.broker.time.settle()
    (ranges,) = acquired_offsets(reply.message).values()
    assert 2 in ranges and not ranges & {0, 1}


def test_read_uncommitted_does_not_wait_for_transactions() -> None:
    """The default."""
    world = World()
    world.append(2, producer_id=7, base_sequence=0, transactional=True)
    assert acquired(world.member().fetch(world.keys)) == {world.keys[0]: [(0, 1, 1)]}


def acquired_offsets(response: object) -> dict[Key, set[int]]:
    return {
        key: {offset for each in data.acquired_records for offset in range(each.first_offset, each.last_offset + 1)}
        for key, data in rows(response).items()
    }


def test_what_was_deleted_beneath_a_group_is_skipped() -> None:
    """DeleteRecords and retention move the start of the share-partition, too."""
    world = World()
    world.append(2)
    world.append(2)
    log = world.broker.broker.topics.partition(TOPIC, 0)
    world.broker.broker.logs.delete_records(log, 2)
    world.broker.time.settle()
    member = world.member()
    assert acquired(member.fetch(world.keys)) == {world.keys[0]: [(2, 3, 1)]}
    member.acknowledge({world.keys[0]: [(2, 3, [ACCEPT])]})
    assert world.states.shares[world.state_key()].start_offset >= 2


def test_records_deleted_while_they_are_held_are_gone_when_they_are_released() -> None:
    """The records that are left are delivered again."""
    world = World()
    world.append(1)
    world.append(1)
    first, second = world.member("first"), world.member("second")
    first.fetch(world.keys)
    log = world.broker.broker.topics.partition(TOPIC, 0)
    world.broker.broker.logs.delete_records(log, 1)
    world.broker.time.settle()
    first.close()
    second_got = acquired(second.fetch(world.keys))
    assert second_got == {world.keys[0]: [(1, 1, 2)]}


# --- topics -----------------------------------------------------------------------------------------------------------


def test_unknown_topics_and_partitions_are_errors_of_their_own() -> None:
    """They end no wait for the others, and are reported with the response."""
    world = World()
    unknown, missing = (world.state_key()._replace(partition=9).topic_id, 9), (create(world.broker, "other"), 5)
    nowhere = (missing[0].__class__(int=5), 0)
    member = world.member()
    reply = member.start_fetch([*world.keys, unknown, missing, nowhere], max_wait_ms=500)
    assert not reply.is_there
    world.append()
    got = errors(reply.message)
    assert got == {
        world.keys[0]: NONE,
        unknown: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        missing: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        nowhere: ErrorCode.UNKNOWN_TOPIC_ID,
    }


def test_a_deleted_topic_ends_its_share_partitions_and_the_wait_for_them() -> None:
    """One that is made again under the same name is another one."""
    world, member = reading()
    member.acknowledge({world.keys[0]: [(0, 0, [ACCEPT])]})
    reply = member.start_fetch(max_wait_ms=500)
    world.broker.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name=TOPIC)]), 6)
    assert errors(reply.message) == {world.keys[0]: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert not world.manager.partition_count
    member.epoch += 1
    topic_id = create(world.broker, TOPIC)
    world.initialize(topic_id)
    world.append()
    response = member.fetch([(topic_id, 0)])
    assert errors(response) == {world.keys[0]: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, (topic_id, 0): NONE}
    assert acquired(response) == {(topic_id, 0): [(0, 0, 1)]}


def test_a_share_coordinator_that_is_loading_is_asked_again() -> None:
    """No share consumer sees that; one that stays away is an error."""
    world = World()
    world.append()
    world.states.refusal = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    member = world.member()
    reply = member.start_fetch(world.keys, max_wait_ms=1_500)
    world.let_pass(500)
    assert not reply.is_there
    world.states.refusal = None
    world.let_pass(500)
    assert acquired(reply.message) == {world.keys[0]: [(0, 0, 1)]}
    other = world.member("other")
    world.states.refusal = ErrorCode.GROUP_ID_NOT_FOUND
    other.group_id = "unknown"
    assert errors(other.fetch(world.keys)) == {world.keys[0]: ErrorCode.GROUP_ID_NOT_FOUND}


def test_the_first_version_knows_neither_renewal_nor_strict_limits() -> None:
    """v1 has the same records otherwise."""
    world = World()
    world.append()
    member: ShareMember = world.member(version=1)
    assert acquired(member.fetch(world.keys)) == {world.keys[0]: [(0, 0, 1)]}
    renewed = member.acknowledge({world.keys[0]: [(0, 0, [RENEW])]})
    assert errors(renewed) == {world.keys[0]: ErrorCode.INVALID_REQUEST}
    assert errors(member.acknowledge({world.keys[0]: [(0, 0, [ACCEPT])]})) == {world.keys[0]: NONE}


def test_a_partition_that_another_node_leads_is_not_waited_for() -> None:
    """Its life ends here, and clients learn the new leader; it begins again once it is led here again."""
    world, member = reading()
    reply = member.start_fetch(max_wait_ms=500)
    world.broker.broker.leadership.lose(TOPIC, 0)
    world.broker.time.settle()
    assert errors(reply.message) == {world.keys[0]: ErrorCode.NOT_LEADER_OR_FOLLOWER}
    assert not world.manager.partition_count
    member.epoch += 1
    assert errors(member.fetch()) == {world.keys[0]: ErrorCode.NOT_LEADER_OR_FOLLOWER}
    world.broker.broker.leadership.gain(TOPIC, 0)
    world.broker.time.settle()
    assert acquired(member.fetch()) == {world.keys[0]: [(0, 0, 1)]}
