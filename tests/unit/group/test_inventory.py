"""What tools see of groups, and how groups end."""

from typing import Any

import pytest

from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.delete_groups_request import DeleteGroupsRequest
from oncelog.protocol.generated.describe_groups_request import DescribeGroupsRequest
from oncelog.protocol.generated.list_groups_request import ListGroupsRequest
from oncelog.protocol.generated.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tests.clients.group_members import GROUP, SESSION_TIMEOUT_MS, Member, commit, fetch, form, started, state_of
from tests.clients.offset_producer import Producer
from tests.fakes.broker import VirtualBroker

# A subscription of version 1 as consumers send it: topics, no user data, no owned partitions.
SUBSCRIBED_TO_READ = b"\x00\x01" + b"\x00\x00\x00\x01" + b"\x00\x04read" + b"\xff\xff\xff\xff" + b"\x00\x00\x00\x00"
RETENTION_MS = 60_000
QUICK = ("offsets.retention.minutes=1", "offsets.retention.check.interval.ms=1")


def listed(broker: VirtualBroker, **filters: Any) -> dict[str, str]:
    answer = broker.ask(ListGroupsRequest(**filters), 5)
    return {group.group_id: group.group_state for group in answer.groups}


def delete(broker: VirtualBroker, group_id: str = GROUP) -> ErrorCode:
    answer = broker.ask(DeleteGroupsRequest(groups_names=[group_id]), 2)
    return ErrorCode(answer.results[0].error_code)


def delete_offset(broker: VirtualBroker, topic: str, partition: int = 0, group_id: str = GROUP) -> ErrorCode:
    partitions = [OffsetDeleteRequestPartition(partition_index=partition)]
    topics = [OffsetDeleteRequestTopic(name=topic, partitions=partitions)]
    answer = broker.ask(OffsetDeleteRequest(group_id=group_id, topics=topics), 0)
    return ErrorCode(answer.error_code or answer.topics[0].partitions[0].error_code)


class TestLists:
    def test_every_group_is_listed_also_one_that_has_only_offsets(self) -> None:
        broker = started()
        form(Member(broker, group_id="members"))
        commit(broker, 1, group_id="offsets")
        Producer(broker).init().commit_offset(1, group_id="pending")
        assert listed(broker) == {"members": "Stable", "offsets": "Empty", "pending": "Empty"}
        assert listed(broker.killed()) == listed(broker)

    def test_filters_ignore_case(self) -> None:
        broker = started()
        form(Member(broker, group_id="members"))
        commit(broker, 1, group_id="offsets")
        assert listed(broker, states_filter=["sTABLE"]) == {"members": "Stable"}
        assert len(listed(broker, types_filter=["Classic"])) == 2
        assert listed(broker, types_filter=["consumer"]) == {}

    def test_a_broker_that_never_saw_a_group_lists_none(self) -> None:
        assert listed(VirtualBroker()) == {}

    @pytest.mark.parametrize("version", range(6))
    def test_every_version_is_served(self, version: int) -> None:
        broker = started()
        form(Member(broker))
        group = broker.ask(ListGroupsRequest(), version).groups[0]
        assert (group.group_id, group.protocol_type) == (GROUP, "consumer")


class TestDescriptions:
    @pytest.mark.parametrize("version", range(7))
    def test_every_version_is_served(self, version: int) -> None:
        broker = started()
        form(Member(broker))
        group = broker.ask(DescribeGroupsRequest(groups=[GROUP]), version).groups[0]
        assert (group.error_code, group.group_state, len(group.members)) == (ErrorCode.NONE, "Stable", 1)

    def test_a_group_that_is_not_there_is_dead_and_from_version_6_on_not_found(self) -> None:
        broker = started()
        request = DescribeGroupsRequest(groups=["nobody"])
        old, new = broker.ask(request, 5).groups[0], broker.ask(request, 6).groups[0]
        assert (old.group_state, old.error_code) == ("Dead", ErrorCode.NONE)
        assert (new.group_state, new.error_code) == ("Dead", ErrorCode.GROUP_ID_NOT_FOUND)

    def test_without_a_coordinator_that_is_the_error(self) -> None:
        group = VirtualBroker().ask(DescribeGroupsRequest(groups=[GROUP]), 5).groups[0]
        assert group.error_code == ErrorCode.NOT_COORDINATOR


