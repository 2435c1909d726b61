"""One connection to a broker, without I/O: bytes in, responses out.

Owns: correlation ids, the order of responses, version negotiation (ApiVersions, KIP-511). Does not own: the socket or
time (`transport`), what a response means, how to log in (`login`). Invariants: responses come in the order of the
requests, so a correlation id other than the oldest pending one ends the connection; the callback of every request that
expects a response is called exactly once, with the response or with an error; while a login lasts, its requests alone
are sent. A login that is repeated (KIP-368) waits for no response: what was sent before is still answered, and requests
that are made meanwhile are held and sent after it.
"""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from oncelog.client.values.errors import FatalError, KafkaError
from oncelog.client.wire.apis import API_VERSIONS, Api, RequestT, ResponseT
from oncelog.protocol.errors import ErrorCode, ProtocolError
from oncelog.protocol.frame_buffer import FrameBuffer
from oncelog.protocol.generated.api_versions_request import ApiVersionsRequest
from oncelog.protocol.generated.api_versions_response import ApiVersionsResponse
from oncelog.protocol.headers import decode_response_header, encode_request_header
from oncelog.protocol.message import Data

if TYPE_CHECKING:
    from oncelog.client.wire.login import Login

MAX_ANSWER_BYTES = 512 << 20
_MAX_FIRST_BYTES = 512 << 10
"""The largest response until the connection is ready: a server that has proved nothing yet fills no memory. Brokers
bound in the same way what a client sends before its login."""
SOFTWARE_NAME = "oncelog-client"
SOFTWARE_VERSION = "0.1.0"
_MAX_CORRELATION_ID = 0x7FFFFFFF

OnAnswer = Callable[[ResponseT | None, KafkaError | None], None]


class PendingRequest:
    """A request in flight."""

    __slots__ = ("api", "correlation_id", "on_answer", "patience_s", "version")

    def __init__(
        self, api: Api[Any, Any], version: int, correlation_id: int, on_answer: OnAnswer[Any], patience_s: float | None
    ) -> None:
        self.api = api
        self.patience_s = patience_s
        """The timeout of this request, if different from the connection's."""
        self.version = version
        self.correlation_id = correlation_id
        self.on_answer = on_answer


