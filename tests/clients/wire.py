"""Requests over real sockets, in any version: the same way to ask a running broker as `tests.fakes.broker` has.

A connection carries one request at a time, since an answer may be held; idle ones are used again.
"""

import select
import socket
from importlib import import_module
from typing import Any

from oncelog.protocol.headers import decode_response_header, encode_request_header
from oncelog.protocol.message import Message
from tests.support.patience import PATIENCE_S

_HELD_S = 0.4
"""An answer that has not come by then is being held."""


class WireReply:
    def __init__(self, broker: "WireBroker", connection: socket.socket, response: Any, version: int) -> None:
        self._broker = broker
        self._connection = connection
        self._response = response
        self._version = version
        self._message: Any = None

    @property
    def is_there(self) -> bool:
        return self._message is not None or self._is_answered()

    def _is_answered(self) -> bool:
        waiting = select.poll()  # unlike select, for descriptors above 1,023 too
        waiting.register(self._connection, select.POLLIN)
        return bool(waiting.poll(_HELD_S * 1_000))

    @property
    def message(self) -> Any:
        if self._message is None:
            size = int.from_bytes(self._read(4), "big")
            view = memoryview(self._read(size))
            flexible_from = self._response.FLEXIBLE_FROM
            # The answer to ApiVersions never has a flexible header (KIP-511).
            flexible = flexible_from is not None and self._version >= flexible_from and self._response.API_KEY != 18
            _, position = decode_response_header(view, flexible)
            self._message, _ = self._response.decode(view, self._version, position)
            self._broker.idle.append(self._connection)
        return self._message

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self._connection.recv(size - len(data))
            if not part:
                raise AssertionError("the connection was closed")
            data += part
        return data


class WireBroker:
    """A running broker, ours or another."""

    def __init__(self, bootstrap: str, source: str | None = None) -> None:
        """`source` is the address from which it is asked."""
        self._source = None if source is None else (source, 0)
        host, _, port = bootstrap.rpartition(":")
        self._address = (host, int(port))
        self._all: list[socket.socket] = []
        self.idle: list[socket.socket] = []

    def send(self, request: Message, version: int, *, client_id: str = "client") -> WireReply:
        module = import_module(type(request).__module__)
        response = import_module(type(request).__module__.removesuffix("request") + "response")
        flexible = module.FLEXIBLE_FROM is not None and version >= module.FLEXIBLE_FROM
        header = encode_request_header(module.API_KEY, version, 1, client_id, flexible)
        body = b"".join((header, *module.encode(request, version)))
        connection = self.idle.pop() if self.idle else self._connect()
        connection.sendall(len(body).to_bytes(4, "big") + body)
        return WireReply(self, connection, response, version)

    def ask(self, request: Message, version: int) -> Any:
        return self.send(request, version).message

    def let_pass(self, delay_ms: int) -> None:
        select.select([], [], [], delay_ms / 1000)

    @property
    def connection_count(self) -> int:
        return len(self._all)

    def close(self) -> None:
        for connection in self._all:
            connection.close()

    def _connect(self) -> socket.socket:
        connection = socket.create_connection(self._address, PATIENCE_S, self._source)
        self._all.append(connection)
        return connection
