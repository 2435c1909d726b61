"""Committed offsets: who may commit, what is fetched, and when."""

import pytest

from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.create_topics_request import CreatableTopic, CreateTopicsRequest
from oncelog.protocol.generated.delete_topics_request import DeleteTopicsRequest
from oncelog.protocol.generated.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tests.clients.group_members import GROUP, TOPIC, Member, commit, fetch, form, started


def test_any_client_may_commit_to_a_group_without_members() -> None:
    broker = started()
    assert commit(broker, 7) == ErrorCode.NONE
    assert fetch(broker) == (7, ErrorCode.NONE)


def test_only_members_may_commit_to_a_group_that_has_some() -> None:
    broker = started()
    member = Member(broker)
    form(member)
    assert commit(broker, 7) == ErrorCode.UNKNOWN_MEMBER_ID
    assert member.commit(8) == ErrorCode.NONE
    assert fetch(broker) == (8, ErrorCode.NONE)


def test_any_client_may_commit_again_once_the_members_have_left() -> None:
    broker = started()
    member = Member(broker)
    form(member)
    member.leave()
    assert commit(broker, 7) == ErrorCode.NONE
    assert member.commit(8) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_partition_without_an_offset_is_minus_one_and_no_error() -> None:
    assert fetch(started()) == (-1, ErrorCode.NONE)


def test_a_generation_of_a_group_that_is_not_there_is_refused() -> None:
    broker = started()
    assert commit(broker, 1, version=8, generation_id=3, member_id="m") == ErrorCode.ILLEGAL_GENERATION
    assert commit(broker, 1, version=9, generation_id=3, member_id="m") == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_that_has_only_offsets_has_no_members() -> None:
    broker = started()
    commit(broker, 1)
    assert commit(broker, 2, generation_id=3, member_id="m") == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_does_not_know_its_part_yet_may_not_commit() -> None:
    broker = started()
    member = Member(broker)
    member.join()
    member.learn()
    assert member.commit(1) == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_member_may_commit_its_old_part_before_it_joins_again() -> None:
    broker = started()
    member = Member(broker)
    form(member)
    Member(broker, "new").join()
    assert member.commit(1) == ErrorCode.NONE


def test_unknown_partitions_are_refused_each_on_its_own() -> None:
    broker = started(partition_count=1)
    assert commit(broker, 1, partition=1) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert commit(broker, 1, partition=-1) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert commit(broker, 1, topic="nowhere") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_metadata_is_kept_up_to_its_limit_in_characters() -> None:
    broker = started("offset.metadata.max.bytes=4")
    assert commit(broker, 1, metadata="äöüß") == ErrorCode.NONE
    assert commit(broker, 2, metadata="12345") == ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert fetch(broker) == (1, ErrorCode.NONE)


@pytest.mark.parametrize(("text", "count"), [("x", 4096), ("ä", 4096), ("\N{GRINNING FACE}", 2048)])
def test_the_limit_of_metadata_counts_as_java_does(text: str, count: int) -> None:
    """Two for what lies beyond U+FFFF: as Kafka answers, asked with the same texts."""
    broker = started()
    assert commit(broker, 1, metadata=text * count) == ErrorCode.NONE
    assert commit(broker, 1, metadata=text * (count + 1)) == ErrorCode.OFFSET_METADATA_TOO_LARGE


def test_null_metadata_is_fetched_as_an_empty_text() -> None:
    broker = started()
    commit(broker, 1, metadata=None)
    answer = broker.ask(OffsetFetchRequest(group_id=GROUP, topics=None), 7)
    assert answer.topics[0].partitions[0].metadata == ""


def test_the_empty_group_id_is_a_group_like_others() -> None:
    broker = started()
    assert commit(broker, 5, group_id="") == ErrorCode.NONE
    assert fetch(broker, group_id="") == (5, ErrorCode.NONE)


def test_all_offsets_of_several_groups_come_in_one_answer() -> None:
    broker = started(topics=("a", "b"))
    commit(broker, 1, topic="a", group_id="one")
    commit(broker, 2, topic="b", group_id="one", partition=3)
    commit(broker, 3, topic="a", group_id="two")
    asked = [
        OffsetFetchRequestGroup(group_id="one", topics=None),
        OffsetFetchRequestGroup(group_id="two", topics=[OffsetFetchRequestTopics(name="a", partition_indexes=[0, 1])]),
        OffsetFetchRequestGroup(group_id="three", topics=None),
    ]
    answer = broker.ask(OffsetFetchRequest(groups=asked), 8)
    found = {
        group.group_id: {
            (topic.name, entry.partition_index): entry.committed_offset
            for topic in group.topics
            for entry in topic.partitions
        }
        for group in answer.groups
    }
    assert found == {"one": {("a", 0): 1, ("b", 3): 2}, "two": {("a", 0): 3, ("a", 1): -1}, "three": {}}
    assert all(group.error_code == ErrorCode.NONE for group in answer.groups)


def test_offsets_of_a_deleted_topic_are_not_those_of_its_successor() -> None:
    broker = started()
    commit(broker, 7)
    broker.ask(DeleteTopicsRequest(topic_names=[TOPIC], timeout_ms=1000), 5)
    assert fetch(broker) == (-1, ErrorCode.NONE)
    again = [CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)]
    broker.ask(CreateTopicsRequest(topics=again, timeout_ms=1000), 5)
    assert fetch(broker) == (-1, ErrorCode.NONE)
    assert not broker.ask(OffsetFetchRequest(group_id=GROUP, topics=None), 7).topics
    commit(broker, 1)
    assert fetch(broker) == (1, ErrorCode.NONE)


def test_an_answered_commit_survives_a_power_cut() -> None:
    broker = started()
    for offset in range(10):
        commit(broker, offset)
    for seed in range(20):
        assert fetch(broker.crashed(seed)) == (9, ErrorCode.NONE)


@pytest.mark.parametrize("version", range(2, 10))
def test_every_version_of_a_commit_is_served(version: int) -> None:
    broker = started()
    assert commit(broker, version, version=version) == ErrorCode.NONE
    assert fetch(broker) == (version, ErrorCode.NONE)
