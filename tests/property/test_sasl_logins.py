"""A connection with SASL, whatever comes on it and when: what is answered, who it is, and when it ends, beside a model.

The model has Kafka's rules as its clients know them, and nothing of the table that brokers use.
"""

from enum import Enum
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from oncelog.broker.security.scram import SCRAM_MECHANISMS
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.metadata_request import MetadataRequest
from oncelog.protocol.generated.user_scram_credential_record import UserScramCredentialRecord
from tests.clients.sasl_connection import SaslClient, SaslServer
from tests.clients.scram_client import ScramClient, keys
from tests.support.samples import examples

SESSION_MS, LOGIN_MS, DELAY_MS, PAUSE_MS = 60_000, 30_000, 100, 1_000
SHA_256 = SCRAM_MECHANISMS["SCRAM-SHA-256"]
PLAIN, SCRAM = "PLAIN", SHA_256.name
MECHANISMS = (PLAIN, SCRAM)
USERS = st.sampled_from(("alice", "bob"))
_LONG_AGO_MS = -(10**9)
_NO_TOKENS = (
    *(b"", b"alice", b"\0alice\0wrong", b"bob\0alice\0alice-secret", b"\0\xff\0x", b"\0" * 70_000),
    *(b"n,,n=alice", b"n,,n=alice,r=", b"p=x,,n=alice,r=x", b"n,,n=alice,r=" + b"x" * 20_000, b"c=biws,r=x,p=eA=="),
)
_ANSWERED = (b"\0\x11", b"\0\x12", b"\0\x24")
"""The keys of SaslHandshake, ApiVersions, SaslAuthenticate."""
_PAUSES_MS = (1, PAUSE_MS - 1, PAUSE_MS, LOGIN_MS - 1, SESSION_MS, SESSION_MS + 1)


class At(Enum):
    BEGINNING = "nothing was asked yet"
    KNOWN = "the versions are known"
    TOKENS = "a mechanism was chosen: tokens are in requests"
    FRAMES = "a mechanism was chosen: tokens are frames, and all frames are tokens"
    SERVED = "the client is logged in"
    CLOSED = "the connection has ended"


