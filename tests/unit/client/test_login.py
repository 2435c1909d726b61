"""A login without I/O: which requests it is made of, how its failures read, and that it may be repeated at any time."""

from collections.abc import Callable
from typing import Any

import pytest

from oncelog.client import AuthenticationFailed
from oncelog.client.values.errors import ConnectionLost, KafkaError
from oncelog.client.wire.apis import METADATA, Api
from oncelog.client.wire.connection import Connection
from oncelog.client.wire.login import SASL_AUTHENTICATE, SASL_HANDSHAKE
from oncelog.client.wire.sasl import Logins, PasswordLogins, TokenLogins
from oncelog.protocol.errors import ErrorCode, ProtocolError
from oncelog.protocol.generated import (
    api_versions_response,
    metadata_response,
    sasl_authenticate_request,
    sasl_authenticate_response,
    sasl_handshake_request,
    sasl_handshake_response,
)
from oncelog.protocol.generated.api_versions_response import ApiVersion, ApiVersionsResponse
from oncelog.protocol.generated.metadata_request import MetadataRequest
from oncelog.protocol.generated.metadata_response import MetadataResponse
from oncelog.protocol.headers import decode_request_header, encode_response_header
from tests.support.requests.feeding import feed

PLAIN = PasswordLogins("PLAIN", "alice", "secret")
_RESPONSES: dict[int, Any] = {3: metadata_response, 17: sasl_handshake_response, 36: sasl_authenticate_response}
_FLEXIBLE_FROM = {3: 9, 17: 2, 18: 3, 36: 2}


class Peer:
    """The other side of one connection: reads requests, and answers each when the test lets it."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.requests: list[tuple[int, int, bytes]] = []
        """API, correlation id and token (or mechanism) of those that are not answered."""
        self.read(connection.open())
        apis = [ApiVersion(3, 0, 12), ApiVersion(17, 0, 1), ApiVersion(18, 0, 4), ApiVersion(36, 0, 2)]
        body = api_versions_response.encode(ApiVersionsResponse(api_keys=apis), 3)
        self._receive(self.requests.pop(0)[1], False, body)

    def read(self, data: bytes) -> None:
        while data:
            size = int.from_bytes(data[:4], "big")
            frame, data = memoryview(data[4 : 4 + size]), data[4 + size :]
            header, position = decode_request_header(frame, _FLEXIBLE_FROM[frame[1]])
            said = b""
            if header.api_key == 17:
                said = sasl_handshake_request.decode(frame, header.api_version, position)[0].mechanism.encode()
            elif header.api_key == 36:
                said = bytes(sasl_authenticate_request.decode(frame, header.api_version, position)[0].auth_bytes)
            self.requests.append((header.api_key, header.correlation_id, said))

    def answer(self, message: Any) -> None:
        """Answer the oldest request."""
        api_key, correlation_id, _ = self.requests.pop(0)
        version = {3: 12, 17: 1, 36: 2}[api_key]
        self._receive(correlation_id, api_key != 17, _RESPONSES[api_key].encode(message, version))

    def _receive(self, correlation_id: int, flexible: bool, body: Any) -> None:
        data = b"".join((encode_response_header(correlation_id, flexible), *body))
        for each in feed(self.connection, len(data).to_bytes(4, "big") + data):
            self.read(each)


def handshake(error_code: int = 0, *mechanisms: str) -> Any:
    return sasl_handshake_response.SaslHandshakeResponse(error_code=error_code, mechanisms=list(mechanisms))


def token(auth_bytes: bytes = b"", error_code: int = 0, said: str | None = None, lifetime_ms: int = 0) -> Any:
    return sasl_authenticate_response.SaslAuthenticateResponse(
        error_code=error_code, error_message=said, auth_bytes=auth_bytes, session_lifetime_ms=lifetime_ms
    )


async def begun(logins: Logins = PLAIN, on_logged_in: Callable[[int], None] | None = None) -> Peer:
    return Peer(Connection("test", await logins.new(), on_logged_in))


async def logged_in() -> Peer:
    peer = await begun()
    peer.answer(handshake())
    peer.answer(token())
    return peer


async def test_nothing_is_ready_before_the_broker_accepted_the_login() -> None:
    lifetimes: list[int] = []
    peer = await begun(on_logged_in=lifetimes.append)
    assert [each[0::2] for each in peer.requests] == [(17, b"PLAIN")]
    peer.answer(handshake())
    assert [each[0::2] for each in peer.requests] == [(36, b"\0alice\0secret")]
    assert not peer.connection.ready
    peer.answer(token(lifetime_ms=3_600_000))
    assert peer.connection.ready
    assert not peer.connection.was_served
    assert lifetimes == [3_600_000]


async def test_a_mechanism_that_the_listener_lacks_is_named_with_those_that_it_has() -> None:
    peer = await begun()
    with pytest.raises(AuthenticationFailed, match=r"'PLAIN', but SCRAM-SHA-256, SCRAM-SHA-512") as caught:
        peer.answer(handshake(33, "SCRAM-SHA-512", "SCRAM-SHA-256"))
    assert caught.value.code is ErrorCode.UNSUPPORTED_SASL_MECHANISM


async def test_a_failed_login_says_what_the_broker_says_and_whose_it_was_but_not_the_password() -> None:
    peer = await begun()
    peer.answer(handshake())
    with pytest.raises(AuthenticationFailed, match=r"user 'alice': Authentication failed: .*check sasl_") as caught:
        peer.answer(token(error_code=58, said="Authentication failed: Invalid username or password"))
    assert caught.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert caught.value.fatal
    assert "secret" not in str(caught.value)


async def test_a_token_that_is_refused_is_answered_once_more_for_the_broker_to_say_so() -> None:
    peer = await begun(TokenLogins(lambda: "abc", {"logicalCluster": "lkc-1"}))
    peer.answer(handshake())
    assert peer.requests[0][2] == b"n,,\x01auth=Bearer abc\x01logicalCluster=lkc-1\x01\x01"
    peer.answer(token(b'{"status":"invalid_token"}'))
    assert peer.requests[0][2] == b"\x01"
    with pytest.raises(AuthenticationFailed, match="the token is not accepted: expired") as caught:
        peer.answer(token(error_code=58, said="expired"))
    assert "abc" not in str(caught.value)


async def test_a_token_may_come_from_a_coroutine() -> None:
    async def provider() -> str:
        return "later"

    peer = await begun(TokenLogins(provider, {}))
    peer.answer(handshake())
    assert peer.requests[0][2] == b"n,,\x01auth=Bearer later\x01\x01"


@pytest.mark.parametrize("provided", [None, "", "two\x01tokens", b"bytes", "naïve"])
async def test_what_is_no_token_is_not_sent(provided: Any) -> None:
    with pytest.raises(AuthenticationFailed, match="returned no token"):
        await TokenLogins(lambda: provided, {}).new()


async def test_a_provider_that_fails_is_the_cause_and_what_it_says_is_not_repeated() -> None:
    def provider() -> str:
        raise RuntimeError("client_secret=secret was refused")

    with pytest.raises(AuthenticationFailed, match="sasl_oauth_token_provider raised RuntimeError") as caught:
        await TokenLogins(provider, {}).new()
    assert isinstance(caught.value.__cause__, RuntimeError)
    assert "secret" not in str(caught.value)


class Answers:
    """The answers to requests for metadata, in the order in which they arrive."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.seen: list[str] = []

    def send(self, name: str) -> None:
        def on_answer(response: MetadataResponse | None, error: KafkaError | None) -> None:
            self.seen.append(f"{name}: {type(error).__name__ if response is None else response.cluster_id}")

        self.peer.read(self.peer.connection.send(METADATA, MetadataRequest(), on_answer))


