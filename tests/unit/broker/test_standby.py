"""A node that stands by: it answers what it knows of the leader's metadata log, and says of the rest whom to ask."""

from collections.abc import Iterator
from importlib import import_module
from random import Random
from typing import Any, NoReturn

import pytest
import structlog

from oncelog.broker.apis.descriptor import Api
from oncelog.broker.assembly.standby import assemble_standby
from oncelog.broker.cluster.leadership import NO_LEADER
from oncelog.broker.cluster.nodes import Nodes, OtherNode
from oncelog.broker.config.settings import load_config
from oncelog.broker.faults.error_answers import error_names
from oncelog.broker.handlers.standby import ELSEWHERE
from oncelog.broker.requests.context import Peer
from oncelog.broker.requests.dispatch import Dispatcher
from oncelog.broker.requests.parts import Broker
from oncelog.broker.storage.shared.statements import Statements
from oncelog.broker.storage.shared.tables import Lease
from oncelog.broker.succession.follower import FellBehind, MetadataFollower
from oncelog.broker.succession.leader_seen import LeaderSeen
from oncelog.broker.turns.machine import System
from oncelog.broker.turns.slices import Sliced, Slices
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.add_partitions_to_txn_request import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from oncelog.protocol.generated.alter_configs_request import AlterConfigsRequest, AlterConfigsResource
from oncelog.protocol.generated.api_versions_request import ApiVersionsRequest
from oncelog.protocol.generated.consumer_group_describe_request import ConsumerGroupDescribeRequest
from oncelog.protocol.generated.create_topics_request import CreatableTopic, CreateTopicsRequest
from oncelog.protocol.generated.delete_groups_request import DeleteGroupsRequest
from oncelog.protocol.generated.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from oncelog.protocol.generated.describe_cluster_request import DescribeClusterRequest
from oncelog.protocol.generated.describe_groups_request import DescribeGroupsRequest
from oncelog.protocol.generated.describe_producers_request import DescribeProducersRequest, TopicRequest
from oncelog.protocol.generated.describe_transactions_request import DescribeTransactionsRequest
from oncelog.protocol.generated.find_coordinator_request import FindCoordinatorRequest
from oncelog.protocol.generated.incremental_alter_configs_request import (
    AlterableConfig,
    IncrementalAlterConfigsRequest,
)
from oncelog.protocol.generated.incremental_alter_configs_request import (
    AlterConfigsResource as ChangedResource,
)
from oncelog.protocol.generated.init_producer_id_request import InitProducerIdRequest
from oncelog.protocol.generated.list_groups_request import ListGroupsRequest
from oncelog.protocol.generated.list_transactions_request import ListTransactionsRequest
from oncelog.protocol.generated.metadata_request import MetadataRequest, MetadataRequestTopic
from oncelog.protocol.generated.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)
from oncelog.protocol.generated.share_group_describe_request import ShareGroupDescribeRequest
from oncelog.protocol.generated.streams_group_describe_request import StreamsGroupDescribeRequest
from oncelog.protocol.generated.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.fakes.broker import HOST, PORT, Reply, SeededEntropy, VirtualBroker, quiet_log
from tests.fakes.tables import FakeTables
from tests.fakes.tables_broker import TablesBroker
from tests.support.requests.listed_versions import EVERY_VERSION
from tests.support.requests.messages import filled_request

LEASE = Lease(1, "leader", 17, 9_000, is_attended=True, node_id=1)
LEADER = OtherNode(1, {"PLAINTEXT": ("leader.example", 19_092)})
WITH_NAMES = {
    ApiKey.DELETE_TOPICS: DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], topic_names=["t"]),
    ApiKey.DELETE_GROUPS: DeleteGroupsRequest(groups_names=["g"]),
    ApiKey.ADD_PARTITIONS_TO_TXN: AddPartitionsToTxnRequest(
        v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=[0])]
    ),
    ApiKey.DESCRIBE_GROUPS: DescribeGroupsRequest(groups=["g"]),
    ApiKey.CONSUMER_GROUP_DESCRIBE: ConsumerGroupDescribeRequest(group_ids=["g"]),
    ApiKey.SHARE_GROUP_DESCRIBE: ShareGroupDescribeRequest(group_ids=["g"]),
    ApiKey.STREAMS_GROUP_DESCRIBE: StreamsGroupDescribeRequest(group_ids=["g"]),
    ApiKey.DESCRIBE_TRANSACTIONS: DescribeTransactionsRequest(transactional_ids=["x"]),
    ApiKey.DESCRIBE_PRODUCERS: DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[0])]),
    ApiKey.OFFSET_FETCH: OffsetFetchRequest(
        group_id="g",
        topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[0])],
        groups=[OffsetFetchRequestGroup(group_id="g")],
    ),
    ApiKey.WRITE_TXN_MARKERS: WriteTxnMarkersRequest(
        markers=[WritableTxnMarker(topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[0])])]
    ),
}
"""Requests whose lists are of plain values, which `filled_request` leaves empty."""