class Connection:
    """The protocol of one connection. `open()` returns the first bytes to send. What is received is written into
    `room()`; `receive()` takes its length and returns bytes to send."""

    def __init__(
        self, client_id: str, login: "Login | None" = None, on_logged_in: "Callable[[int], None] | None" = None
    ) -> None:
        """`on_logged_in` is called after each login, with the lifetime of the session in milliseconds, 0 for no end."""
        self.ready = False
        """True once versions are known and a required login is done."""
        self.was_served = False
        """True once the broker has answered anything besides its versions and the login."""
        self._logged_in = on_logged_in
        self.finalized_features: dict[str, int] = {}
        self.features_epoch = -1
        self.pending: deque[PendingRequest] = deque()
        self._client_id = client_id
        self._frames = FrameBuffer(_MAX_FIRST_BYTES)
        self._next_correlation_id = 1
        self._ranges: dict[int, tuple[int, int]] = {}
        self._to_send: list[bytes] = []
        self._login = login
        self._held: list[Callable[[], bytes]] | None = None
        """The functions that make the bytes of requests waiting for a repeated login; None while there is none."""

    def open(self) -> bytes:
        return self._ask_versions(API_VERSIONS.maximum)

    def version_of(self, api: Api[Any, Any]) -> int:
        """Return the highest version that both sides support; raises FatalError if there is none."""
        offered = self._ranges.get(api.key)
        version = min(api.maximum, offered[1]) if offered else -1
        if offered is None or version < max(api.minimum, offered[0]):
            theirs = f"versions {offered[0]} to {offered[1]}" if offered else "nothing"
            raise FatalError(
                f"{api.key.name}: the broker offers {theirs}, this client {api.minimum} to {api.maximum}",
                code=ErrorCode.UNSUPPORTED_VERSION,
            )
        return version

    def send(
        self,
        api: Api[RequestT, ResponseT],
        message: RequestT,
        on_answer: OnAnswer[ResponseT] | None,
        patience_s: float | None = None,
    ) -> bytes:
        """Return the bytes of a request; without `on_answer` no response is expected (acks=0)."""
        version = self.version_of(api)
        if self._held is not None:
            body = api.encode(message, version)
            self._held.append(lambda: self._framed(api, version, body, on_answer, patience_s))
            return b""
        return self._encode(api, message, version, on_answer, patience_s)

    def log_in(self, login: "Login") -> bytes:
        """Return the bytes that begin a new login on a connection that has one."""
        self._held = []
        login.begin(self._send_at_once, self._on_logged_in)
        return self._to_send.pop()

    def room(self) -> memoryview:
        """Return the memory to receive into."""
        return self._frames.room()

    def receive(self, count: int) -> list[bytes]:
        """Pass the responses that `count` further bytes complete to their callbacks; returns bytes to send. After a
        ProtocolError the connection must be closed, and after an AuthenticationFailed."""
        for frame in self._frames.add(count):
            self._answer(frame)
        to_send, self._to_send = self._to_send, []
        return to_send

    def close(self, error: KafkaError) -> None:
        """End, and fail every pending request with `error`."""
        self.ready = False
        self._release_held()
        pending, self.pending = self.pending, deque()
        for request in pending:
            request.on_answer(None, error)

    def _encode(
        self,
        api: Api[RequestT, ResponseT],
        message: RequestT,
        version: int,
        on_answer: OnAnswer[ResponseT] | None,
        patience_s: float | None = None,
    ) -> bytes:
        return self._framed(api, version, api.encode(message, version), on_answer, patience_s)

    def _framed(
        self,
        api: Api[Any, Any],
        version: int,
        body: list[Data],
        on_answer: OnAnswer[Any] | None,
        patience_s: float | None,
    ) -> bytes:
        correlation_id = self._next_correlation_id
        self._next_correlation_id = 1 if correlation_id == _MAX_CORRELATION_ID else correlation_id + 1
        header = encode_request_header(api.key, version, correlation_id, self._client_id, api.is_flexible(version))
        if on_answer is not None:
            self.pending.append(PendingRequest(api, version, correlation_id, on_answer, patience_s))
        size = len(header) + sum(map(len, body))
        return b"".join((size.to_bytes(4, "big"), header, *body))

    def _answer(self, frame: memoryview) -> None:
        if not self.pending:
            raise ProtocolError("the broker sent a response without a request")
        request = self.pending[0]
        api, version = request.api, request.version
        correlation_id, position = decode_response_header(frame, api.answers_flexibly(version))
        if correlation_id != request.correlation_id:
            raise ProtocolError(f"the response has correlation id {correlation_id} instead of {request.correlation_id}")
        if api is API_VERSIONS and bytes(frame[position : position + 2]) == b"\x00\x23":
            # A broker that does not support the version responds UNSUPPORTED_VERSION in version 0.
            version = 0
        response, _ = api.decode(frame, version, position)
        self.pending.popleft()
        self.was_served = self.ready
        request.on_answer(response, None)

    def _ask_versions(self, version: int) -> bytes:
        request = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=SOFTWARE_VERSION)
        return self._encode(API_VERSIONS, request, version, self._on_versions)

    def _on_versions(self, response: ApiVersionsResponse | None, error: KafkaError | None) -> None:
        if response is None:
            return
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
            theirs = next((api.max_version for api in response.api_keys if api.api_key == API_VERSIONS.key), 0)
            self._to_send.append(self._ask_versions(min(theirs, API_VERSIONS.maximum - 1)))
            return
        if response.error_code:
            raise ProtocolError(f"ApiVersions failed with error {response.error_code}")
        self._ranges = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
        # Features are meaningless until their epoch is known (KIP-584).
        if response.finalized_features_epoch >= 0:
            self.features_epoch = response.finalized_features_epoch
            self.finalized_features = {each.name: each.max_version_level for each in response.finalized_features}
        if self._login is None:
            self._be_ready()
        else:
            self._login.begin(self._send_at_once, self._on_logged_in)

    # --- the login ----------------------------------------------------------------------------------------------------

    def _send_at_once(self, api: Api[Any, Any], message: Any, on_answer: OnAnswer[Any]) -> None:
        self._to_send.append(self._encode(api, message, self.version_of(api), on_answer))

    def _be_ready(self) -> None:
        self.ready = True
        self._frames.max_frame_bytes = MAX_ANSWER_BYTES

    def _on_logged_in(self, lifetime_ms: int) -> None:
        self._be_ready()
        self._to_send += self._release_held()
        if self._logged_in is not None:
            self._logged_in(lifetime_ms)

    def _release_held(self) -> list[bytes]:
        held, self._held = self._held or [], None
        return [each() for each in held]
