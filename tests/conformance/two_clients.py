"""A broker with two clients that differ in their address: ours, and Apache Kafka."""

from typing import Any

from oncelog.protocol.message import Message
from tests.clients.wire import WireBroker
from tests.conformance.transcripts.authorization_transcript import ADMIN, CLIENT
from tests.fakes.broker import VirtualBroker
from tests.support.kafka.server import Kafka

_LONGEST_MS = 30_000


class OurTwoClients:
    def __init__(self, *settings: str) -> None:
        self._broker = VirtualBroker(*settings)
        self.time = self._broker.time

    def ask(self, request: Message, version: int, source: str) -> Any:
        reply = self._broker.send(request, version, host=source)
        if not reply.is_there:
            self._broker.let_pass(_LONGEST_MS)
        return None if reply.is_closed else reply.message

    def let_pass(self, delay_ms: int) -> None:
        self._broker.let_pass(delay_ms)


class KafkaTwoClients:
    def __init__(self, kafka: Kafka) -> None:
        self._clients = {source: WireBroker(kafka.bootstrap, source) for source in (ADMIN, CLIENT)}

    def ask(self, request: Message, version: int, source: str) -> Any:
        try:
            return self._clients[source].ask(request, version)
        except AssertionError:  # the connection was closed
            return None

    def let_pass(self, delay_ms: int) -> None:
        self._clients[CLIENT].let_pass(delay_ms)

    def close(self) -> None:
        for client in self._clients.values():
            client.close()