class TestDeletion:
    def test_a_group_goes_with_all_its_offsets_for_good(self) -> None:
        broker = started()
        form(Member(broker))
        for partition in range(3):
            commit(broker, 1, partition, group_id="other")
        broker.time.advance(SESSION_TIMEOUT_MS)
        commit(broker, 7)
        assert delete(broker) == ErrorCode.NONE
        assert (state_of(broker), fetch(broker)[0]) == ("Dead", -1)
        assert listed(broker.killed()) == {"other": "Empty"}

    def test_offsets_of_an_open_transaction_go_too_whatever_becomes_of_it(self) -> None:
        broker = started()
        producer = Producer(broker).init()
        producer.commit_offset(5)
        assert delete(broker) == ErrorCode.NONE
        assert fetch(broker, require_stable=True) == (-1, ErrorCode.NONE)
        producer.end(committed=True)
        assert fetch(broker) == (-1, ErrorCode.NONE)
        assert fetch(broker.killed()) == (-1, ErrorCode.NONE)

    def test_a_group_with_members_stays(self) -> None:
        broker = started()
        member = Member(broker)
        form(member)
        commit(broker, 1)
        assert delete(broker) == ErrorCode.NON_EMPTY_GROUP
        Member(broker, "new").join()  # rebalancing
        assert delete(broker) == ErrorCode.NON_EMPTY_GROUP
        assert member.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS

    def test_a_group_that_is_forming_for_the_first_time_stays(self) -> None:
        broker = started("group.initial.rebalance.delay.ms=3000")
        member = Member(broker)
        member.join()
        assert delete(broker) == ErrorCode.NON_EMPTY_GROUP
        broker.time.advance(3_000)
        assert member.learn().generation_id == 1

    def test_a_group_that_is_not_there_is_not_found(self) -> None:
        assert delete(started()) == ErrorCode.GROUP_ID_NOT_FOUND

    def test_an_id_that_was_given_out_is_worth_nothing_in_a_group_that_was_deleted(self) -> None:
        broker = started()
        member = Member(broker)
        member.member_id = member.send_join().message.member_id
        assert delete(broker) == ErrorCode.NONE
        assert member.send_join().message.error_code == ErrorCode.UNKNOWN_MEMBER_ID
        broker.time.advance(SESSION_TIMEOUT_MS)

    def test_nothing_waits_for_a_group_that_was_deleted(self) -> None:
        broker = started()
        timer_count = broker.time.timer_count
        Member(broker).send_join()
        delete(broker)
        assert broker.time.timer_count == timer_count


