"""A broker with users who log in, by password or by token: ours in virtual time, and Apache Kafka."""

import time
from base64 import b64encode
from typing import Any

from oncelog.broker.security.scram import SCRAM_MECHANISMS
from oncelog.protocol.generated.sasl_authenticate_request import SaslAuthenticateRequest
from oncelog.protocol.generated.sasl_handshake_request import SaslHandshakeRequest
from oncelog.protocol.message import Message
from tests.clients.sasl_connection import SaslClient, SaslServer
from tests.clients.scram_client import ScramClient
from tests.clients.wire import WireBroker
from tests.support.kafka.server import Kafka

_PACKAGE = "org.apache.kafka.common.security"
KAFKA_SETTINGS = (
    "listener.security.protocol.map=PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name=PLAINTEXT",
    "sasl.mechanism.inter.broker.protocol=PLAIN",
    "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    f"listener.name.plaintext.plain.sasl.jaas.config={_PACKAGE}.plain.PlainLoginModule required "
    'username="alice" password="alice-secret" user_alice="alice-secret" user_bob="bob-secret";',
    f"listener.name.plaintext.scram-sha-256.sasl.jaas.config={_PACKAGE}.scram.ScramLoginModule required;",
    f"listener.name.plaintext.scram-sha-512.sasl.jaas.config={_PACKAGE}.scram.ScramLoginModule required;",
)
"""Its one listener for clients asks for a login, with the users that ours has."""
_FAILED_AFTER_MS = 200
"""A failed login is answered after connection.failed.authentication.delay.ms."""


def _scram(mechanism: str, name: str, secret: bytes, is_token: bool) -> ScramClient:
    scram = ScramClient(SCRAM_MECHANISMS[mechanism], name, b64encode(secret).decode())
    scram.bare += ",tokenauth=true" if is_token else ""
    return scram


class OurTokenClients:
    def __init__(self, *settings: str) -> None:
        self._server = SaslServer(*settings)
        self._clients: dict[str, SaslClient] = {}
        self.time = self._server.virtual.time

    def ask(self, request: Message, version: int, who: str) -> Any:
        if who not in self._clients:
            self._clients[who] = self._server.connect()
            self._clients[who].log_in(who)
        return self._clients[who].ask(request, version)

    def log_in(self, name: str, mechanism: str, token_id: str, token_hmac: bytes, *, is_token: bool) -> Any:
        client = self._clients[name] = self._server.connect()
        scram = _scram(mechanism, token_id, token_hmac, is_token)
        client.handshake(mechanism)
        challenge = client.token(scram.first)
        return client.token(scram.final(challenge.auth_bytes), after_ms=_FAILED_AFTER_MS)

    def now_ms(self) -> int:
        return self.time.wall_ms()

    def let_pass(self, delay_ms: int) -> None:
        self._server.virtual.let_pass(delay_ms)


class KafkaTokenClients:
    """Each on one connection, since a login is of one."""

    def __init__(self, kafka: Kafka) -> None:
        self._bootstrap = kafka.bootstrap
        self._clients: dict[str, WireBroker] = {}

    def ask(self, request: Message, version: int, who: str) -> Any:
        if who not in self._clients:
            client = self._clients[who] = WireBroker(self._bootstrap)
            client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
            client.ask(SaslAuthenticateRequest(auth_bytes=f"\0{who}\0{who}-secret".encode()), 2)
        try:
            return self._clients[who].ask(request, version)
        except AssertionError:  # the connection was closed
            return None

    def log_in(self, name: str, mechanism: str, token_id: str, token_hmac: bytes, *, is_token: bool) -> Any:
        client = self._clients[name] = WireBroker(self._bootstrap)
        scram = _scram(mechanism, token_id, token_hmac, is_token)
        client.ask(SaslHandshakeRequest(mechanism=mechanism), 1)
        challenge = client.ask(SaslAuthenticateRequest(auth_bytes=scram.first), 2)
        if challenge.error_code:  # Kafka refuses an unknown one here already
            return challenge
        return client.ask(SaslAuthenticateRequest(auth_bytes=scram.final(challenge.auth_bytes)), 2)

    def now_ms(self) -> int:
        return int(time.time() * 1000)

    def let_pass(self, delay_ms: int) -> None:
        next(iter(self._clients.values())).let_pass(delay_ms)

    def close(self) -> None:
        for client in self._clients.values():
            client.close()
