"""A connection to a listener with SASL, without a socket: requests by name, answers decoded, in virtual time."""

from importlib import import_module
from typing import Any

from oncelog.broker.config.listeners import SecurityProtocol
from oncelog.broker.net.connection import Connection
from oncelog.broker.net.door import Door
from oncelog.broker.net.open_connections import OpenConnections
from oncelog.broker.requests.dispatch import Dispatcher
from oncelog.broker.security.principal import Principal
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.generated.api_versions_request import ApiVersionsRequest
from oncelog.protocol.generated.sasl_authenticate_request import SaslAuthenticateRequest
from oncelog.protocol.generated.sasl_handshake_request import SaslHandshakeRequest
from oncelog.protocol.headers import decode_response_header
from oncelog.protocol.message import Message
from oncelog.testing.memory_disk import MemoryDisk
from tests.clients.in_memory_connection import Transport
from tests.fakes.broker import HOST, PORT, VirtualBroker

JAAS = (
    "listener.name.sasl_plaintext.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule "
    'required user_alice="alice-secret" user_bob="bob-secret";'
)


class SaslServer:
    """A broker in virtual time with one SASL listener."""

    def __init__(
        self, *overrides: str, mechanisms: str = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512", disk: MemoryDisk | None = None
    ) -> None:
        listener = ("listeners=SASL_PLAINTEXT://127.0.0.1:0", f"sasl.enabled.mechanisms={mechanisms}", JAAS)
        self.virtual = VirtualBroker(*listener, *overrides, disk=disk)
        broker = self.virtual.broker
        self.open = OpenConnections(broker)
        self._dispatcher = Dispatcher(broker)
        self._door = Door(broker, self._dispatcher, "SASL_PLAINTEXT", SecurityProtocol.SASL_PLAINTEXT)

    def connect(self) -> "SaslClient":
        transport = Transport()
        connection = Connection(self.virtual.broker, self._dispatcher, "SASL_PLAINTEXT", (HOST, PORT), self.open)
        self._door.enter(connection)
        transport.connection = connection
        connection.connection_made(transport)  # type: ignore[arg-type]
        return SaslClient(self.virtual, connection, transport)


class SaslClient:
    def __init__(self, virtual: VirtualBroker, connection: Connection, transport: Transport) -> None:
        self.virtual = virtual
        self.connection = connection
        self.transport = transport

    @property
    def is_closed(self) -> bool:
        return self.transport.is_closed

    @property
    def principal(self) -> Principal:
        return self.connection._peer.principal

    def send(self, data: bytes) -> bytes:
        """A frame; returns the one that is answered at once, empty for none. Whatever takes time is not waited for."""
        self.connection.data_received(len(data).to_bytes(4, "big") + data)
        return self.answer()

    def answer(self) -> bytes:
        """Return the bytes of the next answer, without the frame's length."""
        self.virtual.time.settle()
        sent, self.transport.sent = bytes(self.transport.sent), bytearray()
        return sent[4:]

    def ask(self, request: Message, version: int, after_ms: int = 0) -> Any:
        """The decoded answer; None if the connection is closed or nothing is answered."""
        data = self.send(bytes(self.virtual.frame(request, version)))
        if after_ms:
            self.virtual.time.advance(after_ms)
            data = data or self.answer()
        if not data:
            return None
        response = import_module(type(request).__module__.removesuffix("request") + "response")
        flexible_from = response.FLEXIBLE_FROM
        is_flexible = flexible_from is not None and version >= flexible_from and response.API_KEY != ApiKey.API_VERSIONS
        _, position = decode_response_header(memoryview(data), is_flexible)
        return response.decode(memoryview(data), version, position)[0]

    def api_versions(self, version: int = 3) -> Any:
        return self.ask(ApiVersionsRequest(client_software_name="test", client_software_version="1"), version)

    def handshake(self, mechanism: str, version: int = 1, after_ms: int = 0) -> Any:
        return self.ask(SaslHandshakeRequest(mechanism=mechanism), version, after_ms)

    def token(self, token: bytes, version: int = 2, after_ms: int = 0) -> Any:
        return self.ask(SaslAuthenticateRequest(auth_bytes=token), version, after_ms)

    def log_in(self, user: str = "alice") -> Any:
        """Log in by PLAIN and return the last answer."""
        self.handshake("PLAIN")
        return self.token(f"\0{user}\0{user}-secret".encode())