def _drop(*_: object) -> NoReturn:
    raise structlog.DropEvent


def _new_peer() -> Peer:
    return Peer("10.0.0.1", 40_000, "PLAINTEXT", (HOST, PORT))


class Standby:
    """A standby, as node 2, beside a leader over the same tables."""

    def __init__(self, leader: TablesBroker, *overrides: str) -> None:
        self.time = leader.time
        tables = FakeTables(leader.database, self.time, self.time, Random(1), takes_time=False)
        self.follower = MetadataFollower(Statements(tables, self.time, self.time))
        self._slices = Slices(self.time)
        self._run(self.follower.load())
        config, _ = load_config(overrides=["node.id=2", *overrides])
        system = System(self.time, SeededEntropy(1), self.time, None, None, lambda _: None)
        nodes = Nodes(2)
        nodes.others = [LEADER]
        self.leader_seen = LeaderSeen(self.time, self.time)
        self.broker = self._run(
            assemble_standby(config, system, quiet_log(_drop), self.follower, nodes, 1, self.leader_seen)
        )
        self._dispatcher = Dispatcher(self.broker)

    def _run(self, steps: Sliced[Any]) -> Any:
        running = self._slices.run_own(steps)
        self.time.settle()
        return running.result()

    def follow(self) -> None:
        self._run(self.follower.follow())

    def send(self, request: Any, version: int, peer: Peer | None = None) -> Reply:
        response = import_module(type(request).__module__.removesuffix("request") + "response")
        frame = VirtualBroker.frame(request, version)
        exchange = self._dispatcher.dispatch(frame, peer or _new_peer())
        self.time.settle()
        return Reply(exchange, response, version)

    def ask(self, request: Any, version: int, peer: Peer | None = None) -> Any:
        reply = self.send(request, version, peer)
        self.leader_seen.release()
        self.time.settle()
        return reply.message

    def take_part(self, broker: Broker) -> None:
        """Another broker has its clients."""
        self._dispatcher.change_broker(broker)


def make_topic(leader: VirtualBroker, name: str) -> None:
    wanted = CreatableTopic(name=name, num_partitions=3, replication_factor=1)
    leader.ask(CreateTopicsRequest(topics=[wanted], timeout_ms=1_000), 5)


@pytest.fixture(scope="module")
def leader() -> TablesBroker:
    leader = TablesBroker()
    make_topic(leader, "topic")
    return leader


@pytest.fixture(scope="module")
def standby(leader: TablesBroker) -> Standby:
    return Standby(leader)


ELSEWHERE_VERSIONS = [(api, version) for api, version in EVERY_VERSION if api.owner in ELSEWHERE]


@pytest.mark.parametrize(("api", "version"), ELSEWHERE_VERSIONS, ids=lambda value: getattr(value, "name", str(value)))
def test_a_request_for_the_leader_gets_the_error_that_makes_a_client_look_for_it(
    standby: Standby, api: Api, version: int
) -> None:
    """Each thing that it names, and nothing else; and no leader that does not exist: node 0 is the default."""
    before = standby.follower.next_offset
    reply = standby.send(WITH_NAMES.get(api.key, filled_request(api)), version)
    assert reply.is_there
    if api.key is ApiKey.PRODUCE or api.from_any_node:  # with acks=0, which has no response
        assert reply.is_closed
    else:
        assert error_names(reply.message) == [ELSEWHERE[api.owner].name]
        assert set(_leaders_in(reply.message)) <= {-1}
    standby.follow()
    assert standby.follower.next_offset == before


