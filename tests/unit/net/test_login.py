"""Logins as requests on a connection: what is answered when, what a failure costs, what follows a login."""

import threading
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog.broker.apis.table import API_TABLE
from oncelog.broker.config.listeners import SecurityProtocol
from oncelog.broker.net.door import Door
from oncelog.broker.observability.metrics import COUNTERS
from oncelog.broker.security.principal import ANONYMOUS, Principal
from oncelog.broker.security.sasl_states import SaslState
from oncelog.broker.security.scram import SCRAM_MECHANISMS, ScramMechanism
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from oncelog.protocol.generated.fetch_request import FetchPartition, FetchRequest, FetchTopic
from oncelog.protocol.generated.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from oncelog.protocol.generated.metadata_request import MetadataRequest
from oncelog.protocol.generated.remove_user_scram_credential_record import RemoveUserScramCredentialRecord
from oncelog.protocol.generated.sasl_authenticate_request import SaslAuthenticateRequest
from oncelog.protocol.generated.user_scram_credential_record import UserScramCredentialRecord
from oncelog.protocol.headers import encode_request_header
from tests.clients.sasl_connection import JAAS, SaslClient, SaslServer
from tests.clients.scram_client import ScramClient, keys
from tests.fakes.broker import VirtualBroker
from tests.support.samples import examples
from tests.support.tables import rows

ALICE = Principal("User", "alice")
DELAY_MS = 100
BAD_TOKENS = (
    b"",
    b"alice",
    b"alice\0alice-secret",
    b"\0\0alice-secret",
    b"\0alice\0",
    b"\0alice\0alice-secret\0",
    b"\0alice\0ALICE-SECRET",
    b"\0alice\0alice-secret ",
    b"\0alice\0bob-secret",
    b"\0Alice\0alice-secret",
    b"\0nobody\0alice-secret",
    b"\0nobody\0\x00",
    b"bob\0alice\0alice-secret",
    b"\0alice\0\xff\xfe",
    b"\0" * 100_000,
)


def alter(server: SaslServer, mechanism: ScramMechanism, user: str, password: str | None) -> None:
    """The user gets this password; None: is deleted."""
    record: object = RemoveUserScramCredentialRecord(name=user, mechanism=mechanism.number)
    if password is not None:
        made = keys(mechanism, password, b"salt", 4_096)
        record = UserScramCredentialRecord(
            name=user,
            mechanism=mechanism.number,
            salt=b"salt",
            stored_key=made.stored_key,
            server_key=made.server_key,
            iterations=4_096,
        )
    server.virtual.broker.metadata.write([record])


def metadata(client: SaslClient) -> bool:
    """Whether a request that needs a login is answered."""
    return client.ask(MetadataRequest(topics=None), 9) is not None


def reach(state: SaslState) -> SaslClient:
    client = SaslServer().connect()
    if state is SaslState.HANDSHAKE:
        client.api_versions()
    elif state is SaslState.RAW_TOKENS:
        client.handshake("PLAIN", 0)
    elif state is SaslState.TOKENS:
        client.handshake("PLAIN")
    elif state is SaslState.FAILED:
        client.handshake("PLAIN")
        client.token(b"\0alice\0wrong")
    return client


def test_a_login_by_plain_sets_the_principal_and_opens_all_requests() -> None:
    client = SaslServer().connect()
    assert client.api_versions().error_code == 0
    assert client.handshake("PLAIN").mechanisms == ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
    assert client.principal == ANONYMOUS
    answer = client.token(b"\0alice\0alice-secret")
    assert (answer.error_code, answer.auth_bytes, answer.session_lifetime_ms) == (0, b"", 0)
    assert client.principal == ALICE
    assert metadata(client)


def test_the_older_form_with_tokens_as_frames_is_answered_with_frames() -> None:
    client = SaslServer().connect()
    assert client.handshake("PLAIN", 0).error_code == 0
    client.send(b"alice\0alice\0alice-secret")
    assert client.principal == ALICE
    assert metadata(client)