class Logins(RuleBasedStateMachine):
    @initialize()
    def start(self) -> None:
        self.server = SaslServer(
            f"connections.max.reauth.ms={SESSION_MS}", "connections.max.idle.ms=-1", mechanisms=",".join(MECHANISMS)
        )
        for user in ("alice", "bob"):
            made = keys(SHA_256, f"{user}-secret", b"salt", 4_096)
            self.server.virtual.broker.metadata.write(
                [UserScramCredentialRecord(user, 1, b"salt", made.stored_key, made.server_key, 4_096)]
            )
        self.connect()

    def connect(self) -> None:
        self.client: SaslClient = self.server.connect()
        self.at = At.BEGINNING
        self.user: str | None = None
        self.mechanism = self.chosen = ""
        self.challenged: tuple[str, ScramClient, bytes] | None = None
        self.began_ms = _LONG_AGO_MS
        self.connected_ms, self.ends_ms = self._now(), 0

    def _now(self) -> int:
        return self.server.virtual.time.monotonic_ms()

    @property
    def _has_ended(self) -> bool:
        """The session has."""
        return self.at is At.SERVED and self._now() > self.ends_ms

    # --- what comes -----------------------------------------------------------------------------------------------

    @precondition(lambda self: self.at is not At.CLOSED)
    @rule(version=st.sampled_from((0, 3, 4)))
    def versions(self, version: int) -> None:
        answer = self.client.api_versions(version)
        if self.at is At.BEGINNING or (self.at is At.SERVED and not self._has_ended):
            assert answer.error_code == 0
            self.at = At.KNOWN if self.at is At.BEGINNING else self.at
        else:
            self._closes_without(answer)

    @precondition(lambda self: self.at is not At.CLOSED)
    @rule(mechanism=st.sampled_from((*MECHANISMS, "GSSAPI", "plain", "")), version=st.sampled_from((0, 1)))
    def handshake(self, mechanism: str, version: int) -> None:
        answer = self.client.handshake(mechanism, version)
        if self.at in (At.TOKENS, At.FRAMES):
            self._closes_without(answer)
        elif self.at is At.SERVED and self._now() - self.began_ms < PAUSE_MS:
            assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
        elif mechanism not in MECHANISMS:
            self._fails(answer, ErrorCode.UNSUPPORTED_SASL_MECHANISM, 4)
        else:
            assert answer.error_code == 0
            self.began_ms = self._now() if self.at is At.SERVED else _LONG_AGO_MS
            self.chosen, self.challenged = mechanism, None
            self.at = At.TOKENS if version else At.FRAMES

    @precondition(lambda self: self.at is not At.CLOSED)
    @rule(user=USERS)
    def the_right_token(self, user: str) -> None:
        scram, next_challenge = ScramClient(SHA_256, user, f"{user}-secret"), None
        if self.chosen != SCRAM:
            token = f"\0{user}\0{user}-secret".encode()
        elif self.challenged is None:
            token, next_challenge = scram.first, (user, scram)
        else:
            user, scram, challenge = self.challenged
            token = scram.final(challenge)
        is_of_another = self.user is not None and (self.chosen != self.mechanism or next_challenge is None)
        is_refused = is_of_another and (self.chosen, user) != (self.mechanism, self.user)
        answered = self._send_token(token, is_refused=is_refused)
        if answered is None:
            return
        if next_challenge is not None:
            assert answered.startswith(b"r=client-nonce")
            self.challenged = (*next_challenge, answered)
        else:
            assert answered == (scram.expected if self.chosen == SCRAM else b"")
            self.user, self.mechanism, self.at = user, self.chosen, At.SERVED
            self.ends_ms = self._now() + SESSION_MS

    @rule(mechanism=st.sampled_from(MECHANISMS), version=st.sampled_from((0, 1)), user=USERS)
    def logs_in(self, mechanism: str, version: int, user: str) -> None:
        """All of a login, for the first time or again: most of what may happen happens after one."""
        if self.at not in (At.BEGINNING, At.KNOWN, At.SERVED):
            self.connect()
        self.handshake(mechanism, version)
        for _ in range(1 if mechanism == PLAIN else 2):
            if self.at in (At.TOKENS, At.FRAMES):
                self.the_right_token(user)

    @precondition(lambda self: self.at is At.SERVED)
    @rule(mechanism=st.sampled_from(MECHANISMS), user=USERS)
    def logs_in_again_later(self, mechanism: str, user: str) -> None:
        self.time_passes(PAUSE_MS)
        self.logs_in(mechanism, 1, user)

    @precondition(lambda self: self.at is not At.CLOSED)
    @rule(token=st.sampled_from(_NO_TOKENS) | st.binary(max_size=60))
    def another_token(self, token: bytes) -> None:
        self._send_token(token, is_refused=True)

    @precondition(lambda self: self.at is not At.CLOSED)
    @rule(user=USERS, at=st.integers(0, 200), change=st.integers(1, 255))
    def a_token_with_a_changed_byte(self, user: str, at: int, change: int) -> None:
        if self.chosen == PLAIN:
            token = bytearray(f"\0{user}\0{user}-secret".encode())
        elif self.challenged is not None:
            token = bytearray(self.challenged[1].final(self.challenged[2]))
        else:
            return
        token[at % len(token)] ^= change
        self._send_token(bytes(token), is_refused=True)

    def _send_token(self, token: bytes, *, is_refused: bool) -> bytes | None:
        """Send a token and return the answer, or None if the token does not count."""
        if self.at is At.FRAMES:
            if not token:
                return None  # a frame cannot be empty
            answered = self.client.send(token)
            if is_refused:
                assert not answered
                self._closes_without(None)
                return None
            return answered
        answer = self.client.token(token)
        if self.at is At.TOKENS:
            if is_refused:
                self._fails(answer, ErrorCode.SASL_AUTHENTICATION_FAILED, 5)
                return None
            assert answer.error_code == 0
            return bytes(answer.auth_bytes)
        if self.at is At.SERVED and not self._has_ended:
            assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
        else:
            self._closes_without(answer)
        return None

    @precondition(lambda self: self.at is not At.CLOSED)
    @rule()
    def another_request(self) -> None:
        answer = self.client.ask(MetadataRequest(topics=[]), 9)
        if self.at is At.SERVED and not self._has_ended:
            assert answer is not None
        else:
            self._closes_without(answer)

    @precondition(lambda self: self.at not in (At.CLOSED, At.SERVED))
    @rule(
        frame=st.binary(min_size=1, max_size=40).filter(lambda data: data[:2] not in (b"\0\x11", b"\0\x12", b"\0\x24"))
    )
    def nonsense(self, frame: bytes) -> None:
        is_short = len(frame) < 8 and self.at is not At.FRAMES
        assert self.client.send(frame) == b""
        self._closes_without(None, at_once=is_short)

    @precondition(lambda self: self.at is not At.CLOSED)
    @rule(pause_ms=st.sampled_from(_PAUSES_MS))
    def time_passes(self, pause_ms: int) -> None:
        self.server.virtual.time.advance(pause_ms)
        if self.user is None and self._now() - self.connected_ms >= LOGIN_MS:
            self.at = At.CLOSED

    @precondition(lambda self: self.at is At.CLOSED)
    @rule()
    def another_connection(self) -> None:
        self.connect()

    # --- how it ends ----------------------------------------------------------------------------------------------

    def _fails(self, answer: Any, error: ErrorCode, position: int) -> None:
        """Require that the error is answered after the delay, behind a header of so many bytes, unless the time to log
        in is over first.
        """
        assert answer is None and not self.client.is_closed
        self.server.virtual.time.advance(DELAY_MS)
        is_late = self.user is None and self._now() - self.connected_ms >= LOGIN_MS
        said = self.client.answer()[position : position + 2]
        assert said == error.to_bytes(2, "big") or (is_late and not said)
        self.at = At.CLOSED

    def _closes_without(self, answer: Any, *, at_once: bool = False) -> None:
        assert answer is None
        if not (at_once or self._has_ended):
            assert not self.client.is_closed
            self.server.virtual.time.advance(DELAY_MS)
        assert self.client.is_closed and self.client.answer() == b""
        self.at = At.CLOSED

    @invariant()
    def nothing_else_happens(self) -> None:
        if hasattr(self, "client"):
            assert self.client.is_closed is (self.at is At.CLOSED)
            assert self.client.principal.name == (self.user or "ANONYMOUS")
            assert [line for line in self.server.virtual.warnings if line["event"] != "connection.closed"] == []


Logins.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=25)
TestLogins = Logins.TestCase
