"""Details of metadata, coordinators, groups, settings and transactions' requests."""

import pytest

from oncelog.broker.config.broker_keys import BROKER_KEYS
from oncelog.broker.config.descriptions import INTERNAL
from oncelog.broker.config.topic_keys import TOPIC_CONFIGS
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.add_partitions_to_txn_request import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from oncelog.protocol.generated.api_versions_request import ApiVersionsRequest
from oncelog.protocol.generated.create_topics_request import CreatableTopic, CreateTopicsRequest
from oncelog.protocol.generated.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from oncelog.protocol.generated.end_txn_request import EndTxnRequest
from oncelog.protocol.generated.find_coordinator_request import FindCoordinatorRequest
from oncelog.protocol.generated.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from oncelog.protocol.generated.metadata_request import MetadataRequest, MetadataRequestTopic
from oncelog.protocol.generated.sasl_authenticate_request import SaslAuthenticateRequest
from oncelog.protocol.generated.sasl_handshake_request import SaslHandshakeRequest
from tests.clients.producer import Producer, broker_with_topic
from tests.conformance.details.asking import TOPIC, create, with_topic
from tests.fakes.broker import HOST, PORT, VirtualBroker

E = ErrorCode
TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4


def test_detail_26_metadata_lists_all_or_none_creates_where_it_may_and_names_a_node_to_go_to() -> None:
    broker = with_topic()

    def names(version: int, topics: list[MetadataRequestTopic] | None) -> list[str]:
        return [topic.name for topic in broker.ask(MetadataRequest(topics=topics), version).topics]

    assert names(0, []) == [TOPIC]
    for version in range(1, 14):
        assert names(version, None) == [TOPIC]
        assert names(version, []) == []
    for version in (4, 8, 13):
        asked = [MetadataRequestTopic(name=f"new-{version}")]
        (topic,) = broker.ask(MetadataRequest(topics=asked, allow_auto_topic_creation=False), version).topics
        assert topic.error_code == E.UNKNOWN_TOPIC_OR_PARTITION
        (topic,) = broker.ask(MetadataRequest(topics=asked, allow_auto_topic_creation=True), version).topics
        assert topic.error_code == E.NONE
        assert [partition.leader_id for partition in topic.partitions] == [1]
    message = broker.ask(MetadataRequest(topics=[]), 8)
    assert [(node.node_id, node.host, node.port) for node in message.brokers] == [(1, HOST, PORT)]
    assert message.cluster_id
    assert message.controller_id == 1
    frozen = VirtualBroker("auto.create.topics.enable=false")
    (topic,) = frozen.ask(
        MetadataRequest(topics=[MetadataRequestTopic(name="new")], allow_auto_topic_creation=True), 8
    ).topics
    assert topic.error_code == E.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize(("key_type", "topic"), [(0, "__consumer_offsets"), (1, "__transaction_state")])
def test_detail_27_a_coordinator_is_a_node_of_the_metadata_and_its_topic_is_made_at_the_first_need(
    key_type: int, topic: str
) -> None:
    broker = VirtualBroker()
    assert broker.broker.topics.get(topic) is None
    found = broker.ask(FindCoordinatorRequest(key="id", key_type=key_type), 2)
    assert (found.error_code, found.host, found.port) == (E.NONE, HOST, PORT)
    message = broker.ask(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), 8)
    assert found.node_id in {node.node_id for node in message.brokers}
    (made,) = message.topics
    assert made.is_internal
    assert {tuple(partition.replica_nodes) for partition in made.partitions} == {(1,)}


def test_detail_28_sasl_is_listed_from_version_0_and_refused_where_no_listener_asks_for_it() -> None:
    broker = VirtualBroker()
    listed = {api.api_key: (api.min_version, api.max_version) for api in broker.ask(ApiVersionsRequest(), 0).api_keys}
    assert listed[ApiKey.SASL_HANDSHAKE] == (0, 1)
    assert listed[ApiKey.SASL_AUTHENTICATE] == (0, 2)
    for version in range(2):
        assert broker.ask(SaslHandshakeRequest(mechanism="PLAIN"), version).error_code == E.ILLEGAL_SASL_STATE
    for version in range(3):
        assert broker.ask(SaslAuthenticateRequest(auth_bytes=b"\0u\0p"), version).error_code == E.ILLEGAL_SASL_STATE


