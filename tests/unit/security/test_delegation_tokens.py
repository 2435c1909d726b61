"""Delegation tokens: who gets, sees and changes them, and as whom and until when they log in."""

import hashlib
import hmac
from base64 import b64encode
from collections.abc import Callable
from typing import Any

import pytest

from oncelog.broker.cluster.security_state import SecurityState
from oncelog.broker.config.settings import load_config
from oncelog.broker.security.access_rules import entry_record
from oncelog.broker.security.delegation_tokens import DelegationTokens
from oncelog.broker.security.principal import ANONYMOUS, Principal
from oncelog.broker.security.scram import SCRAM_MECHANISMS, Keys, ScramMechanism, keys_of, salted_password
from oncelog.protocol.acls import Acl, AclOperation, PatternType, Permission, ResourceType
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.create_delegation_token_request import CreatableRenewers, CreateDelegationTokenRequest
from oncelog.protocol.generated.delegation_token_record import DelegationTokenRecord
from oncelog.protocol.generated.describe_delegation_token_request import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from oncelog.protocol.generated.expire_delegation_token_request import ExpireDelegationTokenRequest
from oncelog.protocol.generated.metadata_request import MetadataRequest
from oncelog.protocol.generated.remove_delegation_token_record import RemoveDelegationTokenRecord
from oncelog.protocol.generated.renew_delegation_token_request import RenewDelegationTokenRequest
from tests.clients.sasl_connection import SaslClient, SaslServer
from tests.clients.scram_client import ScramClient
from tests.fakes.broker import SeededEntropy, VirtualBroker

KEY = "delegation.token.secret.key=secret"
RENEWAL_MS, LIFETIME_MS = 10_000, 60_000
SETTINGS = (
    KEY,
    f"delegation.token.expiry.time.ms={RENEWAL_MS}",
    f"delegation.token.max.lifetime.ms={LIFETIME_MS}",
    "delegation.token.expiry.check.interval.ms=1",
)
AUTHORIZER = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"
SHA_256 = SCRAM_MECHANISMS["SCRAM-SHA-256"]
MECHANISMS = pytest.mark.parametrize("mechanism", SCRAM_MECHANISMS.values(), ids=lambda each: each.name)


@pytest.fixture
def server() -> SaslServer:
    return SaslServer(*SETTINGS)


def client_of(server: SaslServer, user: str) -> SaslClient:
    client = server.connect()
    client.log_in(user)
    return client


def create(client: SaslClient, *renewers: str, owner: str = "", kind: str = "User", lifetime_ms: int = -1) -> Any:
    request = CreateDelegationTokenRequest(
        kind if owner else None, owner or None, [CreatableRenewers("User", each) for each in renewers], lifetime_ms
    )
    return client.ask(request, 3)


def renew(client: SaslClient, token_hmac: bytes, period_ms: int = -1) -> tuple[str, int]:
    answer = client.ask(RenewDelegationTokenRequest(token_hmac, period_ms), 2)
    return ErrorCode(answer.error_code).name, answer.expiry_timestamp_ms


def expire(client: SaslClient, token_hmac: bytes, period_ms: int = -1) -> tuple[str, int]:
    answer = client.ask(ExpireDelegationTokenRequest(token_hmac, period_ms), 2)
    return ErrorCode(answer.error_code).name, answer.expiry_timestamp_ms


def seen(client: SaslClient, *owners: str) -> list[str]:
    wanted = [DescribeDelegationTokenOwner("User", each) for each in owners] or None
    return [each.token_id for each in client.ask(DescribeDelegationTokenRequest(wanted), 3).tokens]


def log_in(server: SaslServer, token_id: str, password: bytes, mechanism: ScramMechanism = SHA_256) -> Any:
    """A client with its last answer; by a token."""
    client = server.connect()
    scram = ScramClient(mechanism, token_id, b64encode(password).decode())
    scram.bare += ",tokenauth=true"
    client.handshake(mechanism.name)
    challenge = client.token(scram.first)
    return client, client.token(scram.final(challenge.auth_bytes), after_ms=200)


def now_ms(server: SaslServer) -> int:
    return server.virtual.broker.clock.wall_ms()


def test_a_token_is_the_hmac_of_its_id_and_is_described_as_it_was_created(server: SaslServer) -> None:
    alice = client_of(server, "alice")
    made = create(alice, "bob")
    assert made.error_code == ErrorCode.NONE
    assert made.hmac == hmac.digest(b"secret", made.token_id.encode(), hashlib.sha512)
    assert (made.principal_name, made.token_requester_principal_name) == ("alice", "alice")
    times = (made.issue_timestamp_ms, made.expiry_timestamp_ms, made.max_timestamp_ms)
    assert times == (now_ms(server), now_ms(server) + RENEWAL_MS, now_ms(server) + LIFETIME_MS)
    (shown,) = alice.ask(DescribeDelegationTokenRequest(None), 3).tokens
    assert (shown.token_id, shown.hmac, shown.principal_name) == (made.token_id, made.hmac, "alice")
    assert (shown.issue_timestamp, shown.expiry_timestamp, shown.max_timestamp) == times
    assert [each.principal_name for each in shown.renewers] == ["bob"]


