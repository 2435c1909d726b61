"""The small files that Apache Kafka starts from: the checkpoint to the byte, settings as Java reads them.

The checkpoint to compare with was written by Kafka's own classes:
`java -cp "$ONCELOG_KAFKA_LIBS/*" tests/conformance/KafkaCheckpoint.java tests/golden/graduate`.
"""

import re
from base64 import urlsafe_b64decode
from pathlib import Path
from struct import pack_into
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.broker.cluster.features import FEATURES
from oncelog.broker.cluster.metadata_log import ClusterState, ResourceType, Topic, topic_records
from oncelog.broker.cluster.metadata_records import Leader, NewPartitions
from oncelog.broker.cluster.metadata_snapshot import decode_snapshot
from oncelog.broker.config.broker_keys import BROKER_KEYS
from oncelog.broker.config.properties import parse_properties
from oncelog.broker.config.settings import given_settings, load_config
from oncelog.protocol.checksum import crc32c
from oncelog.protocol.generated.config_record import ConfigRecord
from oncelog.protocol.generated.feature_level_record import FeatureLevelRecord
from oncelog.protocol.generated.partition_record import PartitionRecord
from oncelog.protocol.generated.producer_ids_record import ProducerIdsRecord
from oncelog.protocol.generated.register_broker_record import RegisterBrokerRecord
from oncelog.protocol.generated.remove_topic_record import RemoveTopicRecord
from oncelog.protocol.generated.topic_record import TopicRecord
from oncelog.protocol.records.batch import iter_batches
from oncelog.tools.graduate.security import by_hand
from oncelog.tools.graduate.settings import (
    controller_beside,
    left_behind,
    server_properties,
)
from oncelog.tools.kafka_directory import NotPossible
from oncelog.tools.kafka_directory.bootstrap import encode_checkpoint, own_settings
from oncelog.tools.kafka_directory.properties import Node, meta_properties, new_directory_id
from tests.conformance.kafka_settings import kafka_settings

GOLDEN = Path(__file__).parents[2] / "golden" / "graduate" / "bootstrap.checkpoint"
TOPIC_ID = UUID("11111111-1111-4111-9111-111111111111")
DIRECTORY_ID = UUID("22222222-2222-4222-a222-222222222222")
GONE_ID = UUID("33333333-3333-4333-a333-333333333333")
_CRC, _CRC_FROM, _TIMES = 17, 21, 27


def config(kind: ResourceType, resource: str, name: str, value: str) -> ConfigRecord:
    return ConfigRecord(resource_type=kind, resource_name=resource, name=name, value=value)


def cluster() -> ClusterState:
    """The state that the golden file holds, between much that is left out."""
    state = ClusterState()
    topic = Topic("orders", TOPIC_ID, 2, {"retention.ms": "-1", "oncelog.of.ours": "1"})
    records = [
        *(FeatureLevelRecord(name=name, feature_level=1) for name in FEATURES if name != "metadata.version"),
        config(ResourceType.BROKER, "", "cluster.id", "of a file of its own"),
        RegisterBrokerRecord(broker_id=7, broker_epoch=3),
        ProducerIdsRecord(broker_id=7, broker_epoch=3, next_producer_id=2000),
        config(ResourceType.GROUP, "readers", "consumer.session.timeout.ms", "46000"),
        config(ResourceType.BROKER, "", "log.cleaner.threads", "2"),
        config(ResourceType.BROKER, "", "oncelog.record.validation", "full"),
        *topic_records(topic, NewPartitions(TOPIC_ID, range(2), Leader(7, 2))),
        TopicRecord(name="gone", topic_id=GONE_ID),
        RemoveTopicRecord(topic_id=GONE_ID),
    ]
    for offset, record in enumerate(records):
        state.replay(record, offset)
    state.removed.clear()
    return state


def without_times(checkpoint: bytes) -> bytes:
    """The checkpoint with every batch at time 0, as ours are."""
    data = bytearray(checkpoint)
    position = 0
    for _, batch in iter_batches(memoryview(checkpoint)):
        pack_into(">qq", data, position + _TIMES, 0, 0)
        pack_into(">I", data, position + _CRC, crc32c(bytes(data[position + _CRC_FROM : position + len(batch)])))
        position += len(batch)
    return bytes(data)


def test_the_checkpoint_is_kafkas_to_the_byte() -> None:
    assert encode_checkpoint(cluster(), DIRECTORY_ID) == without_times(GOLDEN.read_bytes())


def test_what_has_no_meaning_in_kafka_is_named() -> None:
    assert own_settings(cluster()) == ["oncelog.of.ours", "oncelog.record.validation"]