def _leaders_in(found: Any) -> Iterator[int]:
    parts = (
        found if isinstance(found, list | tuple) else [getattr(found, name) for name in getattr(found, "FIELDS", ())]
    )
    for part in parts:
        yield from _leaders_in(part)
    if hasattr(found, "leader_id"):
        yield found.leader_id


def test_a_producer_that_needs_no_coordinator_asks_another_node(standby: Standby) -> None:
    asked = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
    assert standby.send(asked, 4).is_closed


def test_franz_go_asks_the_next_node_after_an_error(standby: Standby) -> None:
    """A connection that is closed before its first answer it takes for a login that it lacks, and fails its records."""
    asked, peer = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0), _new_peer()
    standby.ask(ApiVersionsRequest(client_software_name="kgo", client_software_version="1.22.2"), 3, peer)
    reply = standby.send(asked, 4, peer)
    assert not reply.is_closed
    assert reply.message.error_code == ErrorCode.NOT_COORDINATOR


def test_it_names_both_nodes_and_who_leads_what_in_which_epoch(leader: TablesBroker, standby: Standby) -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name="topic")])
    metadata, truth = standby.ask(request, 12), leader.ask(request, 12)
    assert [(each.node_id, each.host, each.port) for each in metadata.brokers] == [
        (1, "leader.example", 19_092),
        (2, HOST, PORT),
    ]
    assert (metadata.cluster_id, metadata.controller_id) == (truth.cluster_id, 1)
    assert metadata.topics == truth.topics
    cluster = standby.ask(DescribeClusterRequest(), 1)
    assert ([each.broker_id for each in cluster.brokers], cluster.controller_id) == ([1, 2], 1)


def test_a_topic_of_the_leader_is_known_once_it_was_followed(leader: TablesBroker) -> None:
    standby = Standby(leader)
    request = MetadataRequest(topics=[MetadataRequestTopic(name="later")], allow_auto_topic_creation=True)
    assert standby.ask(request, 12).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    make_topic(leader, "later")
    standby.follow()
    assert standby.ask(request, 12).topics == leader.ask(request, 12).topics


def test_a_coordinator_is_the_leader_once_its_topic_is_there(leader: TablesBroker) -> None:
    standby = Standby(leader)
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=["group"])
    found = standby.ask(request, 4).coordinators[0]
    assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    leader.ask(request, 4)
    standby.follow()
    found = standby.ask(request, 4).coordinators[0]
    assert (found.error_code, found.node_id, found.host, found.port) == (0, 1, "leader.example", 19_092)


def test_it_has_no_group_and_no_transaction(standby: Standby) -> None:
    groups, transactions = standby.ask(ListGroupsRequest(), 4), standby.ask(ListTransactionsRequest(), 1)
    assert (groups.error_code, list(groups.groups)) == (0, [])
    assert (transactions.error_code, list(transactions.transaction_states)) == (0, [])


def test_settings_that_the_leader_changes_take_effect(leader: TablesBroker) -> None:
    standby = Standby(leader)
    change = AlterableConfig(name="message.max.bytes", config_operation=0, value="7000")
    resource = ChangedResource(resource_type=4, resource_name="", configs=[change])
    leader.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    standby.follow()
    assert standby.broker.config.get_int("message.max.bytes") == 7_000


def test_answers_that_name_the_leader_wait_until_it_was_seen_later(leader: TablesBroker) -> None:
    """The look must begin after the database would have noticed the leader's end."""
    standby = Standby(leader)
    replies = [standby.send(MetadataRequest(topics=[]), 12), standby.send(DescribeClusterRequest(), 1)]
    standby.leader_seen.on_look(LEASE, standby.time.monotonic_ms())
    standby.time.settle()
    assert not any(reply.is_there for reply in replies)
    standby.time.advance(20)
    replies.append(standby.send(MetadataRequest(topics=[]), 12))
    standby.leader_seen.on_look(LEASE, standby.time.monotonic_ms())
    standby.time.settle()
    assert [reply.is_there for reply in replies] == [True, True, False]


@pytest.mark.parametrize(
    "seen",
    [
        LEASE._replace(is_attended=False),
        LEASE._replace(left_ms=0),
        LEASE._replace(renewed=0, left_ms=0),
        LEASE._replace(wanted=2),
    ],
)
def test_they_wait_while_the_leader_is_gone_or_about_to_go(leader: TablesBroker, seen: Lease) -> None:
    standby = Standby(leader)
    reply = standby.send(MetadataRequest(topics=[]), 12)
    for _ in range(20):
        standby.time.advance(100)
        standby.leader_seen.on_look(seen, standby.time.monotonic_ms())
    assert not reply.is_there


