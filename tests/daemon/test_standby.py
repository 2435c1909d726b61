"""Several nodes over one PostgreSQL: one leads, the others stand by, and clients see a wait when that changes."""

import asyncio
import os
import signal
import threading
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer as GroupConsumer
from confluent_kafka import KafkaException
from confluent_kafka import Producer as TransactionalProducer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from confluent_kafka.admin import NewTopic as LibrdkafkaTopic

from oncelog.client import Admin, Consumer, NewTopic, Producer
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.api_versions_request import ApiVersionsRequest
from oncelog.protocol.generated.create_topics_request import CreatableTopic, CreateTopicsRequest
from oncelog.protocol.generated.metadata_request import MetadataRequest
from oncelog.protocol.generated.metadata_response import MetadataResponse
from oncelog.protocol.generated.sasl_authenticate_request import SaslAuthenticateRequest
from oncelog.protocol.generated.sasl_handshake_request import SaslHandshakeRequest
from tests.clients.wire import WireBroker
from tests.conftest import Start
from tests.support.patience import GIVES_UP_MS, PATIENCE_S, until
from tests.support.postgres.pair import Pair
from tests.support.postgres.server import Postgres

pytestmark = pytest.mark.postgres


@pytest.fixture
def pair(postgres: Postgres, start_daemon: Start) -> Pair:
    return Pair(postgres, start_daemon)


class Transactions:
    """A transactional producer of librdkafka that runs until it is stopped, and notes what was committed."""

    def __init__(self, bootstrap: str) -> None:
        self.committed: list[int] = []
        self.errors: list[Exception] = []
        self._producer = TransactionalProducer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": "writer",
                "socket.timeout.ms": 3_000,
                "log_level": 0,
            }
        )
        self._is_over = False
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        number = 0
        try:
            self._producer.init_transactions(PATIENCE_S)
            while not self._is_over:
                self._producer.begin_transaction()
                for partition in range(2):
                    self._producer.produce("topic", str(number).encode(), partition=partition)
                self._producer.commit_transaction(PATIENCE_S)
                self.committed.append(number)
                number += 1
        except Exception as error:
            self.errors.append(error)

    def __enter__(self) -> "Transactions":
        self._thread.start()
        self.goes_on()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over = True
        self._thread.join(PATIENCE_S)

    def goes_on(self) -> None:
        """Some more are committed from now on."""
        before = len(self.committed)
        until(lambda: len(self.committed) > before + 3 or bool(self.errors))


def _make_topic(bootstrap: str) -> None:
    async def make() -> None:
        async with Admin(bootstrap_servers=bootstrap) as admin:
            await admin.create_topics(NewTopic("topic", 2))

    asyncio.run(make())


def _committed(bootstrap: str) -> list[list[int]]:
    """Return what read_committed readers get of each partition."""

    async def read() -> list[list[int]]:
        options = {"auto_offset_reset": "earliest", "isolation_level": "read_committed"}
        async with Consumer(bootstrap_servers=bootstrap, **options) as consumer:  # type: ignore[arg-type]
            partitions = await consumer.partitions_for("topic")
            ends = await consumer.end_offsets(partitions)
            consumer.assign(partitions)
            found: list[list[int]] = [[], []]
            while any([await consumer.position(each) < ends[each] for each in partitions]):
                for record in await consumer.poll(1_000):
                    found[record.partition].append(int(record.value or b""))
            return found

    return asyncio.run(read())


def test_a_client_that_knows_only_a_standby_finds_the_leader(pair: Pair) -> None:
    standby = pair.nodes[2].bootstrap

    async def use() -> None:
        async with Admin(bootstrap_servers=standby) as admin, Producer(bootstrap_servers=standby) as producer:
            await admin.create_topics(NewTopic("topic", 2))
            await producer.send("topic", b"value", partition=1)

    asyncio.run(use())
    idempotent = TransactionalProducer({"bootstrap.servers": standby, "enable.idempotence": True, "log_level": 0})
    idempotent.produce("topic", b"another", partition=0)
    assert idempotent.flush(PATIENCE_S) == 0
    consumer = GroupConsumer({"bootstrap.servers": standby, "group.id": "group", "auto.offset.reset": "earliest"})
    consumer.subscribe(["topic"])
    assert {record.value() for record in consumer.consume(2, PATIENCE_S)} == {b"value", b"another"}
    consumer.commit(asynchronous=False)
    consumer.close()