@pytest.mark.parametrize(
    ("asked_ms", "expiry_ms", "max_ms"),
    [(0, RENEWAL_MS, LIFETIME_MS), (500, 500, 500), (LIFETIME_MS + 1, RENEWAL_MS, LIFETIME_MS)],
)
def test_a_lifetime_is_bounded_by_the_settings(server: SaslServer, asked_ms: int, expiry_ms: int, max_ms: int) -> None:
    made = create(client_of(server, "alice"), lifetime_ms=asked_ms)
    started_ms = made.issue_timestamp_ms
    assert (made.expiry_timestamp_ms - started_ms, made.max_timestamp_ms - started_ms) == (expiry_ms, max_ms)


@MECHANISMS
def test_a_login_by_a_token_is_its_owner_as_long_as_the_token_counts(
    server: SaslServer, mechanism: ScramMechanism
) -> None:
    made = create(client_of(server, "alice"))
    server.virtual.let_pass(1_000)
    client, answer = log_in(server, made.token_id, made.hmac, mechanism)
    assert (answer.error_code, answer.session_lifetime_ms) == (ErrorCode.NONE, RENEWAL_MS - 1_000)
    assert client.principal == Principal("User", "alice")
    assert client.ask(MetadataRequest(topics=None), 9) is not None
    server.virtual.let_pass(RENEWAL_MS)
    assert client.ask(MetadataRequest(topics=None), 9) is None
    assert client.is_closed


def test_a_login_by_a_token_gets_sees_and_changes_none(server: SaslServer) -> None:
    made = create(client_of(server, "alice"))
    client, _ = log_in(server, made.token_id, made.hmac)
    refused = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    assert create(client).error_code == refused
    assert renew(client, made.hmac) == expire(client, made.hmac) == (refused.name, -1)
    assert client.ask(DescribeDelegationTokenRequest(None), 3).error_code == refused


@pytest.mark.parametrize("ending", ["expired", "removed", "another hmac", "no token"])
def test_what_is_no_token_fails_after_a_challenge_like_any_other(server: SaslServer, ending: str) -> None:
    alice = client_of(server, "alice")
    made = create(alice)
    token_id, password = made.token_id, made.hmac
    if ending == "expired":
        server.virtual.let_pass(RENEWAL_MS + 1)
    elif ending == "removed":
        expire(alice, made.hmac)
    elif ending == "another hmac":
        password = made.hmac[::-1]
    else:
        token_id = "nothing"
    client, answer = log_in(server, token_id, password)
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert client.is_closed


def test_a_token_that_ends_during_its_login_does_not_log_in(server: SaslServer) -> None:
    made = create(client_of(server, "alice"))
    client = server.connect()
    scram = ScramClient(SHA_256, made.token_id, b64encode(made.hmac).decode())
    scram.bare += ",tokenauth=true"
    client.handshake(SHA_256.name)
    challenge = client.token(scram.first)
    server.virtual.let_pass(RENEWAL_MS + 1)
    answer = client.token(scram.final(challenge.auth_bytes), after_ms=200)
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


