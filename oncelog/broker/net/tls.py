"""TLS between the transport of a socket and a `Connection`, which takes it for its transport.

Owns: the handshake and its time limit, encrypting and decrypting, the end of the TLS stream. Does not own: keys and
certificates (`broker.security.tls`), who a certificate stands for (`on_secured`).

asyncio's and uvloop's own TLS encrypt whatever is written at once and count none of it as unsent, so that a client that
reads nothing would hold memory that no limit sees. Here nothing is encrypted before the socket has taken what was
encrypted before: what waits is in `_backlog`, and `get_write_buffer_size` has all of it.

Invariants
- Bytes reach the connection only after the handshake; before it, a client costs the memory of OpenSSL's handshake
  (a record of at most 16 KiB, certificates of at most 100 KiB) and one read of the socket.
- `pause_writing` is called when anything is left unsent, `resume_writing` when all of it is sent, as `Connection`
  expects of a transport with `set_write_buffer_limits(high=0)`.
- A connection that does not finish its handshake in time is closed by its `Connection`, whose login it is part of.
"""

import asyncio
import contextlib
import ssl
from collections import deque
from collections.abc import Callable
from typing import Any, cast

from oncelog.broker.net.connection import Connection
from oncelog.broker.turns.ports import Scheduler

_READ_BYTES = 262_144
"""How much is read from TLS at a time: as much as one read of a socket brings; one read of TLS brings a record of at
most 16 KiB."""
_WRITE_BYTES = 262_144
_RECORD_BYTES = 16_384
_HINTS = {
    "HTTP_REQUEST": "an HTTP client on a port for Kafka",
    "WRONG_VERSION_NUMBER": "the client speaks no TLS: it needs security.protocol=SSL, or SASL_SSL",
    "UNSUPPORTED_PROTOCOL": "the client speaks no version in ssl.enabled.protocols",
    "NO_SHARED_CIPHER": "the client has none of the cipher suites of this listener",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client showed no certificate (ssl.client.auth=required)",
    "TLSV1_ALERT_UNKNOWN_CA": "the client does not trust the broker's certificate: its truststore lacks the issuer",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the client rejects the broker's certificate",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the client says that the broker's certificate has ended: replace its file and "
    "send SIGHUP, or the client's clock is wrong",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the client rejects the broker's certificate: does it name this host?",
}