def test_every_node_names_both_and_the_one_that_leads(pair: Pair) -> None:
    _make_topic(pair.nodes[2].bootstrap)
    addresses = {number: node.bootstrap for number, node in pair.nodes.items()}
    for node in pair.nodes.values():
        client = WireBroker(node.bootstrap)

        def ask(client: WireBroker = client) -> MetadataResponse:
            answer: MetadataResponse = client.ask(MetadataRequest(topics=None), 12)
            return answer

        def has_followed(ask: Callable[[], MetadataResponse] = ask) -> bool:
            metadata = ask()
            found = {each.node_id: f"{each.host}:{each.port}" for each in metadata.brokers}
            return found == addresses and "topic" in {topic.name for topic in metadata.topics}

        until(has_followed)
        metadata = ask()
        (leaders,) = ({each.leader_id for each in row.partitions} for row in metadata.topics if row.name == "topic")
        assert (metadata.controller_id, leaders) == (1, {1})
        client.close()
        admin = AdminClient({"bootstrap.servers": node.bootstrap})
        cluster = admin.describe_cluster().result(PATIENCE_S)
        assert ({each.id for each in cluster.nodes}, cluster.controller.id) == ({1, 2}, 1)


def test_the_first_answer_that_names_the_next_leader_does_not_list_the_killed_one(pair: Pair) -> None:
    """A client that looks at Metadata once, and holds on to what is listed, has to find its way by it. The killed one
    is listed again when it is back."""
    client = WireBroker(pair.nodes[2].bootstrap)
    client.ask(ApiVersionsRequest(client_software_name="kgo", client_software_version="1.22.2"), 3)

    def listed() -> tuple[int, set[int]]:
        metadata: MetadataResponse = client.ask(MetadataRequest(topics=None), 12)
        return metadata.controller_id, {each.node_id for each in metadata.brokers}

    assert listed() == (1, {1, 2})
    pair.nodes[1].kill()
    assert listed() == (2, {2})
    pair.nodes[1].start()
    until(lambda: listed() == (2, {1, 2}))
    client.close()


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_a_client_of_the_standby_stays_connected_when_that_begins_to_lead(pair: Pair, end: str) -> None:
    """Its pending request is answered with the new leader. A node that has ended may come back: it is still listed."""
    client = WireBroker(pair.nodes[2].bootstrap)
    assert client.ask(MetadataRequest(topics=[]), 12).controller_id == 1
    assert _create_topic(client, "topic") == ErrorCode.NOT_CONTROLLER
    getattr(pair.nodes[1], end)()
    metadata = client.ask(MetadataRequest(topics=[]), 12)
    assert metadata.controller_id == 2
    assert {each.node_id for each in metadata.brokers} == {1, 2}
    assert _create_topic(client, "topic") == ErrorCode.NONE
    client.close()


def _create_topic(client: WireBroker, name: str) -> int:
    """Create a topic over the client's one connection."""
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    answer = client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=GIVES_UP_MS), 5)
    assert client.connection_count == 1
    return int(answer.topics[0].error_code)


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_a_transactional_producer_goes_on_when_its_leader_ends(pair: Pair, end: str) -> None:
    """A kill, and SIGTERM, which hands over."""
    _make_topic(pair.bootstrap)
    with Transactions(pair.bootstrap) as writer:
        for leader in (1, 2):
            getattr(pair.nodes[leader], end)()
            writer.goes_on()
            pair.nodes[leader].start()
            writer.goes_on()
    assert writer.errors == []
    assert pair.leader == 1
    assert _committed(pair.bootstrap) == [writer.committed] * 2