@pytest.mark.parametrize(
    "state", [SaslState.INITIAL, SaslState.HANDSHAKE, SaslState.RAW_TOKENS, SaslState.TOKENS, SaslState.FAILED]
)
@rows("key", [*ApiKey, 9_999])
def test_before_the_login_no_request_is_answered_but_for_the_three_in_their_states(state: SaslState, key: int) -> None:
    """The faults were redpanda#1331, and the METADATA during a handshake of bitnami/charts#25129."""
    answered = {
        SaslState.INITIAL: {ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE},
        SaslState.HANDSHAKE: {ApiKey.SASL_HANDSHAKE},
        SaslState.TOKENS: {ApiKey.SASL_AUTHENTICATE},
    }.get(state, set())
    client = reach(state)
    version = API_TABLE[key].minimum if key in API_TABLE else 0
    before = client.answer()
    header = encode_request_header(key, version, 7, "client", False)
    body = b"\0\0\0\x05alice" if key == ApiKey.SASL_AUTHENTICATE else b"\0\x05PLAIN" + bytes(20)
    sent = client.send(header + body)
    client.virtual.time.advance(DELAY_MS)
    sent += client.answer()
    assert before == b""
    if key in answered:
        assert sent
    else:
        assert client.is_closed
        assert client.principal == ANONYMOUS
        if state is not SaslState.FAILED:  # the failure itself is answered
            assert sent == b""


@pytest.mark.parametrize("token", BAD_TOKENS)
def test_a_bad_token_is_refused_after_the_delay_and_the_connection_closed(token: bytes) -> None:
    client = SaslServer().connect()
    client.handshake("PLAIN")
    assert client.token(token) is None
    client.virtual.time.advance(DELAY_MS - 1)
    assert client.answer() == b""
    assert not client.is_closed
    client.virtual.time.advance(1)
    assert client.answer()
    assert client.is_closed
    assert client.principal == ANONYMOUS


def test_unknown_users_wrong_passwords_and_other_identities_get_the_same_error() -> None:
    """CVE-2017-12610: a user acts as another by the authorization id."""
    texts = set()
    for token in (b"\0nobody\0alice-secret", b"\0alice\0wrong", b"bob\0alice\0alice-secret"):
        client = SaslServer().connect()
        client.handshake("PLAIN")
        refusal = client.token(token, after_ms=DELAY_MS)
        texts.add((refusal.error_code, refusal.error_message))
    assert texts == {(ErrorCode.SASL_AUTHENTICATION_FAILED, "Authentication failed: Invalid username or password")}


def test_many_failed_logins_wait_without_a_thread_and_leave_nothing() -> None:
    server = SaslServer()
    timers, threads = server.virtual.time.timer_count, threading.active_count()
    clients = [server.connect() for _ in range(300)]
    for client in clients:
        client.handshake("PLAIN")
        client.token(b"\0alice\0wrong")
    assert server.virtual.time.timer_count <= timers + 2 * len(clients) + 1, (
        "the delay, the time to log in, one for idle"
    )
    assert threading.active_count() == threads
    server.virtual.time.advance(DELAY_MS)
    assert all(client.is_closed for client in clients)
    assert len(server.open) == 0
    assert server.virtual.time.timer_count <= timers + 1


def test_a_mechanism_that_is_not_enabled_is_refused_with_those_that_are() -> None:
    client = SaslServer(mechanisms="PLAIN").connect()
    refusal = client.handshake("SCRAM-SHA-256", after_ms=DELAY_MS)
    assert (refusal.error_code, refusal.mechanisms) == (ErrorCode.UNSUPPORTED_SASL_MECHANISM, ["PLAIN"])
    assert client.is_closed


def test_versions_of_the_handshake_are_those_that_old_clients_can_choose() -> None:
    """KAFKA-9577: a client took the broker's highest; sarama#1992: v0 with SCRAM; librdkafka asks for v0."""
    api = API_TABLE[ApiKey.SASL_HANDSHAKE]
    assert (api.minimum, api.maximum) == (0, 1)