def test_every_partition_begins_a_leadership_above_all_before_in_kafkas_directory() -> None:
    partitions = [
        record
        for record in decode_snapshot(encode_checkpoint(cluster(), DIRECTORY_ID))
        if isinstance(record, PartitionRecord)
    ]
    # In epoch 2 until now; each start adds 2.
    assert [(each.partition_id, each.leader_epoch, list(each.directories)) for each in partitions] == [
        (0, 4, [DIRECTORY_ID]),
        (1, 4, [DIRECTORY_ID]),
    ]


ADDRESS = "PLAINTEXT://127.0.0.1:9092"
LISTENER = f"listeners={ADDRESS}"
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def properties(*overrides: str, chosen: tuple[str, int] | None = None) -> dict[str, str]:
    config, _ = load_config(overrides=overrides)
    given = given_settings(overrides=overrides)
    node = Node("cluster", 7, DIRECTORY_ID)
    controller = controller_beside(config, chosen)
    return parse_properties(server_properties(node, config, given, controller, Path("/kafka")))


def test_kafka_gets_our_settings_and_what_a_node_alone_needs() -> None:
    found = properties(
        "listeners=PLAINTEXT://127.0.0.1:9092,OUTSIDE://[::1]:9093",
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,OUTSIDE:PLAINTEXT",
        "message.max.bytes=2000000",
        "num.io.threads=3",
        "oncelog.flush.policy=os",
        "ssl.keystore.location=/keys",
        f"authorizer.class.name={AUTHORIZER}",
        "super.users=User:root;User:ANONYMOUS",
        "zookeeper.connect=old",
        "default.replication.factor=3",
    )
    assert found == {
        "process.roles": "broker,controller",
        "node.id": "7",
        "controller.quorum.voters": "7@127.0.0.1:9094",
        "controller.listener.names": "CONTROLLER",
        "listeners": "PLAINTEXT://127.0.0.1:9092,OUTSIDE://[::1]:9093,CONTROLLER://127.0.0.1:9094",
        "advertised.listeners": "PLAINTEXT://127.0.0.1:9092,OUTSIDE://[::1]:9093",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OUTSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "log.dirs": "/kafka",
        "default.replication.factor": "1",
        "offsets.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.replication.factor": "1",
        "authorizer.class.name": AUTHORIZER,
        "super.users": "User:root;User:ANONYMOUS",
        "group.initial.rebalance.delay.ms": "0",
        "message.max.bytes": "2000000",
        "num.io.threads": "3",
    }
    assert set(found) <= {*kafka_settings("broker"), "inter.broker.listener.name", "super.users"}


def principal_in(line: str) -> str:
    """The user in a line of JAAS by which the node logs in; its listeners know no other user."""
    found = re.fullmatch(r'\S+PlainLoginModule required username="(\S+)" password="(\S+)" user_(\S+)="(\S+)";', line)
    assert found is not None
    assert (found[1], found[2]) == (found[3], found[4])
    assert len(found[2]) >= 32
    return f"User:{found[1]}"


def test_where_rights_are_asked_for_the_node_has_listeners_and_a_name_of_its_own() -> None:
    """Else everybody on the listeners of clients would be what the node is, a super user."""
    found = properties(f"authorizer.class.name={AUTHORIZER}", "super.users=User:root", LISTENER)
    assert found["listeners"] == f"{ADDRESS},NODE://127.0.0.1:9094,CONTROLLER://127.0.0.1:9093"
    assert found["advertised.listeners"] == f"{ADDRESS},NODE://127.0.0.1:9094"
    protocols = "PLAINTEXT:PLAINTEXT,NODE:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT"
    assert found["listener.security.protocol.map"] == protocols
    assert found["inter.broker.listener.name"] == "NODE"
    node = principal_in(found["listener.name.node.plain.sasl.jaas.config"])
    assert (
        found["listener.name.controller.plain.sasl.jaas.config"] == found["listener.name.node.plain.sasl.jaas.config"]
    )
    assert found["super.users"] == f"User:root;{node}"
    again = properties(f"authorizer.class.name={AUTHORIZER}", LISTENER)
    assert again["super.users"] != node, "no two clusters share it"


def test_an_authorizer_has_the_name_that_kafka_knows_today() -> None:
    found = properties("authorizer.class.name=kafka.security.authorizer.AclAuthorizer", LISTENER)
    assert found["authorizer.class.name"] == AUTHORIZER
    assert not properties("authorizer.class.name=", "super.users=User:root").get("authorizer.class.name")


def test_the_controller_listens_at_the_given_address() -> None:
    found = properties("listeners=PLAINTEXT://0.0.0.0:9092", chosen=("kafka-1", 9555))
    assert found["controller.quorum.voters"] == "7@kafka-1:9555"
    assert found["listeners"].endswith(",CONTROLLER://kafka-1:9555")