def test_a_leader_that_is_silent_past_its_lease_stands_by_when_it_wakes(
    postgres: Postgres, start_daemon: Start
) -> None:
    pair = Pair(postgres, start_daemon, lease_ms=3_000)
    _make_topic(pair.bootstrap)
    with Transactions(pair.bootstrap) as writer:
        os.kill(pair.nodes[1].process.pid, signal.SIGSTOP)
        try:
            until(lambda: pair.leader == 2)
            writer.goes_on()
        finally:
            os.kill(pair.nodes[1].process.pid, signal.SIGCONT)
        until(lambda: bool(pair.events(1, "lease.lost")))
        until(lambda: bool(pair.events(1, "broker.standing_by")))
        writer.goes_on()
    assert writer.errors == []
    assert _committed(pair.nodes[1].bootstrap) == [writer.committed] * 2


def test_an_operator_may_move_the_lease_and_both_processes_continue(pair: Pair) -> None:
    _make_topic(pair.bootstrap)
    with Transactions(pair.bootstrap) as writer:
        for wanted in (2, 1, 2):
            pair.move_to(wanted)
            writer.goes_on()
    assert writer.errors == []
    assert _committed(pair.bootstrap) == [writer.committed] * 2
    assert [pair.nodes[number].stop() for number in (1, 2)] == [0, 0]


def test_a_user_that_the_leader_has_made_logs_in_at_the_standby_and_has_the_same_rights(
    postgres: Postgres, start_daemon: Start
) -> None:
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_admin="secret";'
    pair = Pair(
        postgres,
        start_daemon,
        "listeners=SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256",
        f"listener.name.sasl_plaintext.plain.sasl.jaas.config={jaas}",
        "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users=User:admin",
    )
    login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "log_level": 0}
    root = AdminClient(
        {"bootstrap.servers": pair.nodes[1].bootstrap, **login, "sasl.username": "admin", "sasl.password": "secret"}
    )
    alice = UserScramCredentialUpsertion("alice", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4_096), b"wonder")
    root.alter_user_scram_credentials([alice])["alice"].result(PATIENCE_S)
    for future in root.create_topics([LibrdkafkaTopic("seen", 1, 1), LibrdkafkaTopic("hidden", 1, 1)]).values():
        future.result(PATIENCE_S)
    rule = AclBinding(
        *(ResourceType.TOPIC, "seen", ResourcePatternType.LITERAL, "User:alice", "*"),
        *(AclOperation.DESCRIBE, AclPermissionType.ALLOW),
    )
    root.create_acls([rule])[rule].result(PATIENCE_S)
    login |= {"sasl.mechanism": "SCRAM-SHA-256", "sasl.username": "alice", "sasl.password": "wonder"}
    user = AdminClient({"bootstrap.servers": pair.nodes[2].bootstrap, **login})
    until(lambda: set(user.list_topics(timeout=PATIENCE_S).topics) == {"seen"})
    stranger = AdminClient({"bootstrap.servers": pair.nodes[2].bootstrap, **login, "sasl.password": "wrong"})
    with pytest.raises(KafkaException):
        stranger.list_topics(timeout=GIVES_UP_MS / 1000)
    client = WireBroker(pair.nodes[2].bootstrap)
    client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    client.ask(SaslAuthenticateRequest(auth_bytes=b"\0admin\0secret"), 2)
    pair.nodes[1].kill()
    until(lambda: pair.leader == 2)
    assert client.ask(MetadataRequest(topics=[]), 12).controller_id == 2
    assert _create_topic(client, "another") == ErrorCode.NONE
    client.close()
    again = AdminClient({"bootstrap.servers": pair.nodes[2].bootstrap, **login})
    assert set(again.list_topics(timeout=PATIENCE_S).topics) == {"seen"}