def test_what_was_sent_behind_a_failed_login_is_not_served() -> None:
    client = SaslServer().connect()
    client.handshake("PLAIN")
    client.connection.data_received(
        b"".join(
            len(data).to_bytes(4, "big") + data
            for data in (
                bytes(client.virtual.frame(request, version))
                for request, version in (
                    (SaslAuthenticateRequest(auth_bytes=b"\0alice\0wrong"), 2),
                    (SaslAuthenticateRequest(auth_bytes=b"\0alice\0alice-secret"), 2),
                    (MetadataRequest(topics=None), 9),
                )
            )
        )
    )
    client.virtual.time.advance(DELAY_MS)
    assert len(client.answer()) < 150
    assert client.is_closed
    assert client.principal == ANONYMOUS


def test_what_was_sent_behind_a_login_is_served_after_it() -> None:
    client = SaslServer().connect()
    client.handshake("PLAIN")
    frames = [
        bytes(client.virtual.frame(SaslAuthenticateRequest(auth_bytes=b"\0alice\0alice-secret"), 2)),
        bytes(client.virtual.frame(MetadataRequest(topics=None), 9)),
    ]
    client.connection.data_received(b"".join(len(data).to_bytes(4, "big") + data for data in frames))
    assert len(client.answer()) > 50
    assert client.principal == ALICE


@pytest.mark.parametrize("announced", [524_289, 100 << 20, 2**31 - 1])
def test_a_request_above_the_limit_closes_a_connection_before_its_login_and_takes_no_memory(announced: int) -> None:
    """CVE-2022-34917: what is announced before a login is not allocated."""
    server = SaslServer()
    client = server.connect()
    client.connection.data_received(announced.to_bytes(4, "big") + bytes(100))
    client.virtual.time.settle()
    assert client.is_closed
    assert server.open.requests.used_bytes == 0


def test_the_limit_of_requests_is_the_general_one_after_the_login() -> None:
    client = SaslServer().connect()
    client.log_in()
    client.connection.data_received((1 << 20).to_bytes(4, "big") + bytes(100))
    assert not client.is_closed


def test_a_login_that_is_not_finished_in_time_is_ended() -> None:
    server = SaslServer("oncelog.authentication.timeout.ms=5000")
    half_way, done = server.connect(), server.connect()
    half_way.handshake("PLAIN")
    done.log_in()
    server.virtual.time.advance(5_000)
    assert (half_way.is_closed, done.is_closed) == (True, False)


def test_without_sessions_a_second_handshake_is_refused_and_the_connection_continues() -> None:
    """nisshi#665 rejected it as a mechanism that is not supported."""
    client = SaslServer().connect()
    client.log_in()
    assert client.handshake("PLAIN").error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert client.token(b"\0bob\0bob-secret").error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert client.principal == ALICE
    assert metadata(client)


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("mechanism", SCRAM_MECHANISMS.values(), ids=lambda each: each.name)
def test_a_user_of_scram_logs_in_with_the_keys_in_the_metadata_log(mechanism: ScramMechanism, version: int) -> None:
    """sarama#1992: also by tokens as frames of their own."""
    server = SaslServer()
    client = server.connect()
    alter(server, mechanism, "alice", "pencil")
    scram = ScramClient(mechanism, "alice", "pencil")
    client.handshake(mechanism.name, version)
    if version == 0:
        final = client.send(scram.final(client.send(scram.first)))
    else:
        final = client.token(scram.final(client.token(scram.first).auth_bytes)).auth_bytes
    assert final == scram.expected
    assert client.principal == ALICE


def test_a_changed_or_deleted_user_cannot_log_in_by_the_old_password() -> None:
    server = SaslServer()
    mechanism = SCRAM_MECHANISMS["SCRAM-SHA-512"]

    def logs_in(password: str) -> bool:
        client, scram = server.connect(), ScramClient(mechanism, "alice", password)
        client.handshake(mechanism.name)
        answer = client.token(scram.final(client.token(scram.first).auth_bytes), after_ms=DELAY_MS)
        assert (answer.error_code == 0) is (client.principal == ALICE)
        return client.principal == ALICE

    assert not logs_in("old")
    alter(server, mechanism, "alice", "old")
    assert logs_in("old")
    alter(server, mechanism, "alice", "new")
    assert (logs_in("old"), logs_in("new")) == (False, True)
    alter(server, mechanism, "alice", None)
    assert not logs_in("new")


