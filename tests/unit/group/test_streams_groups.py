"""Streams groups (KIP-1071): epochs, tasks, internal topics, fencing, sessions and restarts, as members see them."""

from typing import Any

from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.delete_groups_request import DeleteGroupsRequest
from oncelog.protocol.generated.list_groups_request import ListGroupsRequest
from oncelog.protocol.generated.streams_group_heartbeat_request import (
    Endpoint,
)
from tests.clients.group_members import GROUP, Member, commit, fetch, started
from tests.clients.streams_group_members import (
    COUNTING,
    INITIAL_DELAY_MS,
    STREAMS_SESSION_TIMEOUT_MS,
    Streams,
    described,
    settle,
)
from tests.fakes.broker import VirtualBroker

AT_ONCE = "group.streams.initial.rebalance.delay.ms=0"


def pair(broker: VirtualBroker, **fields: Any) -> tuple[Streams, Streams]:
    """Two members that share four tasks."""
    one, two = Streams(broker, "one", **fields), Streams(broker, "two", **fields)
    one.join()
    two.join()
    settle(broker, one, two)
    return one, two


def test_a_member_alone_has_every_task_once_the_delay_is_over() -> None:
    broker = started()
    one = Streams(broker)
    assert one.join() is ErrorCode.NONE
    assert (one.epoch, one.partitions, one.statuses) == (1, [], [5])
    broker.let_pass(INITIAL_DELAY_MS - 1)
    one.heartbeat()
    assert (one.epoch, one.partitions) == (1, [])
    broker.let_pass(1)
    one.heartbeat()
    assert (one.epoch, one.partitions, one.statuses) == (2, [0, 1, 2, 3], [])
    assert described(broker).group_state == "Stable"


def test_members_that_join_within_the_delay_share_the_tasks_at_once() -> None:
    broker = started()
    one, two = Streams(broker, "one"), Streams(broker, "two")
    one.join()
    two.join()
    broker.let_pass(INITIAL_DELAY_MS)
    one.heartbeat()
    two.heartbeat()
    assert (one.partitions, two.partitions) == ([0, 2], [1, 3])


def test_without_a_delay_the_first_member_has_every_task_at_once() -> None:
    one = Streams(started(AT_ONCE))
    one.join()
    assert (one.epoch, one.partitions, one.last.status) == (2, [0, 1, 2, 3], [])


def test_a_member_that_joins_within_the_assignment_interval_has_a_status_that_says_so() -> None:
    broker = started(AT_ONCE)
    Streams(broker, "one").join()
    two = Streams(broker, "two")
    two.join()
    assert (two.partitions, two.statuses) == ([], [5])


# --- standby tasks, endpoints, shutdown -----------------------------------------------------------------------------


def test_standby_tasks_are_in_another_process_than_the_active_one() -> None:
    broker = started(AT_ONCE, "group.streams.num.standby.replicas=1")
    one, two = pair(broker, topology=COUNTING)
    assert one.active["1"] == two.standby["1"] and two.active["1"] == one.standby["1"]
    assert one.active["1"] | two.active["1"] == frozenset(range(4))
    assert "0" not in {**one.standby, **two.standby}  # it has no state


def test_members_know_where_queries_for_a_partition_go() -> None:
    broker = started(AT_ONCE)
    one, two = Streams(broker, "one", endpoint=Endpoint("a", 1)), Streams(broker, "two", endpoint=Endpoint("b", 2))
    one.join()
    two.join()
    settle(broker, one, two)
    one.heartbeat()
    two.heartbeat(endpoint_information_epoch=0)
    found = {
        (each.user_endpoint.host, each.user_endpoint.port): each.active_partitions[0].partitions
        for each in two.last.partitions_by_user_endpoint
    }
    assert found == {("a", 1): tuple(one.partitions), ("b", 2): tuple(two.partitions)}
    two.heartbeat()
    assert two.last.partitions_by_user_endpoint is None


def test_a_shutdown_is_requested_of_every_member_until_the_group_is_empty() -> None:
    broker = started(AT_ONCE)
    one, two = pair(broker)
    one.leave(shutdown_application=True)
    two.heartbeat()
    status = two.last.status[-1]
    assert (status.status_code, status.status_detail) == (
        4,
        "Streams group member one encountered a fatal error and requested a shutdown for the entire application.",
    )
    two.leave()
    three = Streams(broker, "three")
    three.join()
    assert 4 not in three.statuses


# --- offsets --------------------------------------------------------------------------------------------------------


