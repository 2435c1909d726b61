"""Requests of a client without rights reach no handler; what is forbidden does not show."""

import re
from typing import Any
from uuid import UUID

import pytest

from oncelog.broker.apis.table import API_TABLE
from oncelog.broker.handlers.rights.guard import guard
from oncelog.broker.requests.context import Peer
from oncelog.broker.security.access_rules import entry_record
from oncelog.broker.security.principal import Principal
from oncelog.broker.turns.ports import WallMs
from oncelog.protocol.acls import Acl, AclOperation, PatternType, Permission, ResourceType
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from oncelog.protocol.generated.describe_topic_partitions_request import Cursor, DescribeTopicPartitionsRequest
from oncelog.protocol.generated.fetch_request import FetchPartition, FetchRequest, FetchTopic
from oncelog.protocol.generated.find_coordinator_request import FindCoordinatorRequest
from oncelog.protocol.generated.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from oncelog.protocol.generated.metadata_request import MetadataRequest, MetadataRequestTopic
from oncelog.protocol.generated.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from oncelog.protocol.records.batch import encode_batch
from oncelog.protocol.records.record import Record
from tests.fakes.broker import VirtualBroker
from tests.fakes.guarded import HOST, Guarded
from tests.support.requests.adversary import Stored, attacks
from tests.support.requests.costs import CALLS_IN_20_MS, cost_of
from tests.support.requests.listed_versions import EVERY_VERSION


def test_an_api_without_rights_says_why() -> None:
    assert [api.name for api in API_TABLE.values() if bool(api.rights.all) == bool(api.rights.free)] == []


@pytest.fixture
def guarded() -> Guarded:
    made = Guarded("group.consumer.regex.refresh.interval.ms=60000")
    made.create("orders", "secrets")
    return made


TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
READ, DESCRIBE, WRITE = AclOperation.READ, AclOperation.DESCRIBE, AclOperation.WRITE


def _fetch(name: str, epoch: int, session_id: int = 0, *, wait_ms: int = 0) -> FetchRequest:
    partition = FetchPartition(partition=0, partition_max_bytes=10_000)
    topics = [FetchTopic(topic=name, partitions=[partition])] if name else []
    return FetchRequest(
        max_wait_ms=wait_ms, min_bytes=1, max_bytes=10_000, session_id=session_id, session_epoch=epoch, topics=topics
    )


def _append(guarded: Guarded, name: str) -> None:
    log = guarded.virtual.broker.topics.partition(name, 0)
    log.append(memoryview(encode_batch([Record(0, 0, None, b"value")])), wall_ms=WallMs(0))
    guarded.virtual.time.settle()


def _errors(response: Any) -> list[str]:
    return [ErrorCode(row.error_code).name for topic in response.responses for row in topic.partitions]


def test_a_session_reads_nothing_more_once_the_right_is_taken(guarded: Guarded) -> None:
    right = guarded.allow(READ, TOPIC, "orders")
    _append(guarded, "orders")
    opened = guarded.ask(_fetch("orders", 0), 12)
    assert _errors(opened) == ["NONE"]
    guarded.forbid(right)
    _append(guarded, "orders")
    refused = guarded.ask(_fetch("", 1, opened.session_id), 12)
    assert _errors(refused) == ["TOPIC_AUTHORIZATION_FAILED"]
    assert not refused.responses[0].partitions[0].records
    guarded.allow(READ, TOPIC, "orders")
    assert _errors(guarded.ask(_fetch("", 2, opened.session_id), 12)) == ["NONE"]


def test_a_session_that_has_nothing_new_is_refused_too_once_the_right_is_taken(guarded: Guarded) -> None:
    right = guarded.allow(READ, TOPIC, "orders")
    opened = guarded.ask(_fetch("orders", 0), 12)
    assert _errors(guarded.ask(_fetch("", 1, opened.session_id), 12)) == []
    guarded.forbid(right)
    assert _errors(guarded.ask(_fetch("", 2, opened.session_id), 12)) == ["TOPIC_AUTHORIZATION_FAILED"]
    guarded.allow(READ, TOPIC, "orders")
    assert _errors(guarded.ask(_fetch("", 3, opened.session_id), 12)) == ["NONE"]
    assert _errors(guarded.ask(_fetch("", 4, opened.session_id), 12)) == []