def test_an_unknown_user_has_the_same_challenge_at_every_listener() -> None:
    """A known user's is the same there too: other salts at another listener would give away the unknown ones."""
    server = SaslServer()
    other = Door(server.virtual.broker, server._dispatcher, "SASL_PLAINTEXT", SecurityProtocol.SASL_PLAINTEXT)
    mechanism = SCRAM_MECHANISMS["SCRAM-SHA-512"]
    salts = set()
    for door in (server._door, other):
        server._door = door
        client = server.connect()
        client.handshake(mechanism.name)
        challenge = bytes(client.token(ScramClient(mechanism, "nobody", "").first).auth_bytes).decode()
        salts.add(challenge.split(",")[1])
    assert len(salts) == 1


def test_users_of_plain_may_change_while_the_broker_runs_and_no_description_shows_them() -> None:
    server = SaslServer()
    name, line = JAAS.partition("=")[::2]
    changed = AlterableConfig(name=name, config_operation=0, value=line.replace("alice-secret", "another-secret"))
    resource = AlterConfigsResource(resource_type=4, resource_name="1", configs=[changed])
    (altered,) = server.virtual.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
    assert altered.error_code == 0
    client = server.connect()
    client.handshake("PLAIN")
    client.token(b"\0alice\0another-secret")
    assert client.principal == ALICE
    wanted = DescribeConfigsResource(resource_type=4, resource_name="1", configuration_keys=None)
    (described,) = server.virtual.ask(DescribeConfigsRequest(resources=[wanted], include_synonyms=True), 4).results
    assert "-secret" not in repr(described)
    shown = {entry.name: (entry.value, entry.is_sensitive) for entry in described.configs}
    for secret in (name, "sasl.jaas.config", "ssl.keystore.password", "ssl.key.password", "ssl.keystore.key"):
        assert shown[secret] == (None, True)


def logins(virtual: VirtualBroker) -> Mapping[str, int]:
    """The counters of logins that are not 0."""
    names = [name for name in COUNTERS if "login" in name or "renewal" in name or name.endswith("_expired")]
    return {name: count for name in names if (count := getattr(virtual.broker.metrics, name))}


class TestCounters:
    """Each login is counted once, by its outcome, as Kafka's authentication metrics do."""

    def test_a_login_counts_once(self) -> None:
        client = SaslServer().connect()
        client.log_in()
        assert metadata(client)
        assert logins(client.virtual) == {"logins": 1}

    @pytest.mark.parametrize(
        ("mechanism", "version", "token"),
        [("PLAIN", 1, b"\0alice\0wrong"), ("PLAIN", 0, b"\0alice\0wrong"), ("GSSAPI", 1, None)],
    )
    def test_a_failure_counts_once(self, mechanism: str, version: int, token: bytes | None) -> None:
        client = SaslServer().connect()
        client.handshake(mechanism, version)
        if token is not None and version:
            client.token(token, after_ms=DELAY_MS)
        elif token is not None:
            client.send(token)
        assert logins(client.virtual) == {"logins_failed": 1}

    def test_a_request_before_the_login_is_a_failure(self) -> None:
        client = SaslServer().connect()
        assert not metadata(client)
        assert logins(client.virtual) == {"logins_failed": 1}

    def test_a_renewal_a_failed_one_and_an_expired_session_count_as_such(self) -> None:
        server = SaslServer("connections.max.reauth.ms=60000")
        renewing, failing, expired = (server.connect() for _ in range(3))
        for client in (renewing, failing, expired):
            client.log_in()
        server.virtual.time.advance(30_000)
        renewing.log_in()
        failing.handshake("PLAIN")
        failing.token(b"\0bob\0bob-secret", after_ms=DELAY_MS)
        server.virtual.time.advance(59_000)
        assert metadata(renewing)
        assert not metadata(expired)
        assert logins(server.virtual) == {
            "logins": 3,
            "logins_renewed": 1,
            "renewals_failed": 1,
            "connections_closed_expired": 1,
        }


