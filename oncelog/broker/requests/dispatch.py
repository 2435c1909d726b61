"""From a frame to a handler and back to bytes.

Owns: the version gate, decoding, the one place that catches unexpected exceptions, encoding of the response.
Does not own: sockets, order of responses (`broker.net.connection`), state (handlers use `Broker`).
Invariants
- One frame gives exactly one `Exchange`, which ends with bytes, without a response (acks=0), or by closing the
  connection.
- The first request of an API waits until its code is imported, in a thread if there is one: that takes 10 to 50 ms,
  during which others are served. A loaded API needs no further imports, whatever the request.

A handler whose cost grows with the request or with what is stored is a generator and runs in slices (`turns.slices`):
each `yield n` reports n more elements, `yield completion` waits, `return` gives the response, which is encoded in
slices too. A request of more than 8 KiB is decoded in slices, and handled by `handle_large` if a handler has
one besides its `handle`, else limited to `ELEMENTS_AT_ONCE`.

ApiVersions alone gets a response in an unsupported version: error 35 in the layout of v0, with the range of key 18
(KIP-511). For every other API an unknown key or version closes the connection, as Kafka's does.
"""

from collections import deque
from collections.abc import Callable
from importlib import import_module
from inspect import isgeneratorfunction
from typing import TYPE_CHECKING, Any

from oncelog.broker.apis.descriptor import Api
from oncelog.broker.apis.table import API_TABLE
from oncelog.broker.requests.context import AroundHandler, CloseConnection, Handler, Pipelined, RequestContext
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.slices import Sliced, TooMany
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.errors import ErrorCode, ProtocolError
from oncelog.protocol.headers import decode_request_header, encode_response_header

if TYPE_CHECKING:
    from oncelog.broker.observability.requests import ObservedRequest
    from oncelog.broker.requests.context import Peer
    from oncelog.broker.requests.parts import Broker

Parts = list[bytes | memoryview]
RunInThread = Callable[[Callable[[], None], Callable[[Exception | None], None]], None]
"""Runs a function in a thread, see `Scheduler.run_in_thread`."""

_LARGE_FRAME_BYTES = 8_192
"""The size up to which a frame is handled in one turn. Measured: no request that small takes more than 10 ms, whatever
it contains."""
_NEVER = 32_767
ELEMENTS_AT_ONCE = 20_000
"""The most elements of a request whose handler does not use slices: far more than a client needs."""
_ELEMENTS_IN_SLICES = 100_000
"""The most elements of any other request. Measured: freeing this many takes 15 ms, and is one step."""
_LARGEST_ANSWER_BYTES = 104_857_600
"""The most bytes of a response: the default maximum of a request (`socket.request.max.bytes`); librdkafka reads no
larger response either."""
_PARTS_JOINED = 512
_JOINED_PART_BYTES = 1_024


class LoadedApi:
    """An API whose code is imported; done at its first request, so that a start takes a fraction of a second."""

    __slots__ = (
        "decode",
        "decode_in_slices",
        "encode",
        "encode_in_slices",
        "flexible_from",
        "flexible_header_from",
        "handle",
        "handle_large",
        "key",
        "maximum",
        "minimum",
        "most_elements",
    )

    def __init__(self, api: Api, with_unstable: bool = False) -> None:
        request = import_module(f"oncelog.protocol.generated.{api.name}_request")
        response = import_module(f"oncelog.protocol.generated.{api.name}_response")
        flexible_from: int | None = request.FLEXIBLE_FROM
        self.key = api.key
        self.minimum = api.minimum
        self.maximum = api.highest(with_unstable)
        self.flexible_from = _NEVER if flexible_from is None else flexible_from
        # The response to ApiVersions never has a flexible header: a client must read it without knowing the versions
        # (KIP-511).
        self.flexible_header_from = _NEVER if api.key == ApiKey.API_VERSIONS else self.flexible_from
        self.decode: Callable[[memoryview, int, int], tuple[Any, int]] = request.decode
        self.encode: Callable[[Any, int], Parts] = response.encode
        self.decode_in_slices: Any = getattr(request, "decode_in_slices", None)
        self.encode_in_slices: Any = getattr(response, "encode_in_slices", None)
        handlers = import_module(api.handler)
        self.handle: Handler = _at_once_or_in_slices(handlers.handle)
        handle_large = getattr(handlers, "handle_large", handlers.handle)
        self.handle_large: Handler = _at_once_or_in_slices(handle_large)
        at_once = handle_large is handlers.handle and not isgeneratorfunction(handle_large)
        most_elements = ELEMENTS_AT_ONCE if at_once else _ELEMENTS_IN_SLICES
        self.most_elements: int = getattr(handlers, "MOST_ELEMENTS", most_elements)

    def put_around(self, around: AroundHandler) -> None:
        key = ApiKey(self.key)
        self.handle, self.handle_large = around(key, self.handle), around(key, self.handle_large)