def test_a_leader_that_does_not_go_though_another_is_wanted_is_named(leader: TablesBroker) -> None:
    standby = Standby(leader)
    for _ in range(30):
        standby.leader_seen.on_look(LEASE._replace(wanted=3), standby.time.monotonic_ms())
        standby.time.advance(100)
    reply = standby.send(MetadataRequest(topics=[]), 12)
    standby.time.advance(100)
    standby.leader_seen.on_look(LEASE._replace(wanted=3), standby.time.monotonic_ms())
    standby.time.settle()
    assert reply.message.controller_id == 1


def test_a_node_that_sees_no_leader_any_more_names_none_until_it_has_seen_one(leader: TablesBroker) -> None:
    """Cut off from the tables alone, it would name for minutes one that has ended; clients are to ask another node."""
    standby = Standby(leader)
    leadership = standby.broker.leadership
    standby.leader_seen.watch(lambda is_known: setattr(leadership, "leader_node_id", 1 if is_known else NO_LEADER))
    waiting = standby.send(MetadataRequest(topics=None), 12)
    standby.time.advance(5_000)
    for reply in (waiting, standby.send(MetadataRequest(topics=None), 12)):
        response = reply.message
        assert response.controller_id == NO_LEADER and len(response.brokers) == 2
        (partition, *_) = response.topics[0].partitions
        assert (partition.error_code, partition.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, NO_LEADER)
        assert [*partition.replica_nodes] == [2], "no node that is not among the brokers"
    group = standby.send(FindCoordinatorRequest(key="g"), 3).message
    assert group.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    standby.leader_seen.on_look(LEASE, standby.time.monotonic_ms())
    assert standby.ask(MetadataRequest(topics=[]), 12).controller_id == 1


_TOPIC = [MetadataRequestTopic(name="topic")]


@pytest.mark.parametrize(
    ("software", "topics", "listed"),
    [
        ("kgo", _TOPIC, [1, 2]),
        ("kgo", None, [1, 2]),
        ("kafka-python", _TOPIC, [1, 2, 3]),
        ("oncelog", _TOPIC, [1, 2]),
        ("Sarama", _TOPIC, [1, 2]),
        ("apache-kafka-java", [], [1, 2]),
        ("apache-kafka-java", None, [1, 2, 3]),
        ("apache-kafka-java", _TOPIC, [1, 2, 3]),
        ("librdkafka", [], [1, 2]),
        ("librdkafka", _TOPIC, [1, 2, 3]),
        ("confluent-kafka-python", _TOPIC, [1, 2, 3]),
        (None, [], [1, 2, 3]),
        (None, _TOPIC, [1, 2, 3]),
    ],
)
def test_a_node_that_has_ended_is_listed_to_those_alone_that_would_not_find_it_again(
    leader: TablesBroker, software: str | None, topics: list[MetadataRequestTopic] | None, listed: list[int]
) -> None:
    """Other clients do not see it, as in Kafka: franz-go's members of groups ask their coordinator for as long as it is
    listed, and an Admin asks each listed node.
    """
    standby = Standby(leader)
    gone = OtherNode(3, {"PLAINTEXT": ("third.example", 19_092)}, is_gone=True)
    standby.broker.nodes.others = [LEADER, gone]
    peer = _new_peer()
    if software is not None:
        standby.ask(ApiVersionsRequest(client_software_name=software, client_software_version="4.3.1"), 3, peer)
    answer = standby.ask(MetadataRequest(topics=topics), 12, peer)
    assert [each.node_id for each in answer.brokers] == listed


def test_however_many_answers_wait_one_look_at_their_limit_is_to_come(leader: TablesBroker) -> None:
    standby = Standby(leader)
    for _ in range(300):
        standby.send(MetadataRequest(topics=[]), 12)
        standby.time.advance(50)
        standby.leader_seen.on_look(LEASE, standby.time.monotonic_ms())
    looks = 0
    check = standby.leader_seen._check_limit

    def counted() -> None:
        nonlocal looks
        looks += 1
        check()

    standby.leader_seen._check_limit = counted  # type: ignore[method-assign]
    for _ in range(400):
        standby.send(MetadataRequest(topics=[]), 12)
        standby.time.advance(50)
        standby.leader_seen.on_look(LEASE, standby.time.monotonic_ms())
    assert 2 <= looks <= 5