def test_listeners_with_tls_and_logins_keep_them_and_java_gets_the_lines_it_wants(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("broker.pem").write_text("-----BEGIN PRIVATE KEY-----")
    users = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_a="b\\"c";'
    found = properties(
        "listeners=SASL_SSL://0.0.0.0:9092,NODE://127.0.0.1:9093",
        "advertised.listeners=SASL_SSL://kafka.example.com:9092,NODE://127.0.0.1:9093",
        "listener.security.protocol.map=SASL_SSL:SASL_SSL,NODE:SSL",
        "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,OAUTHBEARER",
        f"listener.name.sasl_ssl.plain.sasl.jaas.config={users}",
        "ssl.keystore.type=PEM",
        "ssl.keystore.location=broker.pem",
        "oncelog.authentication.timeout.ms=1000",
    )
    modules = "org.apache.kafka.common.security"
    bearer = f"{modules}.oauthbearer.OAuthBearer"
    assert found["listeners"] == (
        "SASL_SSL://0.0.0.0:9092,NODE://127.0.0.1:9093,NODE_2://127.0.0.1:9095,CONTROLLER://127.0.0.1:9094"
    )
    assert found["inter.broker.listener.name"] == "NODE_2"
    assert found["ssl.keystore.location"] == str(tmp_path / "broker.pem")
    of_clients = {name: value for name, value in found.items() if name.startswith("listener.name.sasl_ssl.")}
    assert of_clients == {
        "listener.name.sasl_ssl.plain.sasl.jaas.config": users,
        "listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config": f"{modules}.scram.ScramLoginModule required;",
        "listener.name.sasl_ssl.oauthbearer.sasl.jaas.config": f"{bearer}LoginModule required;",
        "listener.name.sasl_ssl.oauthbearer.sasl.server.callback.handler.class": f"{bearer}ValidatorCallbackHandler",
    }
    assert "oncelog.authentication.timeout.ms" not in found


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (("ssl.keystore.key=-----BEGIN RSA PRIVATE KEY-----",), "openssl pkcs8 -topk8"),
        (("ssl.keystore.key=-----BEGIN PRIVATE KEY-----", "ssl.cipher.suites=ECDHE-RSA-AES128-SHA"), "IANA's"),
        (("ssl.keystore.type=PEM", "ssl.keystore.location=/nothing/here.pem"), "No such file"),
    ],
)
def test_what_would_stop_kafka_is_said_before(settings: tuple[str, ...], said: str) -> None:
    with pytest.raises(NotPossible, match=said):
        properties("listeners=SSL://127.0.0.1:9092", *settings)


def test_keys_of_an_issuer_are_left_to_a_person() -> None:
    """Java gets the address by a property of the process."""
    settings = ("listeners=SASL_SSL://127.0.0.1:9092", "sasl.enabled.mechanisms=OAUTHBEARER")
    url = "sasl.oauthbearer.jwks.endpoint.url=https://issuer.example/keys"
    (sentence,) = by_hand(load_config(overrides=(*settings, url))[0])
    assert "KAFKA_OPTS=-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=https://issuer.example/keys" in sentence
    assert by_hand(load_config(overrides=(LISTENER,))[0]) == []


def test_settings_that_kafka_does_not_get_are_named_but_for_those_that_it_gets_in_another_form() -> None:
    given = ("oncelog.flush.policy=os", "sasl.enabled.mechanisms=PLAIN", "zookeeper.connect=old", "log.dirs=/data")
    assert left_behind(load_config(overrides=given)[0], given_settings(overrides=given)) == [
        "oncelog.flush.policy",
        "sasl.enabled.mechanisms",
        "zookeeper.connect",
    ]


def test_a_default_that_is_not_kafkas_and_that_clients_would_notice_goes_along() -> None:
    kafkas = kafka_settings("broker")
    ours = {name: key.default or "" for name, key in BROKER_KEYS.items() if name in kafkas}
    different = {name for name, default in ours.items() if default != (kafkas[name].default or "")}
    of_the_process = {
        "log.dir",
        "log.initial.task.delay.ms",
        "metadata.log.max.record.bytes.between.snapshots",
        "queued.max.request.bytes",
        "socket.listen.backlog.size",
        "socket.receive.buffer.bytes",
        "socket.send.buffer.bytes",
    }
    assert different - of_the_process <= set(properties())


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_java_reads_every_value_as_it_was_given(value: str) -> None:
    text = meta_properties(Node(value, 1, DIRECTORY_ID))
    assert text.isascii()
    # Kafka trims nothing here; our parser reads single UTF-16 units, as Java does.
    found = parse_properties(text)["cluster.id"]
    assert found.encode("utf-16-be", "surrogatepass").decode("utf-16-be") == value


def test_a_log_directory_has_an_id_that_kafka_could_have_drawn() -> None:
    text = parse_properties(meta_properties(Node("cluster", 7, new_directory_id())))["directory.id"]
    assert len(text) == 22 and not text.startswith("-")
    assert UUID(bytes=urlsafe_b64decode(text + "==")).int > 100