class TlsLayer(asyncio.Protocol):
    """A protocol to the socket's transport, and a transport to the connection."""

    def __init__(
        self,
        connection: Connection,
        context: ssl.SSLContext,
        scheduler: Scheduler,
        on_secured: Callable[["TlsLayer"], None],
    ) -> None:
        """`on_secured` is called once, after the handshake and before the first bytes of the client."""
        self._connection = connection
        self._scheduler = scheduler
        self._on_secured = on_secured
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._socket: asyncio.Transport | None = None
        self._backlog: deque[memoryview] = deque()
        self._backlog_bytes = 0
        self._is_secured = False
        self._is_closing = False
        self._said_goodbye = False
        self._client_ended = False
        self._has_ended = False
        self._is_reading = True
        self._socket_is_full = False
        self._is_full = False
        """The state that the connection was last notified of."""

    # --- the side of the socket ---------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._socket = cast(asyncio.Transport, transport)
        self._socket.set_write_buffer_limits(high=0)
        self._connection.connection_made(cast(asyncio.BaseTransport, self))

    def connection_lost(self, exc: Exception | None) -> None:
        self._socket = None
        self._drop()
        self._connection.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if not self._is_closing:
            self._incoming.write(data)
            self._read()

    def eof_received(self) -> bool:
        return not self._is_closing and self._connection.eof_received()

    def pause_writing(self) -> None:
        self._socket_is_full = True
        self._note_fullness()

    def resume_writing(self) -> None:
        self._socket_is_full = False
        self._encrypt()

    # --- the side of the connection -----------------------------------------------------------------------------------

    def write(self, data: bytes | memoryview) -> None:
        if data and self._socket is not None and not self._is_closing:
            self._backlog.append(memoryview(data))
            self._backlog_bytes += len(data)
            self._encrypt()

    def write_eof(self) -> None:
        """Note that nothing is written after this; what still comes is dropped. While something is unsent, our side
        stays open for it: `close` follows soon."""
        self._is_closing = True
        if self._socket is not None and not self._backlog:
            self._say_goodbye()
            self._socket.write_eof()

    def get_write_buffer_size(self) -> int:
        return self._backlog_bytes + (0 if self._socket is None else self._socket.get_write_buffer_size())

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Do nothing: the limits are 0, as the docstring of this module says."""

    def pause_reading(self) -> None:
        self._is_reading = False
        if self._socket is not None:
            self._socket.pause_reading()

    def resume_reading(self) -> None:
        self._is_reading = True
        if self._socket is not None:
            self._socket.resume_reading()
            if self._incoming.pending or self._tls.pending():
                self._scheduler.call_soon(self._read)

    def get_extra_info(self, name: str) -> Any:
        return None if self._socket is None else self._socket.get_extra_info(name)

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        """End once everything written is sent."""
        self._is_closing = True
        self._maybe_end()

    def abort(self) -> None:
        self._is_closing = True
        self._drop()
        if self._socket is not None:
            self._socket.abort()

    # --- TLS ----------------------------------------------------------------------------------------------------------

    @property
    def certificate(self) -> bytes | None:
        """The client's verified certificate as DER."""
        return self._tls.getpeercert(binary_form=True)

    def _read(self) -> None:
        """Hand on what can be decrypted, while the connection reads."""
        try:
            # Asked for more than there is, OpenSSL answers by an exception, which costs half as much as a record.
            while self._is_reading and not self._is_closing and (self._incoming.pending or self._client_ended):
                if not self._is_secured:
                    self._tls.do_handshake()
                    self._is_secured = True
                    self._flush()
                    self._on_secured(self)
                    continue
                pieces = self._decrypted()
                if not pieces:
                    break
                self._connection.data_received(pieces[0] if len(pieces) == 1 else b"".join(pieces))
        except ssl.SSLWantReadError:
            pass  # the next bytes of the socket continue it
        except ssl.SSLError as error:
            self._flush()  # the alert that explains it to the client
            if not self._is_secured:
                self._connection.broker.metrics.logins_failed += 1
            self._connection.close(_explained(error, self._is_secured))
            return
        self._flush()

    def _decrypted(self) -> list[bytes]:
        """Return the contents of the next records; nothing if there is no whole one."""
        pieces: list[bytes] = []
        size_bytes = 0
        try:
            while size_bytes < _READ_BYTES:
                piece = self._tls.read(_RECORD_BYTES)
                if not piece:
                    raise ssl.SSLZeroReturnError
                pieces.append(piece)
                size_bytes += len(piece)
                if not self._incoming.pending:
                    break  # a piece is a whole record, so nothing is left of it
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            # The client has ended its side; OpenSSL reports it again at the next read, after these pieces.
            self._client_ended = True
            if not pieces and not self._connection.eof_received():
                self._connection.close()
        return pieces

    def _encrypt(self) -> None:
        """Encrypt as much as the socket takes."""
        backlog = self._backlog
        while backlog and not self._socket_is_full:
            piece = backlog[0]
            if len(piece) > _WRITE_BYTES:
                piece, backlog[0] = piece[:_WRITE_BYTES], piece[_WRITE_BYTES:]
            else:
                backlog.popleft()
            try:
                self._tls.write(piece)
            except ssl.SSLError:  # the client has ended the stream by an alert
                self.abort()
                return
            self._backlog_bytes -= len(piece)
            self._flush()
        self._note_fullness()
        self._maybe_end()

    def _flush(self) -> None:
        if self._outgoing.pending and self._socket is not None:
            self._socket.write(self._outgoing.read())

    def _note_fullness(self) -> None:
        is_full = self._socket_is_full or self._backlog_bytes > 0
        if is_full != self._is_full:
            self._is_full = is_full
            if is_full:
                self._connection.pause_writing()
            else:
                self._connection.resume_writing()

    def _maybe_end(self) -> None:
        if self._is_closing and not self._backlog and self._socket is not None and not self._has_ended:
            self._has_ended = True
            self._say_goodbye()
            self._socket.close()  # which still sends what it has

    def _say_goodbye(self) -> None:
        """Send close_notify; the client's own is not waited for."""
        if self._is_secured and not self._said_goodbye:
            self._said_goodbye = True
            with contextlib.suppress(ssl.SSLError):
                self._tls.unwrap()
            self._flush()

    def _drop(self) -> None:
        self._backlog.clear()
        self._backlog_bytes = 0


def _explained(error: ssl.SSLError, is_secured: bool) -> str:
    reason = error.reason or type(error).__name__
    if isinstance(error, ssl.SSLCertVerificationError):
        text = f"the client's certificate is not accepted: {error.verify_message}"
    else:
        text = _HINTS.get(reason, reason.lower().replace("_", " "))
    return f"TLS failed: {text}" if is_secured else f"the TLS handshake failed: {text}"
