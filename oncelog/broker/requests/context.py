"""A request in a handler, and the connection it came from.

Owns: a handler's inputs and possible results. Does not own: frames, versions, codecs (`dispatch`), sockets
(`broker.net`).
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar

from oncelog.broker.security.principal import ANONYMOUS
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.slices import Sliced
from oncelog.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from oncelog.broker.requests.parts import Broker

T = TypeVar("T")

Handler = Callable[["RequestContext", Any], Any]
AroundHandler = Callable[[ApiKey, Handler], Handler]
"""Wraps what an API's handler does, to see, refuse or change it; returns the handler itself where it has no concern."""

_NO_LIMIT = 2**31 - 1


class LoginStep(NamedTuple):
    """The answer to a token."""

    token: bytes
    session_ms: int
    """How long the session lasts that begins now; 0 if it has no end, or if none begins yet."""


class Login(Protocol):
    """The login of a connection, as the handlers of its two requests see it (`broker.net.login`)."""

    @property
    def mechanisms(self) -> list[str]: ...

    @property
    def takes_handshake(self) -> bool: ...

    @property
    def takes_token(self) -> bool: ...

    @property
    def is_by_token(self) -> bool: ...

    def on_handshake(self, mechanism: str, version: int) -> bool:
        """Whether the mechanism is enabled; if not, the login has failed."""

    def evaluate(self, token: bytes) -> LoginStep | Completion[LoginStep]:
        """Raises, or completes with, AuthenticationFailed: the login has failed."""

    def delayed(self, response: T) -> Completion[T]:
        """The response to a login that has failed."""


class CloseConnection(Exception):
    """The only correct response is to close the connection (acks=0 that failed, an unknown API)."""


class Peer:
    """The client of a connection, and the address under which this listener is advertised to it."""

    __slots__ = (
        "_response_limit",
        "advertised",
        "host",
        "is_disconnected",
        "listener_name",
        "login",
        "on_disconnect",
        "on_left",
        "port",
        "principal",
        "software_name",
        "throttle",
    )

    def __init__(
        self,
        host: str,
        port: int,
        listener_name: str,
        advertised: tuple[str, int],
        response_limit: Callable[[], int] | None = None,
    ) -> None:
        self.host: Final = host
        self.port: Final = port
        self.listener_name: Final = listener_name
        self.advertised: Final = advertised
        self._response_limit = response_limit
        self.principal = ANONYMOUS
        """The client's principal; its listener's authentication sets it."""
        self.software_name = ""
        """The client's software, as ApiVersions names it (KIP-511)."""
        self.throttle: Callable[[int], None] | None = None
        """Keeps the connection from being read for so many milliseconds (`broker.requests.throttling`)."""
        self.login: Login | None = None
        """How the client logs in, on a listener with SASL."""
        self.is_disconnected = False
        self.on_disconnect: Callable[[], None] | None = None
        """Called when the connection ends; whatever waits for this peer, one thing at a time, need not wait any
        longer."""
        self.on_left: Callable[[], None] | None = None
        """Called after that: what the client has opened on the connection, such as share sessions, ends with it."""

    def is_connected(self) -> bool:
        return not self.is_disconnected

    def disconnect(self) -> None:
        self.is_disconnected = True
        self.throttle = None
        on_disconnect, self.on_disconnect = self.on_disconnect, None
        if on_disconnect is not None:
            on_disconnect()
        on_left, self.on_left = self.on_left, None
        if on_left is not None:
            on_left()

    @property
    def next_response_bytes(self) -> int:
        """The most bytes of records that one response may contain now, given what other clients leave unread."""
        return _NO_LIMIT if self._response_limit is None else self._response_limit()

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"


class RequestContext:
    """One request and its connection."""

    __slots__ = ("api_key", "api_version", "broker", "client_id", "correlation_id", "in_slices", "peer")

    in_slices: bool
    """The response may be long: it is encoded in slices."""

    def __init__(
        self,
        broker: "Broker",
        peer: "Peer",
        api_key: int,
        api_version: int,
        correlation_id: int,
        client_id: str | None,
    ) -> None:
        self.broker: Final = broker
        self.peer: Final = peer
        self.api_key: Final = api_key
        self.api_version: Final = api_version
        self.correlation_id: Final = correlation_id
        self.client_id: Final = client_id
        self.in_slices = False

    def run(self, steps: Sliced[Any]) -> Any:
        """Return the result of the steps, or a completion of it if that takes longer than this turn. A Produce is
        completed even if its client has disconnected: with acks=0 a client may send and close."""
        self.in_slices = True
        return self.broker.slices.run(steps, _always if self.api_key == ApiKey.PRODUCE else self.peer.is_connected)

    @property
    def advertised(self) -> tuple[str, int]:
        """The host and port at which clients of this listener can reach this node."""
        return self.peer.advertised


class Pipelined:
    """A response that arrives later while the connection's next request may already start (Produce, once appended).

    `respond` makes it of the ended completion, which may have failed, in the turn in which it ends; it may raise.
    """

    __slots__ = ("completion", "respond")

    def __init__(self, completion: Completion[Any], respond: Callable[[Completion[Any]], Any]) -> None:
        self.completion: Final = completion
        self.respond: Final = respond


def _always() -> bool:
    return True