def test_offsets_are_committed_with_the_epoch_of_the_member() -> None:
    broker = started(AT_ONCE)
    one = Streams(broker)
    one.join()
    with_epoch = {"version": 9, "generation_id": one.epoch, "member_id": "one"}
    assert commit(broker, 7, **with_epoch) is ErrorCode.NONE
    assert fetch(broker) == (7, ErrorCode.NONE)
    assert commit(broker, 8, **{**with_epoch, "generation_id": 9}) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit(broker, 8, **{**with_epoch, "member_id": "two"}) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(broker, 8, **{**with_epoch, "version": 8}) is ErrorCode.UNSUPPORTED_VERSION
    assert fetch(broker) == (7, ErrorCode.NONE)


def test_an_older_epoch_commits_only_for_tasks_that_the_member_has_had_since() -> None:
    broker = started(AT_ONCE)
    one, two = pair(broker)
    since = {"version": 9, "generation_id": one.epoch - 1, "member_id": "one"}
    assert one.partitions == [0, 1] and one.epoch == 3
    assert commit(broker, 5, 1, **since) is ErrorCode.NONE
    assert commit(broker, 5, 2, **since) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit(broker, 5, 1, **{**since, "generation_id": 1}) is ErrorCode.STALE_MEMBER_EPOCH
    assert two.epoch == 3
    assert commit(broker, 5, 2, **{**since, "member_id": "two"}) is ErrorCode.STALE_MEMBER_EPOCH


def test_tools_reset_offsets_of_a_group_without_members() -> None:
    broker = started(AT_ONCE)
    one = Streams(broker)
    one.join()
    assert commit(broker, 3, version=9) is ErrorCode.UNKNOWN_MEMBER_ID
    one.leave()
    assert one.last.status == []
    assert commit(broker, 3, version=9) is ErrorCode.NONE


# --- with other types of groups -------------------------------------------------------------------------------------


def test_only_a_group_without_members_is_deleted() -> None:
    broker = started(AT_ONCE)
    one = Streams(broker, topology=COUNTING)
    one.join()
    delete = DeleteGroupsRequest(groups_names=[GROUP])
    assert broker.ask(delete, 2).results[0].error_code == ErrorCode.NON_EMPTY_GROUP
    one.leave()
    assert broker.ask(delete, 2).results[0].error_code == ErrorCode.NONE
    assert described(broker).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert broker.ask(ListGroupsRequest(), 5).groups == []


def test_a_streams_member_joins_no_classic_group_with_members() -> None:
    broker = started(AT_ONCE)
    member = Member(broker)
    member.join()
    member.learn()
    one = Streams(broker)
    assert one.join() is ErrorCode.GROUP_ID_NOT_FOUND
    assert one.last.error_message == f"Group {GROUP} is not a streams group."
    member.leave()
    assert one.join() is ErrorCode.NONE
    assert one.partitions == [0, 1, 2, 3]


def test_offsets_of_the_classic_group_that_it_was_are_kept() -> None:
    broker = started(AT_ONCE)
    commit(broker, 11)
    assert Streams(broker).join() is ErrorCode.NONE
    assert fetch(broker) == (11, ErrorCode.NONE)


def test_a_classic_member_joins_a_streams_group_only_once_it_is_empty() -> None:
    broker = started(AT_ONCE)
    one = Streams(broker)
    one.join()
    member = Member(broker)
    assert member.join().message.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    one.leave()
    assert Member(broker).join().message.error_code == ErrorCode.NONE
    assert described(broker).error_code == ErrorCode.GROUP_ID_NOT_FOUND


# --- restarts -------------------------------------------------------------------------------------------------------


def test_members_go_on_after_a_restart_as_if_there_had_been_none() -> None:
    broker = started(AT_ONCE)
    one, two = pair(broker, topology=COUNTING)
    before = described(broker)
    broker = one.broker = two.broker = broker.killed()
    assert described(broker) == before
    assert (one.heartbeat(), two.heartbeat()) == (ErrorCode.NONE, ErrorCode.NONE)
    assert described(broker) == before
    broker.let_pass(STREAMS_SESSION_TIMEOUT_MS)
    assert one.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_that_was_deleted_is_not_there_after_a_restart() -> None:
    broker = started(AT_ONCE)
    one = Streams(broker)
    one.join()
    one.leave()
    broker.ask(DeleteGroupsRequest(groups_names=[GROUP]), 2)
    assert described(broker.killed()).error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_restart_ends_the_delay_before_the_first_assignment() -> None:
    broker = started()
    one = Streams(broker)
    one.join()
    one.broker = broker.killed()
    one.heartbeat()
    assert (one.partitions, one.statuses) == ([0, 1, 2, 3], [])


def test_nobody_waits_for_a_group_that_was_left_within_the_delay() -> None:
    broker = started()
    one = Streams(broker)
    one.join()
    one.leave()
    epoch = described(broker).group_epoch
    broker.let_pass(INITIAL_DELAY_MS)
    group = described(broker)
    assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Empty", epoch, 1)