class TestSessions:
    """KIP-368."""

    server = staticmethod(
        lambda: SaslServer(
            "connections.max.reauth.ms=60000", "listener.name.sasl_plaintext.scram-sha-256.connections.max.reauth.ms=1"
        )
    )

    def test_a_session_has_its_length_and_ends_at_the_next_request_after_it(self) -> None:
        client = self.server().connect()
        assert client.log_in().session_lifetime_ms == 60_000
        client.virtual.time.advance(60_000)
        assert metadata(client)
        client.virtual.time.advance(1)
        assert not metadata(client)
        assert client.is_closed

    def test_the_same_user_may_log_in_again_before_or_after_the_end(self) -> None:
        client = self.server().connect()
        client.log_in()
        for pause_ms in (30_000, 59_999, 90_000):
            client.virtual.time.advance(pause_ms)
            assert client.log_in().session_lifetime_ms == 60_000
            assert metadata(client)

    def test_another_user_is_refused(self) -> None:
        """KIP-368: a connection is one user's, whose rights its sessions have."""
        client = self.server().connect()
        client.log_in()
        client.handshake("PLAIN")
        refusal = client.token(b"\0bob\0bob-secret", after_ms=DELAY_MS)
        text = "Cannot change principals during re-authentication from User.alice: User.bob"
        assert (refusal.error_code, refusal.error_message) == (ErrorCode.SASL_AUTHENTICATION_FAILED, text)
        assert client.is_closed

    def test_another_mechanism_is_refused(self) -> None:
        client = self.server().connect()
        client.log_in()
        assert client.handshake("SCRAM-SHA-256").error_code == 0
        assert "not supported for re-authentication" in client.token(b"n,,n=alice,r=x", after_ms=DELAY_MS).error_message
        assert client.is_closed

    def test_within_a_second_no_other_login_begins(self) -> None:
        client = self.server().connect()
        client.log_in()
        client.log_in()
        client.virtual.time.advance(999)
        assert client.handshake("PLAIN").error_code == ErrorCode.ILLEGAL_SASL_STATE
        client.virtual.time.advance(1)
        assert client.handshake("PLAIN").error_code == 0

    def test_a_login_that_begins_while_a_fetch_waits_comes_after_it(self) -> None:
        """nisshi#665: consumers, whose connections nearly always have a Fetch that waits, lost them at each login."""
        server = self.server()
        server.virtual.broker.topics.create("orders", 1)
        client = server.connect()
        client.log_in()
        partitions = [FetchPartition(partition=0, partition_max_bytes=1_000)]
        topics = [FetchTopic(topic="orders", partitions=partitions)]
        assert client.ask(FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=1_000, topics=topics), 12) is None
        assert client.handshake("PLAIN") is None
        client.virtual.time.advance(500)
        assert len(client.answer()) > 50
        assert client.token(b"\0alice\0alice-secret").session_lifetime_ms == 60_000
        assert metadata(client)

    def test_during_another_login_nothing_else_is_served(self) -> None:
        client = self.server().connect()
        client.log_in()
        client.handshake("PLAIN")
        assert not metadata(client)
        client.virtual.time.advance(DELAY_MS)
        assert client.is_closed


@settings(max_examples=examples(200))
@given(st.lists(st.binary(max_size=60), max_size=4), st.sampled_from(SaslState))
def test_no_bytes_before_a_login_get_a_principal_or_an_error_of_ours(frames: list[bytes], state: SaslState) -> None:
    client = reach(state)
    for frame in frames:
        if not client.is_closed:
            client.send(frame)
            client.virtual.time.advance(DELAY_MS)
    assert client.principal == ANONYMOUS
    assert not [line for line in client.virtual.warnings if line["event"] == "request.failed"]


def test_no_log_line_has_a_password_or_a_token() -> None:
    client = SaslServer().connect()
    client.handshake("PLAIN")
    client.token(b"\0alice\0very-secret-guess", after_ms=DELAY_MS)
    assert client.virtual.warnings
    assert "secret" not in str(client.virtual.warnings)