class Threads:
    """A scheduler whose threads run when the test lets them."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Callable[[], None], Callable[[Exception | None], None]]] = []

    def run_beside(self, function: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        self.waiting.append((function, done))

    def run(self, error: Exception | None = None) -> None:
        for function, done in self.waiting:
            function()
            done(error)
        self.waiting.clear()


def a_token() -> tuple[DelegationTokens, SecurityState, Threads, str]:
    virtual, state, threads = VirtualBroker(), SecurityState(), Threads()
    config, _ = load_config(overrides=(KEY,))
    scheduler: Any = threads
    tokens = DelegationTokens(state, config, virtual.broker.clock, SeededEntropy(1), scheduler, lambda _: None)
    end_ms = virtual.broker.clock.wall_ms() + LIFETIME_MS
    record = DelegationTokenRecord(
        owner="User:alice",
        requester="User:alice",
        renewers=[],
        issue_timestamp=0,
        max_timestamp=end_ms,
        expiration_timestamp=end_ms,
        token_id="id",
    )
    state.replay(record, 0)
    return tokens, state, threads, "id"


@MECHANISMS
def test_the_keys_of_a_token_are_made_off_the_loop_and_once(mechanism: ScramMechanism) -> None:
    tokens, state, threads, token_id = a_token()
    keys = tokens.keys(token_id, mechanism)
    assert not keys.done
    assert tokens.keys(token_id, mechanism) is keys, "logins at once wait for the same"
    assert len(threads.waiting) == 1
    threads.run()
    password = b64encode(tokens.hmac_of(token_id)).decode()
    assert keys.result() == keys_of(mechanism, salted_password(mechanism, password, tokens.salt_of(token_id), 4_096))
    assert tokens.keys(token_id, mechanism) is keys
    state.replay(RemoveDelegationTokenRecord(token_id=token_id), 1)
    size = mechanism.size_bytes
    assert tokens.keys(token_id, mechanism).result() == Keys(bytes(size), bytes(size))
    assert threads.waiting == [], "one that does not count costs nothing"


def test_keys_that_could_not_be_made_are_made_for_the_next_login() -> None:
    tokens, _, threads, token_id = a_token()
    failed = tokens.keys(token_id, SHA_256)
    threads.run(MemoryError())
    with pytest.raises(MemoryError):
        failed.result()
    assert not tokens.keys(token_id, SHA_256).done
    threads.run()
    assert tokens.keys(token_id, SHA_256).done


def test_a_user_of_the_name_of_a_token_needs_a_password_of_its_own(server: SaslServer) -> None:
    made = create(client_of(server, "alice"))
    client = server.connect()
    scram = ScramClient(SHA_256, made.token_id, b64encode(made.hmac).decode())
    client.handshake(SHA_256.name)
    answer = client.token(scram.final(client.token(scram.first).auth_bytes), after_ms=200)
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


def test_owner_and_renewers_renew_within_the_lifetime_and_others_do_not(server: SaslServer) -> None:
    alice, bob = client_of(server, "alice"), client_of(server, "bob")
    made, alone = create(alice, "bob"), create(alice)
    server.virtual.let_pass(1_000)
    assert renew(bob, made.hmac, 5_000) == ("NONE", now_ms(server) + 5_000)
    assert renew(alice, made.hmac, 10**15) == ("NONE", now_ms(server) + RENEWAL_MS)
    assert renew(bob, alone.hmac) == ("DELEGATION_TOKEN_OWNER_MISMATCH", 0)
    assert renew(bob, b"unknown") == ("DELEGATION_TOKEN_NOT_FOUND", 0)
    for _ in range(6):
        server.virtual.let_pass(RENEWAL_MS - 1_000)
        last = renew(alice, made.hmac)
    assert last == ("NONE", made.max_timestamp_ms)
    server.virtual.let_pass(RENEWAL_MS)
    assert renew(alice, made.hmac) == ("DELEGATION_TOKEN_EXPIRED", 0)


def test_an_expiry_ends_a_token_then_and_a_negative_one_at_once(server: SaslServer) -> None:
    alice, bob = client_of(server, "alice"), client_of(server, "bob")
    made = create(alice)
    assert expire(bob, made.hmac) == ("DELEGATION_TOKEN_OWNER_MISMATCH", 0)
    assert expire(alice, made.hmac, 10**15) == ("NONE", made.max_timestamp_ms)
    assert expire(alice, made.hmac, 700) == ("NONE", now_ms(server) + 700)
    assert expire(alice, made.hmac) == ("NONE", now_ms(server))
    assert seen(alice) == []
    assert renew(alice, made.hmac) == ("DELEGATION_TOKEN_NOT_FOUND", 0)


def test_a_full_disk_refuses_each_change_of_a_token_retriably(server: SaslServer) -> None:
    """A change without room in the metadata log is an error in the response, and works once there is room."""
    alice = client_of(server, "alice")
    made = create(alice)
    disk = server.virtual.disk
    disk.capacity_bytes = disk.used_bytes
    assert ErrorCode(create(alice).error_code) is ErrorCode.KAFKA_STORAGE_ERROR
    assert renew(alice, made.hmac)[0] == expire(alice, made.hmac)[0] == "KAFKA_STORAGE_ERROR"
    disk.capacity_bytes = None
    assert create(alice).error_code == 0
    assert renew(alice, made.hmac)[0] == expire(alice, made.hmac)[0] == "NONE"


def test_an_expired_token_is_only_removed_and_only_by_its_owner(server: SaslServer) -> None:
    alice, bob = client_of(server, "alice"), client_of(server, "bob")
    made = create(alice)
    server.virtual.let_pass(RENEWAL_MS + 1)
    assert renew(bob, made.hmac) == ("DELEGATION_TOKEN_EXPIRED", 0)
    assert expire(bob, made.hmac) == ("DELEGATION_TOKEN_OWNER_MISMATCH", 0)
    assert expire(alice, made.hmac, 0) == ("DELEGATION_TOKEN_EXPIRED", 0)
    assert expire(alice, made.hmac) == ("NONE", now_ms(server))
    assert seen(alice) == []


def test_expired_tokens_are_removed_in_the_background_and_others_stay(server: SaslServer) -> None:
    alice = client_of(server, "alice")
    create(alice, lifetime_ms=100)
    stays = create(alice)
    server.virtual.let_pass(101)
    tokens = server.virtual.broker.tokens
    assert tokens is not None
    tokens.step()
    assert seen(alice) == [stays.token_id]


def test_tokens_are_there_after_a_kill_and_count_as_before(server: SaslServer) -> None:
    made = create(client_of(server, "alice"))
    server.virtual = server.virtual.killed()
    tokens = server.virtual.broker.tokens
    assert tokens is not None
    found = tokens.find(made.hmac)
    assert found is not None
    assert found.token_id == made.token_id
    login = tokens.login(made.token_id)
    assert login is not None
    assert login.owner == "alice"


def test_a_client_sees_tokens_in_which_it_has_a_part_and_with_a_right_those_of_others() -> None:
    server = SaslServer(*SETTINGS, AUTHORIZER, "super.users=User:alice")
    alice, bob = client_of(server, "alice"), client_of(server, "bob")
    own, renewed, other = create(bob), create(alice, "bob"), create(alice, owner="carol")
    assert seen(alice) == [own.token_id, renewed.token_id, other.token_id]
    assert seen(bob) == [own.token_id, renewed.token_id]
    assert seen(bob, "alice") == [renewed.token_id]
    assert bob.ask(DescribeDelegationTokenRequest([]), 3).tokens == []
    _allow(server, AclOperation.DESCRIBE_TOKENS, ResourceType.USER, "User:carol")
    assert seen(bob) == [own.token_id, renewed.token_id, other.token_id]


def test_a_token_for_another_needs_a_right_on_that_user() -> None:
    server = SaslServer(*SETTINGS, AUTHORIZER, "super.users=User:alice")
    bob = client_of(server, "bob")
    assert create(bob, owner="carol").error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    assert create(bob, owner="bob").error_code == ErrorCode.NONE
    _allow(server, AclOperation.CREATE_TOKENS, ResourceType.USER, "User:carol")
    made = create(bob, owner="carol")
    assert (made.principal_name, made.token_requester_principal_name) == ("carol", "bob")
    assert renew(bob, made.hmac) == ("DELEGATION_TOKEN_OWNER_MISMATCH", 0)
    client, _ = log_in(server, made.token_id, made.hmac)
    assert client.principal == Principal("User", "carol")


def test_an_owner_and_renewers_are_users(server: SaslServer) -> None:
    alice = client_of(server, "alice")
    assert create(alice, owner="admins", kind="Group").error_code == ErrorCode.INVALID_PRINCIPAL_TYPE
    request = CreateDelegationTokenRequest(None, None, [CreatableRenewers("Group", "admins")], -1)
    assert alice.ask(request, 3).error_code == ErrorCode.INVALID_PRINCIPAL_TYPE
    assert seen(alice) == []


def test_a_token_whose_owner_is_no_user_does_not_log_in_as_the_user_of_that_name(server: SaslServer) -> None:
    """Kafka makes such tokens, and its data directory may be ours now."""
    token_id = "token"
    of_group = DelegationTokenRecord("Group:admin", "User:bob", [], 0, 2**60, 2**60, token_id)
    server.virtual.broker.metadata.write([of_group])
    server.virtual.time.settle()
    client, answer = log_in(server, token_id, hmac.digest(b"secret", token_id.encode(), "sha512"))
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert client.principal == ANONYMOUS


def test_without_a_key_there_are_no_tokens() -> None:
    server = SaslServer()
    alice = client_of(server, "alice")
    disabled = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    assert create(alice).error_code == disabled
    assert renew(alice, b"x") == expire(alice, b"x") == (disabled.name, 0)
    assert alice.ask(DescribeDelegationTokenRequest(None), 3).error_code == disabled
    assert log_in(server, "nothing", b"x")[1].error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


def test_without_authentication_there_are_none_even_with_a_key() -> None:
    broker = VirtualBroker(*SETTINGS)
    refused = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    assert broker.ask(CreateDelegationTokenRequest(None, None, [], -1), 3).error_code == refused
    assert broker.ask(DescribeDelegationTokenRequest(None), 3).error_code == refused


def _allow(server: SaslServer, operation: AclOperation, kind: ResourceType, name: str) -> None:
    broker = server.virtual.broker
    acl = Acl(kind, name, PatternType.LITERAL, "User:bob", "*", operation, Permission.ALLOW)
    broker.metadata.write([entry_record(broker.entropy.uuid(), acl)])
    server.virtual.time.settle()
