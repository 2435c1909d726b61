"""Share groups behind rights (KIP-932): what a client may not read or know it neither sees nor changes."""

from typing import Any

import pytest

from oncelog.broker.coordinator.share.values import SharePartitionKey
from oncelog.protocol.acls import CLUSTER_NAME, AclOperation, ResourceType
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.alter_share_group_offsets_request import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from oncelog.protocol.generated.delete_share_group_offsets_request import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from oncelog.protocol.generated.describe_share_group_offsets_request import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from oncelog.protocol.generated.find_coordinator_request import FindCoordinatorRequest
from oncelog.protocol.generated.share_group_describe_request import ShareGroupDescribeRequest
from oncelog.protocol.generated.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from oncelog.protocol.topics import CONSUMER_OFFSETS, ZERO_UUID
from tests.fakes.guarded import Guarded

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
READ, DESCRIBE, DELETE = AclOperation.READ, AclOperation.DESCRIBE, AclOperation.DELETE
NO_TOPIC, NO_GROUP = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED


@pytest.fixture
def guarded() -> Guarded:
    made = Guarded()
    made.create("orders", "secrets")
    made.virtual.broker.topics.ensure_internal(CONSUMER_OFFSETS)
    made.virtual.time.settle()
    return made


def heartbeat(guarded: Guarded, *topics: str, epoch: int = 0, member_id: str = "m") -> Any:
    request = ShareGroupHeartbeatRequest(
        group_id="g", member_id=member_id, member_epoch=epoch, subscribed_topic_names=topics or None
    )
    return guarded.ask(request, 1)


def alter(guarded: Guarded, *topics: str) -> Any:
    asked = [
        AlterShareGroupOffsetsRequestTopic(name, [AlterShareGroupOffsetsRequestPartition(0, 5)]) for name in topics
    ]
    return guarded.ask(AlterShareGroupOffsetsRequest(group_id="g", topics=asked), 0)


def delete(guarded: Guarded, *topics: str) -> Any:
    asked = [DeleteShareGroupOffsetsRequestTopic(name) for name in topics]
    return guarded.ask(DeleteShareGroupOffsetsRequest(group_id="g", topics=asked), 0)


def describe_offsets(guarded: Guarded, *topics: str) -> Any:
    asked = [DescribeShareGroupOffsetsRequestTopic(name, [0]) for name in topics] or None
    group = DescribeShareGroupOffsetsRequestGroup(group_id="g", topics=asked)
    return guarded.ask(DescribeShareGroupOffsetsRequest(groups=[group]), 1).groups[0]


def both_read(guarded: Guarded) -> None:
    """The group has read both topics, and is empty again."""
    rights = [
        guarded.allow(READ, GROUP, "g"),
        guarded.allow(DESCRIBE, TOPIC, "orders"),
        guarded.allow(DESCRIBE, TOPIC, "secrets"),
    ]
    heartbeat(guarded, "orders", "secrets")
    heartbeat(guarded, epoch=-1)
    for right in rights:
        guarded.forbid(right)


def test_a_member_needs_read_on_the_group_and_describe_on_its_topics(guarded: Guarded) -> None:
    assert heartbeat(guarded, "orders").error_code == NO_GROUP
    guarded.allow(READ, GROUP, "g")
    assert heartbeat(guarded, "orders").error_code == NO_TOPIC
    assert heartbeat(guarded, "orders", member_id="").error_code == ErrorCode.INVALID_REQUEST
    guarded.allow(DESCRIBE, TOPIC, "orders")
    assert heartbeat(guarded, "orders", "secrets").error_code == NO_TOPIC
    assert heartbeat(guarded, "orders").error_code == ErrorCode.NONE


def test_a_group_is_not_shown_with_a_topic_that_the_client_may_not_know(guarded: Guarded) -> None:
    rights = [guarded.allow(READ, GROUP, "g"), guarded.allow(DESCRIBE, TOPIC, "secrets")]
    answer = heartbeat(guarded, "secrets")
    guarded.virtual.let_pass(1_000)
    heartbeat(guarded, epoch=answer.member_epoch)
    guarded.forbid(rights[0])
    (group,) = guarded.ask(ShareGroupDescribeRequest(group_ids=["g"]), 1).groups
    assert (group.error_code, group.members) == (NO_GROUP, [])
    guarded.allow(DESCRIBE, GROUP, "g")
    (group,) = guarded.ask(ShareGroupDescribeRequest(group_ids=["g"]), 1).groups
    assert (group.error_code, len(group.members)) == (ErrorCode.NONE, 1)
    guarded.forbid(rights[1])
    (group,) = guarded.ask(ShareGroupDescribeRequest(group_ids=["g"]), 1).groups
    assert (group.error_code, group.error_message, group.members) == (
        NO_TOPIC,
        "The group has described topic(s) that the client is not authorized to describe.",
        [],
    )


