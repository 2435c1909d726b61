"""A connection on the network: an asyncio BufferedProtocol around the sans-I/O connection.

Owns: the socket, TLS on it, the timeout of the oldest request, when a login is repeated, whether the broker reads what
is written. Does not own: retries (`cluster`), broker addresses (`connections`), what a login says (`login`). Invariant:
when the oldest response is overdue the connection is closed, since responses come in order and no later one can arrive
either; likewise when the broker does not read for that long. One loop callback per chunk of responses; no task and no
future per request unless one is awaited.
"""

import asyncio
import os
import re
import socket
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from oncelog.client.values.errors import AuthenticationFailed, ConnectionLost, KafkaError, RequestTimedOut
from oncelog.client.values.waiting import Deadline, reject, resolve
from oncelog.client.wire.apis import Api, RequestT, ResponseT
from oncelog.client.wire.connection import Connection, OnAnswer
from oncelog.client.wire.security import PLAINTEXT, Security
from oncelog.protocol.errors import ProtocolError

if TYPE_CHECKING:
    from oncelog.client.wire.login import Login

_LOGIN_AGAIN_AT = 0.85
"""The part of a session's lifetime after which to log in again, the earliest of Java's client: what is left is for a
request that the broker answers late, after which it sees the login."""
_LEAST_S = 0.001
_SETUP_MS = 10_000
"""How long an address may take to accept a connection, TLS included, before it is looked up and tried again: the
socket.connection.setup.timeout.ms of Java's clients. How often that happens is a matter of the caller's deadline."""