def import_api(api: Api) -> None:
    """Import everything that requests of this API will need."""
    for name in (
        *(need.value for need in api.needs),
        f"oncelog.protocol.generated.{api.name}_request",
        f"oncelog.protocol.generated.{api.name}_response",
        api.handler,
    ):
        import_module(name)


def _at_once_or_in_slices(handle: Handler) -> Handler:
    if not isgeneratorfunction(handle):
        return handle
    return lambda context, request: context.run(handle(context, request))


class Exchange:
    """A request in progress, until its response."""

    __slots__ = (
        "_api",
        "_context",
        "_respond",
        "closes",
        "done",
        "holds",
        "observed",
        "on_done",
        "parts",
        "size_bytes",
    )

    _api: LoadedApi
    _context: RequestContext
    """The context of the request; it and `_api` are set when the exchange begins."""
    size_bytes: int
    """The size of all parts of the response."""
    _respond: Callable[[Completion[Any]], Any]
    """Makes a pipelined response; set while that is waited for."""

    def __init__(self) -> None:
        self.done = False
        self.holds = False
        self.parts: Parts | None = None
        self.size_bytes = 0
        self.closes: str | None = None
        self.on_done: Callable[[Exchange], None] | None = None
        self.observed: "ObservedRequest | None" = None
        """The request as its observer sees it; set while requests are observed (`broker.observability.requests`)."""

    def begin(self, api: LoadedApi, context: RequestContext, body: memoryview, position: int) -> None:
        self._api, self._context = api, context
        request, _ = api.decode(body, context.api_version, position)
        try:
            outcome = api.handle(context, request)
        except Exception as error:
            self._fail(error)
            return
        self._settle(outcome)

    def begin_large(self, api: LoadedApi, context: RequestContext, body: memoryview, position: int) -> None:
        self._api, self._context = api, context
        if api.decode_in_slices is None:
            self.begin(api, context, body, position)
            return
        try:
            outcome = context.run(self._handle(body, position))
        except Exception as error:
            self._fail(error)
            return
        self._settle(outcome)

    def _handle(self, body: memoryview, position: int) -> Sliced[Any]:
        api, context = self._api, self._context
        steps = api.decode_in_slices(body, context.api_version, position)
        elements = 0
        while True:
            try:
                step = next(steps)
            except StopIteration as stop:
                return api.handle_large(context, stop.value[0])
            except ProtocolError as error:
                raise CloseConnection(str(error)) from error
            elements += step
            if elements > api.most_elements:
                raise TooMany(f"more than {api.most_elements:,} elements")
            yield step

    def _settle(self, outcome: Any) -> None:
        if isinstance(outcome, Pipelined):
            self.holds = False
            self._respond = outcome.respond
            outcome.completion.then(self._on_pipelined)
        elif isinstance(outcome, Completion):
            self.holds = True
            outcome.then(self._on_completion)
        else:
            self._answer(outcome)

    def _on_pipelined(self, completion: Completion[Any]) -> None:
        try:
            response = self._respond(completion)
        except Exception as error:
            self._fail(error)
        else:
            self._settle(response)
        if self.on_done is not None and (self.done or not self.holds):
            self.on_done(self)

    def _on_completion(self, completion: Completion[Any]) -> None:
        error = completion.error
        if error is None:
            self._settle(completion.result())
        else:
            self._fail(error)
        if self.on_done is not None and (self.done or not self.holds):
            self.on_done(self)

    def _answer(self, response: Any) -> None:
        if response is not None:
            if self.observed is not None:
                self.observed.error = getattr(response, "error_code", 0)
            api, context = self._api, self._context
            try:
                if context.in_slices and api.encode_in_slices is not None:
                    self._answer_in_slices(response)
                    return
                version = context.api_version
                head = encode_response_header(context.correlation_id, version >= api.flexible_header_from)
                parts = [head, *api.encode(response, version)]
            except Exception as error:
                self._fail(error)
                return
            self._answer_encoded(parts)
            return
        self._end()

    def _answer_in_slices(self, response: Any) -> None:
        encoded = self._context.run(self._encode(response))
        if isinstance(encoded, Completion):
            self.holds = True
            encoded.then(self._on_encoded)
        else:
            self._answer_encoded(encoded)

    def _answer_encoded(self, parts: Parts) -> None:
        self._context.broker.metrics.requests += 1
        self.parts = parts
        self.size_bytes = sum(map(len, parts))
        self._end()

    def _end(self) -> None:
        self.holds = False
        self.done = True
        if self.observed is not None:
            self.observed.end(self.size_bytes, self.closes)

    def _on_encoded(self, encoded: Completion[Parts]) -> None:
        if encoded.error is not None:
            self._fail(encoded.error)
        else:
            self._answer_encoded(encoded.result())
        if self.on_done is not None:
            self.on_done(self)

    def _encode(self, response: Any) -> Sliced[Parts]:
        """Encode the response. Small parts are joined on the way: each takes several times its size in memory."""
        api, version = self._api, self._context.api_version
        parts: Parts = [encode_response_header(self._context.correlation_id, version >= api.flexible_header_from)]
        latest: Parts = []
        size_bytes = 0
        for step in api.encode_in_slices(latest, response, version):
            yield step
            if len(latest) >= _PARTS_JOINED:
                size_bytes += _move(latest, parts)
                if size_bytes > _LARGEST_ANSWER_BYTES:
                    raise TooMany(f"a response of more than {_LARGEST_ANSWER_BYTES:,} bytes")
        _move(latest, parts)
        return parts

    def _fail(self, error: Exception) -> None:
        if isinstance(error, CloseConnection):
            self.closes = str(error)
        elif isinstance(error, TooMany):
            self.closes = f"{ApiKey(self._api.key).name} with {error}"
        else:
            self._context.broker.logger.error(
                "request.failed",
                api=ApiKey(self._api.key).name,
                version=self._context.api_version,
                client_id=self._context.client_id,
                peer=self._context.peer.address,
                exc_info=error,
            )
            self.closes = f"internal error in {ApiKey(self._api.key).name}"
        self._end()

    def reject(self, parts: Parts) -> None:
        """Respond with these parts, without a handler."""
        self.parts = parts
        self.size_bytes = sum(map(len, parts))
        self._end()

    def close(self, reason: str) -> None:
        """End a request that waited for its API and turned out not to be servable."""
        self.closes = reason
        self._end()


