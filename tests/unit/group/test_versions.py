"""Every version that is advertised is served, from the oldest on."""

from uuid import UUID

import pytest

from oncelog.broker.apis.table import API_TABLE
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.find_coordinator_request import FindCoordinatorRequest
from oncelog.protocol.generated.heartbeat_request import HeartbeatRequest
from oncelog.protocol.generated.leave_group_request import LeaveGroupRequest, MemberIdentity
from oncelog.protocol.generated.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from oncelog.protocol.generated.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from oncelog.protocol.generated.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from tests.clients.group_members import GROUP, TOPIC, Member, commit, form, started
from tests.fakes.broker import HOST, PORT, VirtualBroker


def versions(key: ApiKey) -> range:
    return range(API_TABLE[key].minimum, API_TABLE[key].maximum + 1)


def formed() -> Member:
    member = Member(started())
    form(member)
    return member


@pytest.mark.parametrize("version", versions(ApiKey.FIND_COORDINATOR))
@pytest.mark.parametrize("key_type", [0, 1])
def test_find_coordinator(version: int, key_type: int) -> None:
    if version == 0 and key_type == 1:
        pytest.skip("version 0 knows only groups")
    broker = VirtualBroker()
    request = FindCoordinatorRequest(key="id", key_type=key_type, coordinator_keys=["id", "", "other"])
    answer = broker.ask(request, version)
    found = answer.coordinators if version >= 4 else [answer]
    assert [(one.error_code, one.node_id, one.host, one.port) for one in found] == [
        (ErrorCode.NONE, broker.broker.leadership.node_id, HOST, PORT)
    ] * len(found)
    assert len(found) == (3 if version >= 4 else 1)


@pytest.mark.parametrize("version", versions(ApiKey.FIND_COORDINATOR)[1:])
def test_find_coordinator_of_an_unknown_type(version: int) -> None:
    answer = VirtualBroker().ask(FindCoordinatorRequest(key="id", key_type=7, coordinator_keys=["id"]), version)
    found = answer.coordinators[0] if version >= 4 else answer
    assert (found.error_code, found.node_id) == (ErrorCode.INVALID_REQUEST, -1)


@pytest.mark.parametrize("version", versions(ApiKey.JOIN_GROUP))
def test_join_group(version: int) -> None:
    member = Member(started(), join_version=version)
    member.join()
    answer = member.learn()
    assert (answer.error_code, answer.generation_id, answer.protocol_name) == (ErrorCode.NONE, 1, "range")
    assert answer.protocol_type == ("consumer" if version >= 7 else None)
    refused = Member(member.broker, member_id="stranger", join_version=version).send_join().message
    assert refused.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert refused.protocol_name == (None if version >= 7 else "")


@pytest.mark.parametrize("version", versions(ApiKey.SYNC_GROUP))
def test_sync_group(version: int) -> None:
    member = Member(started())
    member.join()
    member.learn()
    request = SyncGroupRequest(
        group_id=GROUP,
        generation_id=member.generation_id,
        member_id=member.member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[SyncGroupRequestAssignment(member_id=member.member_id, assignment=b"part")],
    )
    answer = member.broker.ask(request, version)
    assert (answer.error_code, answer.assignment) == (ErrorCode.NONE, b"part")
    assert answer.protocol_name == ("range" if version >= 5 else None)


@pytest.mark.parametrize("names", [(None, "range"), ("consumer", None), ("connect", "range"), ("consumer", "sticky")])
def test_sync_group_with_other_protocols_than_the_groups(names: tuple[str | None, str | None]) -> None:
    member = formed()
    request = SyncGroupRequest(
        group_id=GROUP,
        generation_id=member.generation_id,
        member_id=member.member_id,
        protocol_type=names[0],
        protocol_name=names[1],
    )
    assert member.broker.ask(request, 5).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize("version", versions(ApiKey.HEARTBEAT))