class TestOffsetDeletion:
    def test_an_offset_goes_for_good(self) -> None:
        broker = started()
        commit(broker, 1, 0)
        commit(broker, 2, 1)
        assert delete_offset(broker, "topic", 0) == ErrorCode.NONE
        for each in (broker, broker.killed()):
            assert (fetch(each, 0)[0], fetch(each, 1)[0]) == (-1, 2)

    def test_topics_that_members_read_keep_their_offsets(self) -> None:
        broker = started(topics=("read", "unread"))
        member = Member(broker, protocols=(("range", SUBSCRIBED_TO_READ),))
        form(member)
        assert delete_offset(broker, "read") == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        assert delete_offset(broker, "unread") == ErrorCode.NONE

    def test_a_subscription_of_a_later_version_is_understood_as_far_as_it_is_known(self) -> None:
        broker = started(topics=("read", "unread"))
        later = b"\x00\x09" + SUBSCRIBED_TO_READ[2:] + b"\xff\xff\xff\xff" + b"\xff\xff" + b"and more"
        form(Member(broker, protocols=(("range", later),)))
        assert delete_offset(broker, "read") == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        assert delete_offset(broker, "unread") == ErrorCode.NONE

    @pytest.mark.parametrize(
        ("protocol_type", "answer"),
        [("consumer", ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC), ("connect", ErrorCode.NON_EMPTY_GROUP)],
    )
    def test_members_with_an_unknown_subscription_keep_all_offsets(self, protocol_type: str, answer: ErrorCode) -> None:
        broker = started()
        form(Member(broker, protocol_type=protocol_type))
        assert delete_offset(broker, "topic") == answer

    @pytest.mark.parametrize("topic", ["topic", "nowhere"])
    def test_no_group_has_an_empty_id(self, topic: str) -> None:
        assert delete_offset(started(), topic, group_id="") == ErrorCode.INVALID_GROUP_ID

    def test_unknown_groups_and_unknown_partitions_have_different_errors(self) -> None:
        broker = started()
        assert delete_offset(broker, "topic") == ErrorCode.GROUP_ID_NOT_FOUND
        commit(broker, 1)
        assert delete_offset(broker, "nowhere") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class TestExpiry:
    def expire(self, broker: VirtualBroker) -> None:
        for _ in range(2):  # the first turn after a start only sets the time of the next
            broker.broker.groups.step()
            broker.time.advance(1)

    def test_offsets_expire_once_their_group_was_unused_for_the_retention(self) -> None:
        broker = started(*QUICK)
        member = Member(broker)
        form(member)
        member.commit(1)
        broker.time.advance(SESSION_TIMEOUT_MS)  # the member is out
        broker.time.advance(RETENTION_MS - 10)
        self.expire(broker)
        assert fetch(broker)[0] == 1
        broker.time.advance(RETENTION_MS)
        self.expire(broker)
        assert fetch(broker)[0] == -1
        assert listed(broker) == listed(broker.killed()) == {}

    def test_a_group_with_members_keeps_its_offsets(self) -> None:
        broker = started(*QUICK)
        member = Member(broker, session_timeout_ms=RETENTION_MS * 5)
        form(member)
        member.commit(1)
        broker.time.advance(RETENTION_MS * 4)
        self.expire(broker)
        assert fetch(broker)[0] == 1

    def test_in_a_group_that_never_had_members_each_commit_counts(self) -> None:
        broker = started(*QUICK)
        commit(broker, 1, 0)
        broker.time.advance(RETENTION_MS // 2)
        commit(broker, 2, 1)
        broker.time.advance(RETENTION_MS // 2)
        self.expire(broker)
        assert (fetch(broker, 0)[0], fetch(broker, 1)[0]) == (-1, 2)

    @pytest.mark.parametrize("is_restarted", [False, True])
    def test_a_commit_does_not_prolong_the_time_of_a_group_that_its_members_have_left(self, is_restarted: bool) -> None:
        broker = started(*QUICK)
        member = Member(broker)
        form(member)
        member.leave()
        broker.time.advance(RETENTION_MS - 10)
        commit(broker, 1)
        broker = broker.killed() if is_restarted else broker
        self.expire(broker)
        assert fetch(broker)[0] == 1
        broker.time.advance(10)
        self.expire(broker)
        assert fetch(broker)[0] == -1

    @pytest.mark.parametrize("is_restarted", [False, True])
    def test_a_group_without_members_and_offsets_is_gone_at_the_next_look(self, is_restarted: bool) -> None:
        broker = started(*QUICK)
        member = Member(broker)
        form(member)
        member.leave()
        broker = broker.killed() if is_restarted else broker
        assert listed(broker) == {GROUP: "Empty"}
        self.expire(broker)
        assert listed(broker) == listed(broker.killed()) == {}

    def test_old_offsets_are_looked_for_every_interval_and_first_one_after_the_start(self) -> None:
        broker = started("offsets.retention.minutes=1", "offsets.retention.check.interval.ms=300000")
        commit(broker, 1)
        left = []
        for _ in range(11):
            broker.broker.groups.step()
            left.append(fetch(broker)[0])
            broker.time.advance(RETENTION_MS)
        assert left == [1] * 5 + [-1] * 6

    def test_an_offset_with_a_retention_of_its_own_goes_by_that_also_after_a_restart(self) -> None:
        broker = started(*QUICK)
        commit(broker, 1, 0, version=4, retention_time_ms=RETENTION_MS * 10)
        commit(broker, 2, 1, version=4, retention_time_ms=1)
        broker = broker.killed()
        broker.time.advance(RETENTION_MS * 2)
        self.expire(broker)
        assert (fetch(broker, 0)[0], fetch(broker, 1)[0]) == (1, -1)

    def test_a_generation_stays_as_long_as_one_of_its_offsets(self) -> None:
        broker = started(*QUICK)
        member = Member(broker)
        form(member)
        member.leave()
        commit(broker, 1, version=4, retention_time_ms=RETENTION_MS * 10)
        broker.time.advance(RETENTION_MS * 2)
        self.expire(broker)
        broker = broker.killed()
        assert broker.ask(ListGroupsRequest(), 5).groups[0].protocol_type == "consumer"
        broker.time.advance(RETENTION_MS * 10)
        self.expire(broker)
        assert listed(broker) == {}

    def test_an_offset_of_an_open_transaction_never_goes(self) -> None:
        broker = started(*QUICK, "transaction.max.timeout.ms=900000")
        commit(broker, 1)
        producer = Producer(broker).init()
        broker.time.advance(RETENTION_MS * 2 - 1)
        producer.commit_offset(5)
        self.expire(broker)
        assert fetch(broker)[0] == 1

    def test_a_group_whose_ids_were_never_used_leaves_nothing_behind(self) -> None:
        broker = started(*QUICK)
        Member(broker).send_join()
        broker.time.advance(SESSION_TIMEOUT_MS)
        self.expire(broker)
        assert listed(broker) == {}
        assert broker.time.timer_count == started().time.timer_count
