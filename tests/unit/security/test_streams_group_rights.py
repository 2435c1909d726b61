"""Streams groups behind rights (KIP-1071): an application may read its topics, and the broker makes others for it."""

from typing import Any

import pytest

from oncelog.protocol.acls import CLUSTER_NAME, AclOperation, ResourceType
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.streams_group_describe_request import StreamsGroupDescribeRequest
from oncelog.protocol.generated.streams_group_heartbeat_request import (
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TopicInfo,
    Topology,
)
from oncelog.protocol.topics import CONSUMER_OFFSETS
from tests.fakes.guarded import Guarded

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
READ, DESCRIBE, CREATE = AclOperation.READ, AclOperation.DESCRIBE, AclOperation.CREATE
NO_TOPIC, NO_GROUP = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED
CHANGELOG = "app-changelog"
STATEFUL = Topology(0, [Subtopology("0", ["orders"], state_changelog_topics=[TopicInfo(CHANGELOG)])])


@pytest.fixture
def guarded() -> Guarded:
    made = Guarded()
    made.create("orders")
    made.virtual.broker.topics.ensure_internal(CONSUMER_OFFSETS)
    made.virtual.time.settle()
    return made


def join(guarded: Guarded) -> Any:
    nothing: dict[str, Any] = dict.fromkeys(("active_tasks", "standby_tasks", "warmup_tasks", "client_tags"), ())
    return guarded.ask(
        StreamsGroupHeartbeatRequest(
            group_id="g", member_id="m", rebalance_timeout_ms=1_000, topology=STATEFUL, process_id="p", **nothing
        ),
        0,
    )


def described(guarded: Guarded) -> Any:
    return guarded.ask(StreamsGroupDescribeRequest(group_ids=["g"]), 0).groups[0]


def test_a_member_needs_read_on_the_group_and_describe_on_every_topic(guarded: Guarded) -> None:
    assert join(guarded).error_code == NO_GROUP
    guarded.allow(READ, GROUP, "g")
    guarded.allow(DESCRIBE, TOPIC, "orders")
    assert join(guarded).error_code == NO_TOPIC
    guarded.allow(DESCRIBE, TOPIC, CHANGELOG)
    assert join(guarded).error_code == ErrorCode.NONE


@pytest.mark.parametrize(("kind", "name"), [(TOPIC, CHANGELOG), (CLUSTER, CLUSTER_NAME)])
def test_internal_topics_are_made_only_for_who_may_create_them(guarded: Guarded, kind: ResourceType, name: str) -> None:
    for operation, resource, named in ((READ, GROUP, "g"), (DESCRIBE, TOPIC, "orders"), (DESCRIBE, TOPIC, CHANGELOG)):
        guarded.allow(operation, resource, named)
    missing = f"Internal topics are missing: {CHANGELOG}"
    topics = guarded.virtual.broker.topics
    details = [status.status_detail for status in join(guarded).status if status.status_code == 3]
    assert details == [f"{missing}; Unauthorized to CREATE on topics {CHANGELOG}."]
    assert topics.get(CHANGELOG) is None
    guarded.allow(CREATE, kind, name)
    assert [status.status_detail for status in join(guarded).status if status.status_code == 3] == [missing]
    assert topics.get(CHANGELOG) is not None


def test_a_group_is_shown_only_to_who_may_describe_all_of_its_topics(guarded: Guarded) -> None:
    rights = [guarded.allow(READ, GROUP, "g"), guarded.allow(DESCRIBE, TOPIC, "orders")]
    last = guarded.allow(DESCRIBE, TOPIC, CHANGELOG)
    join(guarded)
    assert (described(guarded).error_code, described(guarded).group_state) == (ErrorCode.NONE, "NotReady")
    guarded.forbid(last)
    hidden = described(guarded)
    assert (hidden.error_code, hidden.topology, hidden.members) == (NO_TOPIC, None, [])
    guarded.forbid(rights[0])
    assert described(guarded).error_code == NO_GROUP