def keys(peer: Peer) -> list[int]:
    return [each[0] for each in peer.requests]


async def test_a_login_is_repeated_behind_a_request_that_waits_and_before_those_that_are_made_meanwhile() -> None:
    peer = await logged_in()
    answers = Answers(peer)
    answers.send("waits")
    peer.read(peer.connection.log_in(await PLAIN.new()))
    answers.send("meanwhile")
    assert keys(peer) == [3, 17]
    peer.answer(MetadataResponse(cluster_id="1"))
    peer.answer(handshake())
    answers.send("later")
    assert keys(peer) == [36]
    peer.answer(token())
    assert keys(peer) == [3, 3]
    peer.answer(MetadataResponse(cluster_id="2"))
    peer.answer(MetadataResponse(cluster_id="3"))
    assert answers.seen == ["waits: 1", "meanwhile: 2", "later: 3"]


async def test_requests_that_wait_for_a_login_fail_with_their_connection() -> None:
    peer = await logged_in()
    answers = Answers(peer)
    peer.read(peer.connection.log_in(await PLAIN.new()))
    answers.send("held")
    peer.connection.close(ConnectionLost("gone"))
    assert answers.seen == ["held: ConnectionLost"]


@pytest.mark.parametrize("api", [SASL_HANDSHAKE, SASL_AUTHENTICATE])
def test_no_request_of_a_login_is_in_an_older_form_than_kafka_1_0(api: Api[Any, Any]) -> None:
    assert (api.minimum, api.maximum) == {17: (1, 1), 36: (0, 2)}[api.key]


async def test_what_a_broker_offers_beyond_the_known_versions_of_the_handshake_is_not_chosen() -> None:
    """KAFKA-9577: clients took the broker's highest version, and a later broker's was one that they could not write."""
    connection = Connection("test", await PLAIN.new())
    connection.open()
    apis = [ApiVersion(key, 0, 9) for key in (17, 18, 36)]
    body = api_versions_response.encode(ApiVersionsResponse(api_keys=apis), 3)
    data = b"".join((encode_response_header(1, False), *body))
    (request,) = feed(connection, len(data).to_bytes(4, "big") + data)
    assert request[4:8] == bytes((0, SASL_HANDSHAKE.key, 0, 1))


async def test_until_the_login_is_over_the_broker_has_proved_nothing() -> None:
    """kafka-python#3014, with a login: what is announced before its end is bounded, and not after it."""
    peer = await begun()
    peer.answer(handshake())
    with pytest.raises(ProtocolError):
        feed(peer.connection, (1 << 20).to_bytes(4, "big"))
    assert feed((await logged_in()).connection, (1 << 20).to_bytes(4, "big")) == []