def test_they_name_who_leads_when_they_leave(leader: TablesBroker) -> None:
    standby = Standby(leader)
    reply = standby.send(MetadataRequest(topics=[]), 12)
    standby.broker.leadership.leader_node_id = 2
    standby.leader_seen.release()
    standby.time.settle()
    assert reply.message.controller_id == 2


def test_one_that_names_itself_makes_no_topic(leader: TablesBroker) -> None:
    """The broker that takes its place does, when it is asked again."""
    standby = Standby(leader)
    unknown = MetadataRequest(topics=[MetadataRequestTopic(name="new")], allow_auto_topic_creation=True)
    reply = standby.send(unknown, 12)
    standby.broker.leadership.leader_node_id = 2
    standby.leader_seen.release()
    standby.time.settle()
    assert (reply.message.controller_id, reply.message.topics[0].error_code) == (
        2,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    )
    assert "new" not in standby.broker.metadata.state.topics


def test_none_of_them_waits_for_longer_than_five_seconds(leader: TablesBroker) -> None:
    standby = Standby(leader)
    replies = [standby.send(MetadataRequest(topics=[]), 12)]
    standby.time.advance(30)
    standby.leader_seen.on_look(LEASE, standby.time.monotonic_ms())
    standby.time.advance(4_000)
    replies.append(standby.send(MetadataRequest(topics=[]), 12))
    standby.time.advance(4_999)
    assert [reply.is_there for reply in replies] == [True, False]
    standby.time.advance(1)
    assert replies[1].is_there


def test_a_broker_that_takes_its_place_has_its_clients_and_what_they_ask_next(leader: TablesBroker) -> None:
    """It serves also an API that the broker before had loaded; earlier requests are still answered."""
    standby = Standby(leader)
    wanted = CreatableTopic(name="another", num_partitions=1, replication_factor=1)
    create = CreateTopicsRequest(topics=[wanted], timeout_ms=1_000, validate_only=True)
    assert standby.ask(create, 5).topics[0].error_code == ErrorCode.NOT_CONTROLLER
    waiting = standby.send(MetadataRequest(topics=[]), 12)
    standby.take_part(leader.broker)
    assert standby.ask(create, 5).topics[0].error_code == ErrorCode.NONE
    assert waiting.message.controller_id == 1


def test_it_follows_through_snapshots_and_checkpoints_of_the_leader() -> None:
    """The follower reads the journal, chunks and snapshots alike."""
    leader = TablesBroker("metadata.log.max.record.bytes.between.snapshots=300")
    follower, late = Standby(leader), Standby(leader)
    for number in range(30):
        make_topic(leader, f"topic-{number}")
        leader.let_pass(1_000)
        leader.broker.logs.step()
        leader.time.settle()
        follower.follow()
        assert follower.broker.metadata.state.topics.keys() == leader.broker.metadata.state.topics.keys()
    with pytest.raises(FellBehind):
        late.follow()
    assert Standby(leader).broker.metadata.state.topics == leader.broker.metadata.state.topics


@pytest.mark.parametrize("resource_type", [4, 8])
def test_changes_of_this_nodes_settings_are_refused_by_each_row(standby: Standby, resource_type: int) -> None:
    """No other node can be meant."""
    resource = AlterConfigsResource(resource_type=resource_type, resource_name="2", configs=[])
    answer = standby.ask(AlterConfigsRequest(resources=[resource]), 2)
    assert [row.error_code for row in answer.responses] == [ErrorCode.NOT_CONTROLLER]


@pytest.mark.parametrize(("resource_type", "name"), [(2, "topic"), (4, ""), (32, "group")])
def test_an_administrator_whose_client_asks_any_node_asks_another(
    standby: Standby, resource_type: int, name: str
) -> None:
    """After an error Java's would ask this one again, as it is connected to it."""
    resource = AlterConfigsResource(resource_type=resource_type, resource_name=name, configs=[])
    assert standby.send(AlterConfigsRequest(resources=[resource]), 2).is_closed