def test_offsets_are_shown_of_topics_that_the_client_may_know(guarded: Guarded) -> None:
    both_read(guarded)
    assert describe_offsets(guarded).error_code == NO_GROUP
    guarded.allow(DESCRIBE, GROUP, "g")
    assert describe_offsets(guarded).topics == []
    guarded.allow(DESCRIBE, TOPIC, "orders")
    assert [topic.topic_name for topic in describe_offsets(guarded).topics] == ["orders"]
    known, hidden = describe_offsets(guarded, "secrets", "orders").topics
    assert (known.topic_name, known.partitions[0].error_code) == ("orders", ErrorCode.NONE)
    (row,) = hidden.partitions
    assert (hidden.topic_name, hidden.topic_id) == ("secrets", ZERO_UUID)
    assert (row.error_code, row.error_message, row.start_offset, row.lag) == (NO_TOPIC, NO_TOPIC.text, -1, -1)


def test_offsets_are_altered_of_topics_that_the_client_may_read(guarded: Guarded) -> None:
    answer = alter(guarded, "orders")
    assert (answer.error_code, answer.error_message, answer.responses) == (NO_GROUP, NO_GROUP.text, [])
    guarded.allow(READ, GROUP, "g")
    guarded.allow(READ, TOPIC, "orders")
    hidden, altered = alter(guarded, "orders", "secrets").responses
    assert (hidden.topic_name, hidden.topic_id) == ("secrets", ZERO_UUID)
    assert [(row.error_code, row.error_message) for row in hidden.partitions] == [(NO_TOPIC, NO_TOPIC.text)]
    assert (altered.topic_name, altered.partitions[0].error_code) == ("orders", ErrorCode.NONE)
    guarded.allow(DESCRIBE, GROUP, "g")
    guarded.allow(DESCRIBE, TOPIC, "secrets")
    assert [topic.topic_name for topic in describe_offsets(guarded).topics] == ["orders"]


def test_offsets_are_deleted_of_topics_that_the_client_may_read(guarded: Guarded) -> None:
    both_read(guarded)
    guarded.allow(READ, GROUP, "g")
    guarded.allow(READ, TOPIC, "orders")
    answer = delete(guarded, "orders")
    assert (answer.error_code, answer.error_message, answer.responses) == (NO_GROUP, NO_GROUP.text, [])
    guarded.allow(DELETE, GROUP, "g")
    hidden, deleted = delete(guarded, "orders", "secrets").responses
    assert (hidden.topic_name, hidden.error_code, hidden.error_message) == ("secrets", NO_TOPIC, NO_TOPIC.text)
    assert (deleted.topic_name, deleted.error_code) == ("orders", ErrorCode.NONE)


def test_without_the_feature_it_says_so_whatever_the_rights(guarded: Guarded) -> None:
    guarded.virtual.broker.metadata.set_features({"share.version": 0})
    answers = (
        heartbeat(guarded, "orders"),
        guarded.ask(ShareGroupDescribeRequest(group_ids=["g"]), 1).groups[0],
        describe_offsets(guarded),
        alter(guarded, "orders"),
        delete(guarded, "orders"),
    )
    assert [answer.error_code for answer in answers] == [ErrorCode.UNSUPPORTED_VERSION] * len(answers)


def test_the_coordinator_of_a_share_partition_is_for_brokers(guarded: Guarded) -> None:
    """Kafka's v6 needs ClusterAction on the cluster; before that share-partitions are unknown, whatever the rights."""
    topic = guarded.virtual.broker.topics.get("orders")
    assert topic is not None
    keys = [str(SharePartitionKey("g", topic.topic_id, 0)), "g:x:0"]
    request = FindCoordinatorRequest(key_type=2, coordinator_keys=keys)
    refused = guarded.ask(request, 6).coordinators
    no_cluster = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert [(each.key, each.error_code, each.error_message, each.node_id, each.port) for each in refused] == [
        (key, no_cluster, no_cluster.text, -1, -1) for key in keys
    ]
    assert {each.error_code for each in guarded.ask(request, 5).coordinators} == {ErrorCode.INVALID_REQUEST}
    guarded.allow(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)
    found = guarded.ask(request, 6).coordinators
    assert [each.error_code for each in found] == [ErrorCode.NONE, ErrorCode.INVALID_REQUEST]