def join(member_id: str = "", protocol_type: str = "consumer", instance: str | None = None) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id="group",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id=member_id,
        group_instance_id=instance,
        protocol_type=protocol_type,
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )


@pytest.mark.parametrize("version", range(10))
def test_detail_31_a_member_first_gets_an_id_from_version_4_on_and_joins_with_it_at_once(version: int) -> None:
    """Tests need not wait: the delay of a first rebalance that Kafka has by default is off."""
    broker = VirtualBroker()
    broker.ask(FindCoordinatorRequest(key="group"), 1)
    answer = broker.ask(join(), version)
    if version >= 4:
        assert answer.error_code == E.MEMBER_ID_REQUIRED
        assert answer.member_id
        # Null from version 7 on, which earlier versions cannot express.
        assert answer.protocol_name == (None if version >= 7 else "")
        answer = broker.ask(join(answer.member_id), version)
    assert answer.error_code == E.NONE
    assert (answer.generation_id, answer.leader, answer.protocol_name) == (1, answer.member_id, "range")
    assert answer.protocol_type == ("consumer" if version >= 7 else None)
    if version >= 5:
        static = broker.send(join(instance="static"), version)
        assert not static.is_there, "a static member needs no id, and waits for the others"


def test_detail_32_settings_are_all_described_with_their_source_and_creation_answers_with_defaults() -> None:
    broker = VirtualBroker("num.partitions=3")
    topic = CreatableTopic(name=TOPIC, num_partitions=-1, replication_factor=-1)
    for version in (4, 5, 7):
        (made,) = broker.ask(CreateTopicsRequest(topics=[topic], timeout_ms=1_000, validate_only=True), version).topics
        assert made.error_code == E.NONE
        if version >= 5:
            assert (made.num_partitions, made.replication_factor) == (3, 1)
            assert {config.name for config in made.configs} == set(TOPIC_CONFIGS)
    create(broker, TOPIC, retention_ms="5000")
    shown = set(BROKER_KEYS) - INTERNAL  # internal to Kafka too
    for kind, name, expected in ((TOPIC_RESOURCE, TOPIC, set(TOPIC_CONFIGS)), (BROKER_RESOURCE, "1", shown)):
        resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
        for version in range(1, 5):
            (told,) = broker.ask(DescribeConfigsRequest(resources=[resource], include_synonyms=True), version).results
            configs = {config.name: config for config in told.configs}
            assert configs.keys() >= expected
            assert all(config.config_source > 0 for config in told.configs)
            if kind == TOPIC_RESOURCE:
                assert configs["retention.ms"].value == "5000"
                (own, *_) = configs["retention.ms"].synonyms
                assert (own.name, own.value) == ("retention.ms", "5000")


def test_detail_34_a_partition_that_is_not_there_keeps_the_others_out_of_the_transaction_as_well() -> None:
    broker = broker_with_topic()
    producer = Producer(broker).init()
    for version in range(4):
        topics = [AddPartitionsToTxnTopic(name=name, partitions=[0]) for name in ("topic", "none")]
        identity = {f"v3_and_below_{name}": value for name, value in producer.identity.items()}
        answer = broker.ask(AddPartitionsToTxnRequest(v3_and_below_topics=topics, **identity), version)
        errors = {
            result.name: [partition.partition_error_code for partition in result.results_by_partition]
            for result in answer.results_by_topic_v3_and_below
        }
        assert errors == {"topic": [E.OPERATION_NOT_ATTEMPTED], "none": [E.UNKNOWN_TOPIC_OR_PARTITION]}
    assert broker.broker.transactions.open_count == 0
    assert producer.produce(version=11) != E.NONE


def test_detail_35_the_end_of_a_transaction_that_is_refused_names_no_producer() -> None:
    broker = broker_with_topic()
    producer = Producer(broker).init()
    request = EndTxnRequest(
        transactional_id="id", producer_id=producer.producer_id, producer_epoch=producer.producer_epoch, committed=True
    )
    answer = broker.ask(request, 5)
    assert answer.error_code == E.INVALID_TXN_STATE
    assert (answer.producer_id, answer.producer_epoch) == (-1, -1)
    unknown = EndTxnRequest(transactional_id="nobody", producer_id=9, producer_epoch=0, committed=True)
    answer = broker.ask(unknown, 5)
    assert answer.error_code == E.INVALID_PRODUCER_ID_MAPPING
    assert (answer.producer_id, answer.producer_epoch) == (-1, -1)
