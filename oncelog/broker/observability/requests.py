"""What is observed of requests: one line each at debug, and their times by API.

Owns: the line, and when to observe. Does not own: the times (`metrics`), a request (`broker.requests.dispatch`).
Invariant: while neither is wanted, a request costs one look at `is_on`.

A request's time runs from its dispatch to its encoded response, so it includes waiting: of a Fetch for records, of a
JoinGroup for other members, of a Produce for the flush, as in Kafka's TotalTimeMs.
"""

import time
from collections.abc import Callable
from typing import Any, Protocol

from oncelog.broker.observability.logging import DEBUG, REQUESTS, level_of, logger_of
from oncelog.broker.observability.metrics import Histogram, Metrics
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.errors import ErrorCode


class ObservedPeer(Protocol):
    @property
    def address(self) -> str: ...

    @property
    def listener_name(self) -> str: ...


class ObservedContext(Protocol):
    """A request, as its line has it."""

    @property
    def api_key(self) -> int: ...

    @property
    def api_version(self) -> int: ...

    @property
    def correlation_id(self) -> int: ...

    @property
    def client_id(self) -> str | None: ...

    @property
    def peer(self) -> ObservedPeer: ...


class RequestObserver:
    def __init__(
        self, log: Any, metrics: Metrics, *, measures: bool, timer_ns: Callable[[], int] = time.perf_counter_ns
    ) -> None:
        """`measures` says that the durations of requests are wanted."""
        self._log = logger_of(log, REQUESTS)
        self._metrics = metrics
        self._measures = measures
        self.timer_ns = timer_ns
        self.is_on = False
        self._logs = False
        self._seconds: dict[int, Histogram] = {}
        """The histograms of the metrics, by API key."""
        level = level_of(self._log)
        if level is not None:
            level.watch(self._follow_level)
        self._follow_level()

    def _follow_level(self) -> None:
        self._logs = self._log.is_enabled_for(DEBUG)
        self.is_on = self._measures or self._logs

    def begin(self, context: ObservedContext, request_bytes: int) -> "ObservedRequest":
        return ObservedRequest(self, context, request_bytes)

    def end(self, observed: "ObservedRequest", response_bytes: int, closes: str | None) -> None:
        duration_ns = self.timer_ns() - observed.started_ns
        if self._measures:
            self._seconds_of(observed.context.api_key).observe(duration_ns)
        if self._logs:
            self._write(observed, response_bytes, duration_ns, closes)

    def _seconds_of(self, api_key: int) -> Histogram:
        seconds = self._seconds.get(api_key)
        if seconds is None:
            seconds = self._seconds[api_key] = self._metrics.request_seconds[ApiKey(api_key).name] = Histogram()
        return seconds

    def _write(self, observed: "ObservedRequest", response_bytes: int, duration_ns: int, closes: str | None) -> None:
        context = observed.context
        facts: dict[str, Any] = {} if closes is None else {"closes": closes}
        if observed.error:
            facts["error"] = ErrorCode(observed.error).name
        self._log.debug(
            "request",
            api=ApiKey(context.api_key).name,
            version=context.api_version,
            correlation_id=context.correlation_id,
            client_id=context.client_id,
            peer=context.peer.address,
            listener=context.peer.listener_name,
            request_bytes=observed.request_bytes,
            response_bytes=response_bytes,
            duration_ms=round(duration_ns / 1_000_000, 3),
            **facts,
        )


class ObservedRequest:
    """One request, from its dispatch on."""

    __slots__ = ("_observer", "context", "error", "request_bytes", "started_ns")

    def __init__(self, observer: RequestObserver, context: ObservedContext, request_bytes: int) -> None:
        self._observer = observer
        self.context = context
        self.request_bytes = request_bytes
        self.error = 0
        """The error code of the whole response; most responses have one for each partition or group only."""
        self.started_ns = observer.timer_ns()

    def end(self, response_bytes: int, closes: str | None) -> None:
        """Note the end. A response of 0 bytes is none (acks=0, or the connection closes)."""
        self._observer.end(self, response_bytes, closes)