def test_the_authorizer_by_its_name_before_kafka_4_refuses_as_well() -> None:
    guarded = Guarded("authorizer.class.name=kafka.security.authorizer.AclAuthorizer")
    guarded.create("orders")
    assert _errors(guarded.ask(_fetch("orders", 0), 12)) == ["TOPIC_AUTHORIZATION_FAILED"]


def test_a_fetch_that_waits_does_not_see_what_comes_after_its_right_was_taken(guarded: Guarded) -> None:
    right = guarded.allow(READ, TOPIC, "orders")
    reply = guarded.virtual.send(_fetch("orders", -1, wait_ms=1_000), 12, host=HOST)
    assert not reply.is_there
    guarded.forbid(right)
    _append(guarded, "orders")
    guarded.virtual.let_pass(1_000)
    assert _errors(reply.message) == ["TOPIC_AUTHORIZATION_FAILED"]


def test_a_forbidden_partition_does_not_end_the_wait_for_others(guarded: Guarded) -> None:
    guarded.allow(READ, TOPIC, "orders")
    request = _fetch("orders", -1, wait_ms=1_000)
    both = FetchRequest(
        max_wait_ms=1_000,
        min_bytes=1,
        max_bytes=10_000,
        topics=[*request.topics, *_fetch("secrets", -1).topics],
    )
    reply = guarded.virtual.send(both, 12, host=HOST)
    assert not reply.is_there
    guarded.virtual.let_pass(1_000)
    assert _errors(reply.message) == ["NONE", "TOPIC_AUTHORIZATION_FAILED"]


def test_what_exists_cannot_be_distinguished_from_what_does_not(guarded: Guarded) -> None:
    """Both answers are the same but for the name; offsets, epochs and leaders would show."""
    shown = [str(guarded.ask(_fetch(name, -1), 12)).replace(name, "NAME") for name in ("secrets", "absents")]
    for request in (
        lambda name: ListOffsetsRequest(
            topics=[ListOffsetsTopic(name=name, partitions=[ListOffsetsPartition(timestamp=-1)])]
        ),
        lambda name: MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=True),
    ):
        one, other = (str(guarded.ask(request(name), 9)).replace(name, "NAME") for name in ("secrets", "absents"))
        assert one == other
    assert re.sub("0x[0-9a-f]+", "", shown[0]) == re.sub("0x[0-9a-f]+", "", shown[1])


def test_acks_0_without_the_right_closes_the_connection_and_writes_nothing(guarded: Guarded) -> None:
    data = PartitionProduceData(index=0, records=memoryview(encode_batch([Record(0, 0, None, b"v")])))
    request = ProduceRequest(acks=0, topic_data=[TopicProduceData(name="orders", partition_data=[data])])
    assert guarded.virtual.send(request, 9, host=HOST).is_closed
    assert guarded.virtual.broker.topics.partition("orders", 0).log_end_offset == 0


def test_pages_are_made_of_what_may_be_seen(guarded: Guarded) -> None:
    """Neither a page without topics nor a cursor that names a hidden one."""
    guarded.create("hidden", "visible", "zebra")
    for name in ("orders", "visible"):
        guarded.allow(DESCRIBE, TOPIC, name)
    pages, cursor = [], None
    while True:
        page = guarded.ask(DescribeTopicPartitionsRequest(response_partition_limit=1, cursor=cursor), 0)
        pages.append([topic.name for topic in page.topics])
        if page.next_cursor is None:
            break
        cursor = Cursor(topic_name=page.next_cursor.topic_name, partition_index=page.next_cursor.partition_index)
    assert pages == [["orders"], ["visible"]]


def test_an_expression_finds_only_topics_that_the_member_may_describe(guarded: Guarded) -> None:
    guarded.allow(READ, GROUP, "readers")
    guarded.allow(DESCRIBE, TOPIC, "orders")
    request = ConsumerGroupHeartbeatRequest(
        group_id="readers",
        member_id="m",
        rebalance_timeout_ms=1_000,
        subscribed_topic_regex=".*",
        topic_partitions=(),
    )
    guarded.ask(FindCoordinatorRequest(coordinator_keys=["readers"]), 4)
    joined = guarded.ask(request, 1)
    assigned = [row.topic_id for row in joined.assignment.topic_partitions]
    assert assigned == [guarded.virtual.broker.topics.get("orders").topic_id]