def test_heartbeat(version: int) -> None:
    member = formed()
    request = HeartbeatRequest(group_id=GROUP, generation_id=member.generation_id, member_id=member.member_id)
    assert member.broker.ask(request, version).error_code == ErrorCode.NONE
    assert member.broker.ask(HeartbeatRequest(group_id=""), version).error_code == ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize("version", versions(ApiKey.LEAVE_GROUP))
def test_leave_group(version: int) -> None:
    member = formed()
    request = LeaveGroupRequest(
        group_id=GROUP, member_id=member.member_id, members=[MemberIdentity(member_id=member.member_id)]
    )
    for expected in (ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID):
        answer = member.broker.ask(request, version)
        assert (answer.members[0] if version >= 3 else answer).error_code == expected
        assert version < 3 or answer.error_code == ErrorCode.NONE
    assert member.broker.ask(LeaveGroupRequest(group_id=""), version).error_code == ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize("version", versions(ApiKey.OFFSET_FETCH))
def test_offset_fetch(version: int) -> None:
    broker = started()
    topic_id = broker.broker.topics.get(TOPIC).topic_id  # type: ignore[union-attr]
    commit(broker, 7, 1, metadata="note")
    request = OffsetFetchRequest(
        group_id=GROUP,
        topics=[OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[1])],
        groups=[
            OffsetFetchRequestGroup(
                group_id=GROUP,
                topics=[OffsetFetchRequestTopics(name=TOPIC, topic_id=topic_id, partition_indexes=[1])],
            )
        ],
    )
    answer = broker.ask(request, version)
    entry = (answer.groups[0] if version >= 8 else answer).topics[0].partitions[0]
    assert (entry.partition_index, entry.committed_offset, entry.metadata) == (1, 7, "note")
    assert entry.error_code == ErrorCode.NONE


def test_topics_by_their_ids() -> None:
    broker = started()
    topic_id, unknown_id = broker.broker.topics.get(TOPIC).topic_id, UUID(int=1)  # type: ignore[union-attr]
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=7)
    committed = broker.ask(
        OffsetCommitRequest(
            group_id=GROUP,
            topics=[
                OffsetCommitRequestTopic(topic_id=unknown_id, partitions=[partition]),
                OffsetCommitRequestTopic(topic_id=topic_id, partitions=[partition]),
            ],
        ),
        10,
    )
    assert [(topic.topic_id, topic.partitions[0].error_code) for topic in committed.topics] == [
        (unknown_id, ErrorCode.UNKNOWN_TOPIC_ID),
        (topic_id, ErrorCode.NONE),
    ]
    wanted = [OffsetFetchRequestTopics(topic_id=each, partition_indexes=[0]) for each in (unknown_id, topic_id)]
    for topics in (wanted, None):
        groups = [OffsetFetchRequestGroup(group_id=GROUP, topics=topics)]
        answer = broker.ask(OffsetFetchRequest(groups=groups), 10).groups[0]
        found = {topic.topic_id: topic.partitions[0] for topic in answer.topics}
        assert found[topic_id].committed_offset == 7
        assert (unknown_id in found) == (topics is not None)
    assert found.keys() == {topic_id}


@pytest.mark.parametrize("version", versions(ApiKey.OFFSET_FETCH))
def test_offset_fetch_without_a_coordinator(version: int) -> None:
    topics = [OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[1])]
    groups = [OffsetFetchRequestGroup(group_id=GROUP, topics=None)]
    answer = VirtualBroker().ask(OffsetFetchRequest(group_id=GROUP, topics=topics, groups=groups), version)
    if version >= 8:
        error_code = answer.groups[0].error_code
    else:
        error_code = answer.error_code if version >= 2 else answer.topics[0].partitions[0].error_code
    assert error_code == ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("version", versions(ApiKey.JOIN_GROUP))
def test_join_group_without_a_coordinator(version: int) -> None:
    answer = Member(VirtualBroker(), join_version=version).send_join().message
    assert answer.error_code == ErrorCode.NOT_COORDINATOR
