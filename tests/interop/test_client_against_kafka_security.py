"""Our client with TLS and SASL, against our daemon and Apache Kafka: who is let in, and what is said to others."""

import logging
import time
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from oncelog import sync
from oncelog.cli import main
from oncelog.client import (
    Admin,
    AuthenticationFailed,
    ClientQuota,
    ConfigError,
    Consumer,
    ConsumerOptions,
    KafkaError,
    NewTopic,
    Producer,
    TransactionalSession,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from oncelog.client.wire.security import SaslMechanism, SecurityProtocol
from oncelog.client.wire.transport import Transport
from oncelog.tools.kafka_scripts.__main__ import main as script_main
from tests.support.kafka.server import ON_BOTH
from tests.support.security.counted_logins import counted_logins
from tests.support.security.secured import PASSWORD, USER, Secured, secured

LOGINS: tuple[tuple[SecurityProtocol, SaslMechanism | None], ...] = (
    ("PLAINTEXT", None),
    ("SSL", None),
    ("SASL_PLAINTEXT", "SCRAM-SHA-256"),
    ("SASL_SSL", "PLAIN"),
    ("SASL_SSL", "SCRAM-SHA-256"),
    ("SASL_SSL", "SCRAM-SHA-512"),
    ("SASL_SSL", "OAUTHBEARER"),
)
PROTOCOLS: tuple[SecurityProtocol, ...] = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


@pytest.fixture(scope="module", params=ON_BOTH)
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with secured(request.param, tmp_path_factory.mktemp(request.param)) as running:
        yield running


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("protocol", "mechanism"), LOGINS)
async def test_every_client_works_over_every_protocol(
    broker: Secured, protocol: SecurityProtocol, mechanism: SaslMechanism | None
) -> None:
    options, address = broker.options(protocol, mechanism), broker.addresses[protocol]
    name = f"{protocol}-{mechanism}"
    async with Admin(address, **options) as admin:
        await admin.create_topics(NewTopic(name, 1, 1), NewTopic(f"{name}-out", 1, 1))
    async with Producer(address, **options) as producer:
        await producer.send(name, b"value")
    session = TransactionalSession(name, bootstrap_servers=address, group_id=name, **options)
    async with session:
        async for batch in session:
            async with batch:
                for record in batch:
                    await batch.send_soon(f"{name}-out", record.value)
            break
    with sync.Consumer(f"{name}-out", bootstrap_servers=address, auto_offset_reset="earliest", **options) as consumer:
        assert [each.value for each in consumer.next_batch()] == [b"value"]


async def failure(address: str, **options: Any) -> KafkaError:
    """The error with which an Admin fails to open, within a second or the time that a slow machine takes for one."""
    begun_s = time.monotonic()
    with pytest.raises(KafkaError) as caught:
        async with Admin(address, **options):
            pass
    assert time.monotonic() - begun_s < 10
    assert PASSWORD not in str(caught.value)
    return caught.value