def test_an_expression_follows_the_rights_once_its_interval_is_over(guarded: Guarded) -> None:
    """`group.consumer.regex.refresh.interval.ms`: no topic has changed meanwhile."""
    guarded.allow(READ, GROUP, "readers")
    guarded.allow(DESCRIBE, TOPIC, "orders")
    guarded.ask(FindCoordinatorRequest(coordinator_keys=["readers"]), 4)

    def read(epoch: int) -> Any:
        return guarded.ask(
            ConsumerGroupHeartbeatRequest(
                group_id="readers",
                member_id="m",
                member_epoch=epoch,
                rebalance_timeout_ms=1_000,
                subscribed_topic_regex=".*" if epoch == 0 else None,
                topic_partitions=() if epoch == 0 else None,
            ),
            1,
        )

    epoch = read(0).member_epoch
    guarded.allow(DESCRIBE, TOPIC, "secrets")
    counts = []
    for _ in range(5):
        guarded.virtual.let_pass(20_000)
        guarded.virtual.broker.groups.step()
        answer = read(epoch)
        epoch = answer.member_epoch
        counts.append(None if answer.assignment is None else len(answer.assignment.topic_partitions))
    assert counts == [None, None, 2, None, None]


def test_a_principal_has_the_rights_of_its_name(guarded: Guarded) -> None:
    acl = Acl(TOPIC, "orders", PatternType.LITERAL, "User:alice", "*", DESCRIBE, Permission.ALLOW)
    guarded.virtual.broker.metadata.write([entry_record(UUID(int=999), acl)])
    guarded.virtual.time.settle()
    frame = VirtualBroker.frame(MetadataRequest(topics=None), 9)
    seen = {}
    for name in ("alice", "bob", "admin"):
        peer = Peer(HOST, 1, "PLAINTEXT", (HOST, 1))
        peer.principal = Principal("User", name)
        exchange = guarded.virtual.dispatcher.dispatch(frame, peer)
        seen[name] = [topic for topic in (b"orders", b"secrets") if topic in b"".join(exchange.parts or ())]
    assert seen == {"alice": [b"orders"], "bob": [], "admin": [b"orders", b"secrets"]}


def test_a_right_counts_from_the_turn_on_in_which_it_is_written(guarded: Guarded) -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name="orders")])
    errors = [guarded.ask(request, 9).topics[0].error_code]
    right = guarded.allow(DESCRIBE, TOPIC, "orders")
    errors.append(guarded.ask(request, 9).topics[0].error_code)
    guarded.allow(DESCRIBE, TOPIC, "*", deny=True)
    errors.append(guarded.ask(request, 9).topics[0].error_code)
    guarded.forbid(right)
    forbidden = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert errors == [forbidden, ErrorCode.NONE, forbidden]


def test_without_an_authorizer_handlers_are_not_wrapped() -> None:
    plain, guarded = VirtualBroker(), Guarded().virtual
    for broker in (plain, guarded):
        broker.send(MetadataRequest(topics=()), 9)
    modules = [broker.dispatcher._loaded[ApiKey.METADATA].handle.__module__ for broker in (plain, guarded)]
    assert [module.startswith("oncelog.broker.handlers.rights") for module in modules] == [False, True]


def test_an_api_without_rights_is_not_wrapped() -> None:
    def handle(*_: Any) -> None: ...

    assert guard(ApiKey.API_VERSIONS, handle) is handle


def test_no_request_of_any_form_fails_behind_its_rights(guarded: Guarded) -> None:
    """Empty, twice the same, null where that is allowed, unknown: each is answered or closes its connection."""
    stored = Stored(["orders"], [UUID(int=1)], ["group"], ["id"])
    for api, version in EVERY_VERSION:
        for attack in attacks(api, version):
            guarded.virtual.send(attack.message(stored, 1), version, host=HOST)
    assert guarded.virtual.warnings == []


def test_the_operations_on_many_topics_keep_no_other_client_waiting(guarded: Guarded) -> None:
    guarded.allow(DESCRIBE, TOPIC, "*")
    guarded.create(*(f"topic-{number}" for number in range(1_500)))
    virtual = guarded.virtual
    frame = virtual.frame(MetadataRequest(topics=None, include_topic_authorized_operations=True), 12)
    measured = cost_of(virtual, frame)
    assert measured.turn_count > 5
    assert measured.longest_turn_calls < CALLS_IN_20_MS
