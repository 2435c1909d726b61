"""`oncelog graduate` of a broker with TLS, logins and rights: on Apache Kafka the same clients get in with what they
have, may do what they might, and no other client may.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from oncelog import Acl, AuthenticationFailed, KafkaError, NewTopic, UserScramCredentialUpsertion
from oncelog.broker.config.settings import given_settings, load_config
from oncelog.client.admin.descriptions import DelegationToken
from oncelog.sync import Admin, Consumer, Producer
from oncelog.tools.graduate.graduation import Wish
from oncelog.tools.graduate.security import by_hand
from tests.support.kafka.server import Kafka, free_neighbours, free_ports, java_with_kafka
from tests.support.logs.graduation import done
from tests.support.processes.daemon import Daemon
from tests.support.security.secured import Certificates
from tests.support.security.tokens import Issuer

pytestmark = pytest.mark.kafka
PASSWORD, TOPIC = "pass;word=\\ with signs", "orders"
_QUOTED = PASSWORD.replace("\\", "\\\\")
_JAAS = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_admin="{_QUOTED}";'
_CERTIFIED = "User:certified"


@dataclass(frozen=True, slots=True)
class Moved:
    ports: dict[str, int]
    certificates: Certificates
    issuer: Issuer
    token: DelegationToken
    settings: Path

    def at(self, protocol: str) -> tuple[str, dict[str, Any]]:
        options: dict[str, Any] = {"security_protocol": protocol}
        if protocol != "PLAINTEXT":
            options["ssl_truststore_location"] = self.certificates.authority
        if protocol == "SSL":
            options["ssl_keystore_location"] = self.certificates.client
        return f"localhost:{self.ports[protocol]}", options

    def as_user(
        self, user: str, password: str = PASSWORD, mechanism: str = "SCRAM-SHA-512"
    ) -> tuple[str, dict[str, Any]]:
        address, options = self.at("SASL_SSL")
        login = {"sasl_mechanism": mechanism, "sasl_username": user, "sasl_password": password}
        return address, {**options, **login}

    def with_signed_token(self) -> tuple[str, dict[str, Any]]:
        """The address and options with a token that the issuer has signed for alice."""
        address, options = self.at("SASL_SSL")
        return address, {
            **options,
            "sasl_mechanism": "OAUTHBEARER",
            "sasl_oauth_token_provider": self.issuer.token,
        }


def overrides(ports: dict[str, int], directory: Path) -> tuple[str, ...]:
    clients = [name for name in ports if name not in ("controller", "node")]
    return (
        f"listeners={','.join(f'{name}://127.0.0.1:{ports[name]}' for name in clients)}",
        f"advertised.listeners={','.join(f'{name}://localhost:{ports[name]}' for name in clients)}",
        "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512,OAUTHBEARER",
        f"sasl.oauthbearer.jwks.endpoint.url={(directory / 'keys.json').as_uri()}",
        "sasl.oauthbearer.expected.audience=kafka",
        f"listener.name.sasl_ssl.plain.sasl.jaas.config={_JAAS}",
        "ssl.keystore.type=PEM",
        f"ssl.keystore.location={directory / 'broker.pem'}",
        "ssl.truststore.type=PEM",
        f"ssl.truststore.location={directory / 'ca.pem'}",
        "listener.name.ssl.ssl.client.auth=required",
        "ssl.principal.mapping.rules=RULE:^.*$/certified/",
        "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users=User:admin",
        "delegation.token.secret.key=a key",
        "offsets.topic.num.partitions=1",
        "transaction.state.log.num.partitions=1",
    )


@pytest.fixture(scope="module")
def moved(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Moved]:
    java_with_kafka()
    directory = tmp_path_factory.mktemp("secured")
    controller = free_neighbours(2)
    node = controller + 1  # the node's own listener takes the port after the controller's
    clients = dict(zip(("SASL_SSL", "SSL", "PLAINTEXT"), free_ports(3), strict=True))
    ports = {**clients, "controller": controller, "node": node}
    certificates, issuer = Certificates.make(directory), Issuer(now_s=int(time.time()))
    issuer.write_jwks(directory / "keys.json")
    settings = overrides(ports, directory)
    daemon = Daemon(directory / "data", *settings)
    try:
        before = Moved(ports, certificates, issuer, _nothing(), directory)
        token = make_past(before)
    finally:
        daemon.stop()
    config, _ = load_config(overrides=settings, cli={"log.dirs": str(directory / "data")})
    wish = Wish(
        directory / "data",
        config,
        given_settings(overrides=settings),
        directory / "kafka",
        ("127.0.0.1", controller),
    )
    written = done(wish)
    (left_to_us,) = by_hand(config)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JDK_JAVA_OPTIONS", left_to_us.partition("KAFKA_OPTS=")[2])  # what Kafka's script does with it
        kafka = Kafka(directory, formatted=(written, ports["PLAINTEXT"]))
    try:
        yield Moved(ports, certificates, issuer, token, written)
    finally:
        kafka.stop()


def _nothing() -> DelegationToken:
    return DelegationToken("", "", "", "", (), 0, 0, 0)


def make_past(broker: Moved) -> DelegationToken:
    address, options = broker.as_user("admin", mechanism="PLAIN")
    with Admin(address, **options) as admin:
        admin.create_topics(NewTopic(TOPIC, 1))
        for user in ("alice", "bob"):
            admin.alter_user_scram_credentials(UserScramCredentialUpsertion(user, PASSWORD))
        for principal in ("User:alice", _CERTIFIED):
            admin.create_acls(
                Acl(principal, "READ", "TOPIC", TOPIC),
                Acl(principal, "WRITE", "TOPIC", TOPIC),
                Acl(principal, "READ", "GROUP", "readers"),
                Acl(principal, "WRITE", "TRANSACTIONAL_ID", "payer"),
            )
    produce(broker.as_user("alice"), b"over SASL_SSL")
    produce(broker.at("SSL"), b"over SSL")
    produce(broker.with_signed_token(), b"by a signed token")
    assert consume(broker.as_user("alice"), 3) == [b"over SASL_SSL", b"over SSL", b"by a signed token"]
    address, options = broker.as_user("alice")
    with Admin(address, **options) as admin:
        return admin.create_delegation_token()


def produce(place: tuple[str, dict[str, Any]], value: bytes, transactional_id: str | None = None) -> None:
    address, options = place
    with Producer(address, transactional_id=transactional_id, **options) as producer:
        if transactional_id is None:
            producer.send(TOPIC, value)
            return
        with producer.transaction() as transaction:
            transaction.send(TOPIC, value)


def consume(place: tuple[str, dict[str, Any]], count: int) -> list[bytes | None]:
    """Consume as a member of a group, from the committed offset."""
    address, options = place
    found: list[bytes | None] = []
    reading: Any = {"group_id": "readers", "auto_offset_reset": "earliest", **options}
    with Consumer(TOPIC, bootstrap_servers=address, **reading) as consumer:
        while len(found) < count:
            found += [each.value for each in consumer.poll(5_000)]
        consumer.commit_sync()
    return found


def refused(place: tuple[str, dict[str, Any]]) -> KafkaError:
    with pytest.raises(KafkaError) as caught:
        produce(place, b"never")
    return caught.value


def test_clients_continue_with_their_credentials_rights_and_offsets(moved: Moved) -> None:
    produce(moved.as_user("alice"), b"on Kafka")
    produce(moved.at("SSL"), b"on Kafka over SSL")
    produce(moved.as_user("alice"), b"in a transaction", "payer")
    address, options = moved.as_user(moved.token.token_id, moved.token.hmac)
    produce((address, {**options, "sasl_tokenauth": True}), b"by a token")
    values = [b"on Kafka", b"on Kafka over SSL", b"in a transaction", b"by a token", b"by a signed token"]
    produce(moved.with_signed_token(), b"by a signed token")
    assert consume(moved.as_user("alice"), len(values)) == values
    address, options = moved.as_user("admin", mechanism="PLAIN")
    with Admin(address, **options) as admin:
        assert set(admin.describe_user_scram_credentials()) == {"alice", "bob"}


def test_no_other_user_gets_in_and_none_may_do_more(moved: Moved) -> None:
    assert isinstance(refused(moved.as_user("alice", "wrong")), AuthenticationFailed)
    address, options = moved.at("SSL")
    assert isinstance(refused((address, {**options, "ssl_keystore_location": None})), AuthenticationFailed)
    for place in (moved.as_user("bob"), moved.at("PLAINTEXT")):
        assert refused(place).name == "TOPIC_AUTHORIZATION_FAILED"


def test_on_the_listeners_of_the_node_only_the_node_logs_in(moved: Moved) -> None:
    for port in (moved.ports["node"], moved.ports["controller"]):
        login = {"security_protocol": "SASL_PLAINTEXT", "sasl_username": "admin", "sasl_password": PASSWORD}
        assert isinstance(refused((f"127.0.0.1:{port}", {**login, "sasl_mechanism": "PLAIN"})), AuthenticationFailed)
    assert moved.settings.parent.stat().st_mode & 0o077 == 0, "its password is in there"