class Transport(asyncio.BufferedProtocol):
    """A connection over a socket: `await connect(...)`; then `send` with a callback, or `await request`."""

    def __init__(
        self,
        address: str,
        client_id: str,
        request_timeout_ms: float,
        security: Security = PLAINTEXT,
        login: "Login | None" = None,
        on_silent: "Callable[[Transport], None] | None" = None,
    ) -> None:
        """`on_silent` is called before it is closed since a response is overdue."""
        self.address = address
        self.connection = Connection(client_id, login, None if login is None else self._on_logged_in)
        self._on_silent = on_silent
        self.is_full = False
        """True if the broker reads more slowly than this side writes. What is sent nevertheless is kept in memory,
        without a limit."""
        self.on_drained: Callable[[], None] = _ignore
        """Called when it is no longer full, or has ended while it was."""
        self._request_timeout_s = request_timeout_ms / 1000
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._closing: asyncio.Transport | None = None
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._lost: asyncio.Future[None] = self._loop.create_future()
        self._timer: asyncio.TimerHandle | None = None
        self._security = security
        self._session_timer: asyncio.TimerHandle | None = None
        self._logging_in: asyncio.Task[None] | None = None
        self.last_sign_s = 0.0
        """The time when something was received, or the oldest request sent that waits, or when it became full."""
        self._was_connected = False

    @property
    def is_open(self) -> bool:
        return self.connection.ready and self._transport is not None

    def send(
        self,
        api: Api[RequestT, ResponseT],
        message: RequestT,
        on_answer: OnAnswer[ResponseT] | None,
        patience_s: float | None = None,
    ) -> None:
        """Send now; the callback runs in the turn that receives the response or loses the connection."""
        transport = self._transport
        if transport is None or not self.connection.ready:
            raise ConnectionLost(f"the connection to {self.address} is closed")
        if on_answer is not None and not self.connection.pending:
            self._expect_sign()
        transport.write(self.connection.send(api, message, on_answer, patience_s))

    def _expect_sign(self) -> None:
        """Expect a sign of life of the broker from now on."""
        self.last_sign_s = self._loop.time()
        if self._timer is None:
            self._timer = self._loop.call_later(self._request_timeout_s, self._on_timer)

    async def wait_ready(self) -> None:
        """Wait until the versions are known. Raises the error that ended the connection before."""
        await self._ready

    async def request(self, api: Api[RequestT, ResponseT], message: RequestT, timeout_s: float) -> ResponseT:
        answered: asyncio.Future[ResponseT] = self._loop.create_future()

        def on_answer(response: ResponseT | None, error: KafkaError | None) -> None:
            if error is not None:
                reject(answered, error)
            elif response is not None:
                resolve(answered, response)

        self.send(api, message, on_answer, timeout_s)
        try:
            async with asyncio.timeout(timeout_s):
                return await answered
        except TimeoutError:
            text = f"{self.address} did not respond to {api.key.name} within {timeout_s * 1000:.0f} ms"
            if timeout_s < _LEAST_S:
                text = f"no time was left for {self.address} to respond to {api.key.name}"
            raise RequestTimedOut(text) from None

    def close(self) -> None:
        if self._transport is not None:
            self._closing = self._transport
            self._transport.close()
        self._end(ConnectionLost(f"this side closed the connection to {self.address}"))

    async def wait_closed(self, timeout_s: float) -> None:
        """Wait after `close` until everything written has been sent, which is all that acks=0 can ask for. What the
        other side has not read by then is dropped: its socket would stay open for as long as that side likes."""
        if self._was_connected:
            await asyncio.wait((self._lost,), timeout=timeout_s)
        if self._closing is not None and not self._lost.done():
            self._closing.abort()
        self._closing = None

    # --- asyncio.BufferedProtocol -------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not instances of asyncio's classes.
        stream = self._transport = cast(asyncio.Transport, transport)
        self._was_connected = True
        handle = stream.get_extra_info("socket")
        if handle is not None and handle.family in (socket.AF_INET, socket.AF_INET6):
            handle.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if stream.get_extra_info("sockname") == stream.get_extra_info("peername"):
            # TCP simultaneous open: a socket can connect to itself on an ephemeral port without a listener.
            self._abort(ConnectionLost(f"nothing listens on {self.address}"))
            return
        stream.write(self.connection.open())

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the memory to receive into: no more than the current response lacks, if it is large, so that nothing
        of it is copied once more."""
        return self.connection.room()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            to_send = self.connection.receive(nbytes)
        except ProtocolError as error:
            self._abort(ConnectionLost(f"{self.address} does not speak the Kafka protocol: {error}"))
            return
        except AuthenticationFailed as error:
            said = error.message.removeprefix(f"{error.name}: ")
            self._abort(AuthenticationFailed(f"{self.address}: {said}", code=error.code, hint=error.hint))
            return
        self.last_sign_s = self._loop.time()
        if self._transport is not None:
            for part in to_send:
                self._transport.write(part)
        if self.connection.ready and not self._ready.done():
            resolve(self._ready, None)

    def pause_writing(self) -> None:
        self.is_full = True
        if not self.connection.pending:
            self._expect_sign()

    def resume_writing(self) -> None:
        self.is_full = False
        self.on_drained()

    def connection_lost(self, exc: Exception | None) -> None:
        resolve(self._lost, None)
        if isinstance(exc, ssl.SSLError):
            self._end(tls_error(self.address, exc))
        else:
            self._end(ConnectionLost(f"{self.address} closed the connection{f': {exc}' if exc else ''}"))

    def _on_timer(self) -> None:
        """End a connection that is silent. Time counts from the last received data, and only while requests are pending
        or cannot be written."""
        self._timer = None
        oldest = self.connection.pending[0] if self.connection.pending else None
        if self._transport is None or (oldest is None and not self.is_full):
            return
        patience_s = oldest.patience_s if oldest is not None else None
        overdue_from_s = self.last_sign_s + (patience_s or self._request_timeout_s)
        if self._loop.time() < overdue_from_s:
            self._timer = self._loop.call_at(overdue_from_s, self._on_timer)
            return
        omitted = f"respond to {oldest.api.key.name}" if oldest is not None else "read what was sent"
        error = RequestTimedOut(f"{self.address} did not {omitted} in time")
        if self._on_silent is not None:
            self._on_silent(self)
        self._abort(error)

    # --- the login ----------------------------------------------------------------------------------------------------

    def _on_logged_in(self, lifetime_ms: int) -> None:
        if lifetime_ms > 0:
            self._session_timer = self._loop.call_later(lifetime_ms / 1000 * _LOGIN_AGAIN_AT, self._on_session_ends)

    def _on_session_ends(self) -> None:
        self._session_timer = None
        self._logging_in = asyncio.ensure_future(self._log_in_again())

    async def _log_in_again(self) -> None:
        """Log in once more. Requests are sent while a token is fetched, and wait from when the login is sent
        (KIP-368)."""
        logins = self._security.logins
        if logins is None:
            return
        try:
            login = await logins.new()
        except AuthenticationFailed as error:
            self._abort(error)
            return
        if self._transport is not None:
            if not self.connection.pending:
                self._expect_sign()
            self._transport.write(self.connection.log_in(login))

    # ------------------------------------------------------------------------------------------------------------------

    def _abort(self, error: KafkaError) -> None:
        if self._transport is not None:
            self._transport.abort()
        self._end(error)

    def _end(self, error: KafkaError) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._session_timer is not None:
            self._session_timer.cancel()
            self._session_timer = None
        if self._logging_in is not None:
            self._logging_in.cancel()
        self._transport = None
        self.connection.close(error)
        if self.is_full:
            # The event loop does not report it of a connection that has ended.
            self.resume_writing()
        reject(self._ready, error)
        if not self._ready.cancelled():
            # Every waiter may have gone: the caller's own deadline has passed.
            self._ready.exception()


async def connect(
    host: str,
    port: int,
    *,
    client_id: str,
    request_timeout_ms: float,
    security: Security,
    deadline: Deadline,
    on_silent: Callable[[Transport], None],
) -> Transport:
    """Connect, negotiate versions and log in. Raises ConnectionLost, RequestTimedOut or AuthenticationFailed."""
    address = f"{host}:{port}"
    loop = asyncio.get_running_loop()
    transport: Transport | None = None
    try:
        async with asyncio.timeout_at(deadline.at_s):
            login = await security.logins.new() if security.logins is not None else None
            opened = transport = Transport(address, client_id, request_timeout_ms, security, login, on_silent)
            async with asyncio.timeout_at(deadline.capped(_SETUP_MS).at_s):
                await loop.create_connection(lambda: opened, host, port, ssl=security.context)
            await transport.wait_ready()
    except TimeoutError:
        if transport is not None:
            transport.close()
        raise RequestTimedOut(f"no connection to {address} in time") from None
    except ssl.SSLError as error:
        raise tls_error(address, error) from error
    except OSError as error:
        raise ConnectionLost(f"no connection to {address}: {_reason(error)}") from error
    except asyncio.CancelledError:
        if transport is not None:
            transport.close()
        raise
    return transport


def tls_error(address: str, error: ssl.SSLError) -> KafkaError:
    """Return the error of a TLS handshake: fatal where one side does not accept the other's certificate or conditions;
    else the connection broke."""
    if isinstance(error, ssl.SSLCertVerificationError):
        from oncelog.protocol.certificate_errors import certificate_hint  # few connections need it

        said = error.verify_message.rstrip(".")
        hint = certificate_hint(said) or "name the certificate's authority in ssl_truststore_location"
        return AuthenticationFailed(f"the certificate of {address} is not accepted: {said}", hint=hint)
    reason = error.reason or ""
    if "CERTIFICATE_EXPIRED" in reason:
        hint = "this client's certificate, in ssl_keystore_location, has ended: renew it"
        return AuthenticationFailed(f"{address} does not accept this client: {_words(reason)}", hint=hint)
    if "ALERT" in reason:
        hint = "it may ask for a certificate of this client, in ssl_keystore_location, or for another version of TLS"
        return AuthenticationFailed(f"{address} refuses TLS with this client: {_words(reason)}", hint=hint)
    return ConnectionLost(f"no TLS with {address}: {_words(reason) or error}")


def _ignore() -> None:
    pass


def _words(reason: str) -> str:
    return reason.lower().replace("_", " ")


def _reason(error: OSError) -> str:
    """Return "connection refused" and the like, also where asyncio lists one failure for each address of a host."""
    numbers = (
        {error.errno} if error.errno is not None else {int(each) for each in re.findall(r"Errno (\d+)", str(error))}
    )
    is_lookup = isinstance(error, socket.gaierror) or not numbers
    texts = [error.strerror or str(error)] if is_lookup else [os.strerror(each) for each in sorted(numbers)]
    return ", ".join(texts).lower()