def _move(latest: Parts, parts: Parts) -> int:
    """Move the latest parts, joined unless they are large; return how many bytes were moved."""
    size_bytes = sum(map(len, latest))
    if size_bytes < len(latest) * _JOINED_PART_BYTES:
        parts.append(b"".join(latest))
    else:
        parts += latest
    latest.clear()
    return size_bytes


_Waiting = tuple[memoryview, "Peer", Exchange]


class Dispatcher:
    """Turns whole frames into exchanges."""

    def __init__(self, broker: "Broker", run_in_thread: RunInThread | None = None) -> None:
        """Imports what a first request needs in a thread; synchronously if `run_in_thread` is None."""
        self._broker = broker
        self._observer = broker.request_observer
        self._run_in_thread = run_in_thread
        self._loaded: dict[int, LoadedApi] = {}
        self._waiting: dict[int, deque[_Waiting]] = {}
        """The requests that wait for an import, by API."""
        broker.on_around.append(self._put_around)

    def change_broker(self, broker: "Broker") -> None:
        """Let another broker handle what comes from now on. The one before ends what it has begun."""
        self._broker.on_around.remove(self._put_around)
        self._broker, self._observer = broker, broker.request_observer
        for api_key in self._loaded:
            self._on_imported(API_TABLE[api_key])
        broker.on_around.append(self._put_around)

    def dispatch(self, frame: memoryview, peer: "Peer", exchange: Exchange | None = None) -> Exchange:
        """Start one request, perhaps one whose exchange was already returned. Raises ProtocolError when the bytes are
        not a request that we serve."""
        size_bytes = len(frame)
        if size_bytes < 8:
            raise ProtocolError(f"a request of {size_bytes} bytes is shorter than its header")
        api = self._loaded.get(frame[0] << 8 | frame[1])
        if api is None:
            return self._dispatch_first(frame, peer)
        (_, version, correlation_id, client_id), position = decode_request_header(frame, api.flexible_from)
        context = RequestContext(self._broker, peer, api.key, version, correlation_id, client_id)
        if exchange is None:
            exchange = Exchange()
        if self._observer.is_on:
            exchange.observed = self._observer.begin(context, size_bytes)
        if not api.minimum <= version <= api.maximum:
            if api.key != ApiKey.API_VERSIONS:
                raise ProtocolError(f"{ApiKey(api.key).name} version {version} is not supported")
            exchange.reject(self._unsupported_api_versions(correlation_id, api))
            return exchange
        if size_bytes <= _LARGE_FRAME_BYTES:
            exchange.begin(api, context, frame, position)
        else:
            exchange.begin_large(api, context, frame, position)
        return exchange

    def _dispatch_first(self, frame: memoryview, peer: "Peer") -> Exchange:
        """Start a request of an API that is not loaded, once it is."""
        api_key = frame[0] << 8 | frame[1]
        api = API_TABLE.get(api_key)
        if api is None:
            raise ProtocolError(f"unknown API key {api_key}")
        if self._run_in_thread is None:
            import_api(api)
            self._on_imported(api)
            return self.dispatch(frame, peer)
        exchange = Exchange()
        exchange.holds = True
        if api_key not in self._waiting:
            self._waiting[api_key] = deque()
            self._run_in_thread(lambda: import_api(api), lambda error: self._on_thread_done(api, error))
        self._waiting[api_key].append((frame, peer, exchange))
        return exchange

    def _on_thread_done(self, api: Api, error: Exception | None) -> None:
        """Start what waited for an import. A failed one (no file descriptor is left, say) is retried with the next
        request."""
        if error is None:
            self._on_imported(api)
        self._start_next(api, self._waiting.pop(api.key), error)

    def _start_next(self, api: Api, waiting: deque[_Waiting], error: Exception | None) -> None:
        """Start one waiting request per turn, as requests from sockets: a connection's memory is accounted before the
        next one starts."""
        frame, peer, exchange = waiting.popleft()
        if peer.is_connected() or api.key == ApiKey.PRODUCE:  # with acks=0 one may send and close
            try:
                if error is not None:
                    raise error
                self.dispatch(frame, peer, exchange)
            except (ProtocolError, CloseConnection) as refusal:
                exchange.close(str(refusal))
            except Exception as failure:
                self._broker.logger.error("request.failed", api=api.key.name, peer=peer.address, exc_info=failure)
                exchange.close(f"internal error in {api.key.name}")
            if exchange.on_done is not None and (exchange.done or not exchange.holds):
                exchange.on_done(exchange)
        if waiting:
            self._broker.scheduler.call_soon(lambda: self._start_next(api, waiting, error))

    def _on_imported(self, api: Api) -> None:
        loaded = self._loaded[api.key] = LoadedApi(api, self._broker.serves_unstable)
        for around in self._broker.around_handlers:
            loaded.put_around(around)

    def _put_around(self, around: AroundHandler) -> None:
        for loaded in self._loaded.values():
            loaded.put_around(around)

    def _unsupported_api_versions(self, correlation_id: int, api: LoadedApi) -> Parts:
        from oncelog.protocol.generated.api_versions_response import ApiVersion, ApiVersionsResponse, encode

        own_range = ApiVersion(api_key=api.key, min_version=api.minimum, max_version=api.maximum)
        response = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=(own_range,))
        return [encode_response_header(correlation_id, False), *encode(response, 0)]