@pytest.mark.parametrize(("configured", "spoken"), [*permutations(PROTOCOLS, 2)])
async def test_a_listener_of_another_protocol_is_recognised(
    broker: Secured, spoken: SecurityProtocol, configured: SecurityProtocol
) -> None:
    error = await failure(
        broker.addresses[spoken], **broker.options(configured, "PLAIN" if "SASL" in configured else None)
    )
    if isinstance(error, ConfigError):
        assert f"speaks {spoken}" in str(error)
        assert f"security_protocol={spoken!r}" in error.hint
    else:
        # A login is refused by name where no user may log in, and TLS where a certificate is wanted.
        assert isinstance(error, AuthenticationFailed)
        assert (configured, spoken) in {("SASL_PLAINTEXT", "PLAINTEXT"), ("SASL_SSL", "SSL")}


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("wrong", [{"sasl_password": "wrong"}, {"sasl_username": "bob"}], ids=["password", "user"])
async def test_a_wrong_password_is_fatal_at_once(
    broker: Secured, mechanism: SaslMechanism, wrong: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    options = {**broker.options("SASL_PLAINTEXT", mechanism), **wrong}
    error = await failure(broker.addresses["SASL_PLAINTEXT"], **options)
    assert isinstance(error, AuthenticationFailed)
    assert f"user {options['sasl_username']!r}: Authentication failed" in str(error)
    assert f"credentials for {mechanism}" in error.hint
    assert PASSWORD not in caplog.text


async def test_a_token_that_is_no_more_valid_is_refused_with_the_brokers_reason(broker: Secured) -> None:
    options = {**broker.options("SASL_SSL", "OAUTHBEARER"), "sasl_oauth_token_provider": lambda: broker.token(-60)}
    error = await failure(broker.addresses["SASL_SSL"], **options)
    assert isinstance(error, AuthenticationFailed)
    assert "the token is not accepted: " in str(error)


async def test_a_certificate_of_an_unknown_authority_is_not_accepted(broker: Secured) -> None:
    options: Any = {**broker.options("SASL_SSL", "PLAIN"), "ssl_truststore_location": None}
    error = await failure(broker.addresses["SASL_SSL"], **options)
    assert isinstance(error, AuthenticationFailed)
    assert "is not accepted: " in str(error)
    assert "ssl_truststore_location" in error.hint


async def test_a_certificate_for_another_host_is_not_accepted_unless_the_program_says_so(broker: Secured) -> None:
    options: Any = broker.options("SASL_SSL", "PLAIN")
    address = broker.addresses["SASL_SSL"].replace("localhost", "127.0.0.1")
    error = await failure(address, **options)
    assert isinstance(error, AuthenticationFailed)
    assert "127.0.0.1" in str(error)
    assert "ssl_endpoint_identification_algorithm" in error.hint
    async with Admin(address, **{**options, "ssl_endpoint_identification_algorithm": ""}) as admin:
        assert (await admin.describe_cluster()).nodes


async def test_a_client_without_the_certificate_that_a_listener_asks_for_gets_that_error(broker: Secured) -> None:
    error = await failure(broker.addresses["SSL"], **{**broker.options("SSL"), "ssl_keystore_location": None})
    assert isinstance(error, AuthenticationFailed)
    assert "ssl_keystore_location" in error.hint


async def test_a_login_is_repeated_beside_a_fetch_that_waits_and_no_connection_is_lost(
    broker: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker closes a connection at its first request after the end of the session."""
    logins = counted_logins(monkeypatch)
    options, address = broker.options("SASL_PLAINTEXT", "SCRAM-SHA-256"), broker.addresses["SASL_PLAINTEXT"]
    reading = ConsumerOptions(bootstrap_servers=address, auto_offset_reset="earliest", fetch_max_wait_ms=900)
    sent, read = [], []
    async with Admin(address, **options) as admin:
        await admin.create_topics(NewTopic("sessions", 1, 1))
    async with Producer(address, **options) as producer, Consumer("sessions", **reading, **options) as consumer:
        await producer.send("sessions", b"first")
        read += await consumer.poll(10_000)
        opened = [*connections(producer), *connections(consumer)]
        logins_before = logins.count
        while logins.count < 3 * logins_before:
            sent.append(b"%d" % len(sent))
            delivery = await producer.send_soon("sessions", sent[-1])
            read += await consumer.poll(10_000)
            await delivery
        assert [*connections(producer), *connections(consumer)] == opened
    assert [each.value for each in read] == [b"first", *sent]


def connections(client: Producer | Consumer) -> list[Transport]:
    return [each for each in client._cluster.connections._transports.values() if each.is_open]


async def is_admitted(address: str, options: Any) -> bool:
    try:
        async with Admin(address, **options):
            return True
    except AuthenticationFailed:
        return False


async def until_admitted(address: str, options: Any) -> None:
    """Kafka answers when a change is logged, and its broker learns of it a moment later."""
    while not await is_admitted(address, options):
        pass


async def test_a_user_that_an_admin_makes_can_log_in_until_it_is_deleted(broker: Secured) -> None:
    bob = UserScramCredentialUpsertion("bob", "bob-secret", iterations=4_096)
    assert "bob-secret" not in repr(bob)
    options: Any = {
        **broker.options("SASL_PLAINTEXT", "SCRAM-SHA-512"),
        "sasl_username": "bob",
        "sasl_password": "bob-secret",
    }
    address = broker.addresses["SASL_PLAINTEXT"]
    async with Admin(broker.addresses["PLAINTEXT"]) as admin:
        await admin.alter_user_scram_credentials(bob)
        await until_admitted(address, options)
        everybody = await admin.describe_user_scram_credentials()
        assert everybody == {USER: {"SCRAM-SHA-256": 8_192, "SCRAM-SHA-512": 4_096}, "bob": {"SCRAM-SHA-512": 4_096}}
        assert await admin.describe_user_scram_credentials("bob", "nobody") == {"bob": {"SCRAM-SHA-512": 4_096}}
        await admin.alter_user_scram_credentials(UserScramCredentialDeletion("bob"))
        while await is_admitted(address, options):
            pass
        for wrong, said in (
            (UserScramCredentialDeletion("bob"), "RESOURCE_NOT_FOUND: user 'bob'"),
            (UserScramCredentialUpsertion("bob", "x", iterations=20_000), "UNACCEPTABLE_CREDENTIAL: user 'bob'"),
            (UserScramCredentialUpsertion("", "x"), "UNACCEPTABLE_CREDENTIAL: user ''"),
            (UserScramCredentialUpsertion("bob", ""), "a password, .* needed"),
            (UserScramCredentialUpsertion("bob", "x", "PLAIN"), "must be one of 'SCRAM-SHA-256'"),  # type: ignore[arg-type]
        ):
            with pytest.raises(ConfigError, match=said):
                await admin.alter_user_scram_credentials(wrong)


async def test_a_user_that_is_deleted_gets_that_error_in_the_middle_of_its_work(broker: Secured) -> None:
    """The error comes at the end of the session: a client that kept trying would look as if there were nothing to
    read.
    """
    options: Any = {**broker.options("SASL_PLAINTEXT", "SCRAM-SHA-256"), "sasl_username": "eve", "sasl_password": "pw"}
    address = broker.addresses["SASL_PLAINTEXT"]
    async with Admin(broker.addresses["PLAINTEXT"]) as admin:
        await admin.create_topics(NewTopic("deleted-user", 1, 1))
        await admin.alter_user_scram_credentials(UserScramCredentialUpsertion("eve", "pw", "SCRAM-SHA-256"))
        await until_admitted(address, options)
        async with Producer(address, **options) as producer:
            async with Consumer("deleted-user", bootstrap_servers=address, **options) as consumer:
                await producer.send("deleted-user", b"value")
                await consumer.poll(0)
                await admin.alter_user_scram_credentials(UserScramCredentialDeletion("eve", "SCRAM-SHA-256"))
                with pytest.raises(AuthenticationFailed, match="user 'eve'"):
                    while True:
                        await consumer.poll(60_000)
            with pytest.raises(AuthenticationFailed, match="user 'eve'"):
                while True:
                    await producer.send("deleted-user", b"value")


async def test_quotas_are_set_found_and_removed_by_whom_they_are_for(broker: Secured) -> None:
    async with Admin(broker.addresses["PLAINTEXT"]) as admin:
        await admin.alter_client_quotas({"user": USER}, {"producer_byte_rate": 1_048_576, "consumer_byte_rate": 2e6})
        await admin.alter_client_quotas({"user": USER, "client-id": None}, {"request_percentage": 50})
        await admin.alter_client_quotas({"user": "bob"}, {"producer_byte_rate": 1}, validate_only=True)
        own = ClientQuota({"user": USER}, {"producer_byte_rate": 1_048_576, "consumer_byte_rate": 2e6})
        default = ClientQuota({"user": USER, "client-id": None}, {"request_percentage": 50})
        found = await admin.describe_client_quotas()
        while len(found) < 2:  # Kafka's broker learns of a change a moment after it is answered
            found = await admin.describe_client_quotas()
        assert sorted(found, key=lambda each: len(each.entity)) == [own, default]
        assert await admin.describe_client_quotas({"user": USER}, strict=True) == [own]
        assert await admin.describe_client_quotas({"client-id": None}, any_of=["user"]) == [default]
        assert await admin.describe_client_quotas({"user": "bob"}) == []
        with pytest.raises(ConfigError, match=f"user '{USER}': "):
            await admin.alter_client_quotas({"user": USER}, {"no_such_rate": 1})
        await admin.alter_client_quotas({"user": USER}, {"producer_byte_rate": None, "consumer_byte_rate": None})
        await admin.alter_client_quotas({"user": USER, "client-id": None}, {"request_percentage": None})
        while await admin.describe_client_quotas():
            pass


async def test_a_delegation_token_logs_in_as_its_owner_until_it_is_expired(broker: Secured) -> None:
    address, alice = broker.addresses["SASL_PLAINTEXT"], broker.options("SASL_PLAINTEXT", "SCRAM-SHA-512")
    async with Admin(address, **alice) as admin:
        token = await admin.create_delegation_token(renewers=["User:bob"], max_lifetime_ms=3_600_000)
        assert (token.owner, token.requester, token.renewers) == (f"User:{USER}", f"User:{USER}", ("User:bob",))
        assert token.max_time_ms - token.issue_time_ms == 3_600_000
        options: Any = {**alice, "sasl_username": token.token_id, "sasl_password": token.hmac, "sasl_tokenauth": True}
        await until_admitted(address, options)
        assert await admin.describe_delegation_tokens() == [token]
        assert await admin.describe_delegation_tokens(f"User:{USER}") == [token]
        assert await admin.describe_delegation_tokens("User:eve") == []
        async with Admin(address, **options) as worker:
            assert (await worker.describe_cluster()).nodes
            with pytest.raises(ConfigError, match="REQUEST_NOT_ALLOWED"):
                await worker.create_delegation_token()
        without: Any = {**options, "sasl_tokenauth": False}
        assert isinstance(await failure(address, **without), AuthenticationFailed)
        assert await admin.renew_delegation_token(token.hmac) <= token.max_time_ms
        with pytest.raises(ConfigError, match="DELEGATION_TOKEN_NOT_FOUND"):
            await admin.renew_delegation_token("c2VjcmV0")
        await admin.expire_delegation_token(token.hmac)
        while await is_admitted(address, options):
            pass
        assert "delegation token" in str(await failure(address, **options))
        assert await admin.describe_delegation_tokens() == []
    async with Admin(broker.addresses["PLAINTEXT"]) as admin:
        with pytest.raises(ConfigError, match="REQUEST_NOT_ALLOWED"):
            await admin.create_delegation_token()


@pytest.fixture
def properties(broker: Secured, tmp_path: Path) -> Path:
    """Write a file of settings as people have it for Kafka's own scripts."""
    line = f'org.apache.kafka.common.security.scram.ScramLoginModule required username="{USER}" password="{PASSWORD}";'
    file = tmp_path / "client.properties"
    file.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\nssl.truststore.type=PEM\n"
        f"ssl.truststore.location={broker.certificates.authority}\nsasl.jaas.config={line}\n"
    )
    return file


@pytest.mark.parametrize(
    "arguments",
    [
        ("health",),
        ("topic", "list"),
        ("cluster", "describe"),
        ("doctor",),
        ("record", "consume", "commanded", "--exit"),
    ],
    ids=" ".join,
)
def test_a_command_takes_the_file_of_kafkas_scripts(
    broker: Secured, properties: Path, arguments: tuple[str, ...]
) -> None:
    address = broker.addresses["SASL_SSL"]
    with sync.Producer(address, **broker.options("SASL_SSL", "PLAIN")) as producer:
        producer.send("commanded", b"value")
    done = CliRunner().invoke(main, [*arguments, "-b", address, "--command-config", str(properties)])
    assert done.exit_code == 0, done.output
    assert PASSWORD not in done.output


def test_a_command_without_security_says_what_the_listener_speaks(broker: Secured) -> None:
    done = CliRunner().invoke(main, ["topic", "list", "-b", broker.addresses["SASL_SSL"]])
    assert done.exit_code == 2
    assert "speaks SASL_SSL, with OAUTHBEARER, PLAIN, SCRAM-SHA-256, SCRAM-SHA-512" in done.output


def test_a_command_with_a_wrong_password_of_the_environment_fails_with_the_brokers_reason(broker: Secured) -> None:
    variables = {
        "ONCELOG_SECURITY_PROTOCOL": "SASL_PLAINTEXT",
        "ONCELOG_SASL_MECHANISM": "PLAIN",
        "ONCELOG_SASL_USERNAME": USER,
        "ONCELOG_SASL_PASSWORD": "wrong-password",
    }
    address = broker.addresses["SASL_PLAINTEXT"]
    done = CliRunner().invoke(main, ["topic", "list", "-b", address], env=variables)
    assert done.exit_code == 2
    assert "Authentication failed: Invalid username or password" in done.output
    assert "wrong-password" not in done.output


def test_kafkas_scripts_take_their_file_here_too(
    broker: Secured, properties: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    line = ["--bootstrap-server", broker.addresses["SASL_SSL"], "--command-config", str(properties)]
    for script in (["kafka-topics", "--list"], ["kafka-broker-api-versions"], ["kafka-get-offsets"]):
        assert script_main([*script, *line]) == 0, capfd.readouterr().err
    address = broker.addresses["SASL_SSL"]
    assert script_main(["cub", "kafka-ready", "-b", address, "-c", str(properties), "-s", "SASL_SSL", "1", "5"]) == 0
