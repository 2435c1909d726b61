"""A connection to a listener with TLS, without a socket: both ends of it, in virtual time."""

import contextlib
import ssl
from typing import Any

from oncelog.broker.config.listeners import SecurityProtocol
from oncelog.broker.net.connection import Connection
from oncelog.broker.net.door import Door
from oncelog.broker.net.open_connections import OpenConnections
from oncelog.broker.net.tls import TlsLayer
from oncelog.broker.requests.dispatch import Dispatcher
from tests.clients.in_memory_connection import Transport
from tests.fakes.broker import HOST, PORT, VirtualBroker
from tests.support.security.certificates import Certificates

MIB = 1 << 20


class TlsServer:
    """A broker in virtual time with one TLS listener."""

    def __init__(self, certificates: Certificates, client_auth: str = "none", *overrides: str) -> None:
        settings = {**certificates.server_settings(client_auth=client_auth), "listeners": "SSL://127.0.0.1:0"}
        self.virtual = VirtualBroker(*(f"{key}={value}" for key, value in settings.items()), *overrides)
        broker = self.virtual.broker
        self.open = OpenConnections(broker)
        self._dispatcher = Dispatcher(broker)
        self._door = Door(broker, self._dispatcher, "SSL", SecurityProtocol.SSL)

    def connect(self, *, is_read: bool = True) -> Transport:
        transport = Transport(is_read)
        connection = Connection(self.virtual.broker, self._dispatcher, "SSL", (HOST, PORT), self.open)
        layer: Any = self._door.enter(connection)
        transport.connection = layer
        layer.connection_made(transport)
        self.connection = connection
        return transport


class TlsClient:
    """The other end of a `Transport`: decrypts what was sent."""

    def __init__(
        self,
        server: TlsServer,
        context: ssl.SSLContext,
        *,
        is_read: bool = True,
        session: ssl.SSLSession | None = None,
    ) -> None:
        """`session` is that of an earlier connection with the same context."""
        self.server = server
        self.transport = server.connect(is_read=is_read)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname="localhost", session=session)
        self.received = bytearray()
        self.has_ended = False

    @property
    def layer(self) -> TlsLayer:
        assert isinstance(self.transport.connection, TlsLayer)
        return self.transport.connection

    def handshake(self) -> "TlsClient":
        for _ in range(3):
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self.exchange()
        self.exchange()
        return self

    @property
    def session(self) -> ssl.SSLSession | None:
        return self._tls.session

    @property
    def is_resumed(self) -> bool:
        return bool(self._tls.session_reused)

    def send(self, data: bytes) -> None:
        self._tls.write(data)
        self.exchange()

    def close(self) -> None:
        """close_notify."""
        with contextlib.suppress(ssl.SSLWantReadError):
            self._tls.unwrap()
        self.exchange()

    def exchange(self) -> None:
        """Bytes both ways, and all that the broker makes of them."""
        data = self._outgoing.read()
        if data and not self.transport.is_closed:
            self.layer.data_received(data)
        self.server.virtual.time.settle()
        self._incoming.write(bytes(self.transport.sent))
        self.transport.sent.clear()
        try:
            while data := self._tls.read(MIB):
                self.received += data
        except ssl.SSLWantReadError:
            return
        except (ssl.SSLZeroReturnError, ssl.SSLError):
            pass
        self.has_ended = True


def context(certificates: Certificates, client: str | None = None) -> ssl.SSLContext:
    made = ssl.create_default_context(cafile=certificates.authority_path)
    if client is not None:
        made.load_cert_chain(certificates.client(client))
    return made
