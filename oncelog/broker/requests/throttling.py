"""Makes a client above its quota wait: the response says how long, and it is not read from for that time (KIP-219).

Owns: what each request is charged with. Does not own: the quotas (`broker.security.quotas`), the waiting
(`Peer.throttle`, `broker.net.connection`).
Invariant: no response is held back: a client that does not know of quotas merely sees a slow broker.

Produce is charged with the bytes of its records, Fetch and ShareFetch with those that they return, each request with
the time that its handler takes on the broker's one thread. A client above its quota has its response at once, records
included: where Kafka leaves them out of a Fetch, the wait here is just so much longer that the rate is the same. One
Fetch returns no more than the quota allows for in ten seconds.
"""

from collections.abc import Callable
from functools import partial
from math import ceil, inf
from typing import TYPE_CHECKING, Any, TypeVar

from oncelog.broker.apis.table import API_TABLE
from oncelog.broker.requests.context import Handler, Pipelined, RequestContext
from oncelog.broker.security.quotas import CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE, REQUEST_PERCENTAGE, Limit, Quotas
from oncelog.broker.turns.completion import Completion
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.message import Message

if TYPE_CHECKING:
    from oncelog.broker.requests.parts import Broker
    from oncelog.broker.turns.slices import Sliced
    from oncelog.protocol.generated.fetch_request import FetchRequest
    from oncelog.protocol.generated.fetch_response import FetchResponse
    from oncelog.protocol.generated.produce_request import ProduceRequest
    from oncelog.protocol.generated.share_fetch_request import ShareFetchRequest
    from oncelog.protocol.generated.share_fetch_response import ShareFetchResponse

_FETCHES = (ApiKey.FETCH, ApiKey.SHARE_FETCH)
_LONGEST_MS = 2**31 - 1
FetchRequestT = TypeVar("FetchRequestT", "FetchRequest", "ShareFetchRequest")
MessageT = TypeVar("MessageT", bound=Message)


def quotas_of(broker: "Broker") -> Quotas:
    """Return the quotas of a broker that has, or is about to have, the first one: from then on clients are charged."""
    quotas = broker.quotas
    if quotas is None:
        quotas = broker.quotas = Quotas(broker.metadata.state.security, broker.clock, broker.config)
        broker.put_around_handlers(partial(_around_handler, quotas, broker.request_observer.timer_ns))
    return quotas


def _around_handler(quotas: Quotas, timer_ns: Callable[[], int], api: ApiKey, handle: Handler) -> Handler:
    return _Charged(quotas, api, timer_ns, handle).handle if API_TABLE[api].is_charged else handle


class _Charged:
    """The handler of an API whose clients are charged."""

    def __init__(self, quotas: Quotas, api: ApiKey, timer_ns: Callable[[], int], handle: Handler) -> None:
        self._quotas = quotas
        self._api = api
        self._timer_ns = timer_ns
        self._handle = handle

    def handle(self, context: RequestContext, request: Any) -> Any:
        charged = _ChargedContext(context, self._quotas, self._timer_ns)
        if self._api == ApiKey.PRODUCE:
            # Now, for the next request may start before this one is answered.
            charged.use(PRODUCER_BYTE_RATE, _produced(request))
        elif self._api in _FETCHES:
            request = charged.limited(request)
        started_ns = self._timer_ns()
        outcome = self._handle(charged, request)
        charged.taken_ns = self._timer_ns() - started_ns
        charged.is_first_turn = False
        return charged.settle(outcome)


class _ChargedContext(RequestContext):
    """One request whose client is charged: for its handler's work in later turns too."""

    def __init__(self, context: RequestContext, quotas: Quotas, timer_ns: Callable[[], int]) -> None:
        version, correlation_id = context.api_version, context.correlation_id
        super().__init__(context.broker, context.peer, context.api_key, version, correlation_id, context.client_id)
        self._context = context
        self._quotas = quotas
        self._timer_ns = timer_ns
        self._until_ms = 0.0
        self.taken_ns = 0
        self.is_first_turn = True

    def run(self, steps: "Sliced[Any]") -> Any:
        self._context.in_slices = True  # where the dispatcher looks
        return super().run(self._timed(steps))

    def _timed(self, steps: "Sliced[Any]") -> "Sliced[Any]":
        while True:
            started_ns = self._timer_ns()
            try:
                step = next(steps)
            except StopIteration as stop:
                return stop.value
            finally:
                if not self.is_first_turn:
                    self.taken_ns += self._timer_ns() - started_ns
            yield step

    def use(self, key: str, units: float, longest_ms: float = inf) -> None:
        limit = self._limit(key)
        if limit is None:
            return
        wait_ms = min(self._quotas.use(key, limit, units), longest_ms)
        if wait_ms >= 1:
            self._until_ms = max(self._until_ms, self.broker.clock.monotonic_ms() + wait_ms)
            _keep_waiting(self, int(wait_ms))

    def _limit(self, key: str) -> Limit | None:
        return self._quotas.limit(key, self.peer.principal.name, self.client_id or "")

    def limited(self, request: FetchRequestT) -> FetchRequestT:
        limit = self._limit(CONSUMER_BYTE_RATE)
        if limit is None:
            return request
        return _with(request, max_bytes=min(request.max_bytes, self._quotas.most_fetched(limit)))

    def settle(self, outcome: Any) -> Any:
        if isinstance(outcome, Pipelined):
            pipelined = outcome
            return Pipelined(pipelined.completion, lambda done: self.settle(pipelined.respond(done)))
        if isinstance(outcome, Completion):
            return outcome.map(self.settle)
        if outcome is None:  # acks=0: Kafka does not charge for the time of these either
            return None
        self.use(REQUEST_PERCENTAGE, self.taken_ns / 1e7, self._quotas.longest_request_wait_ms)
        if self.api_key in _FETCHES:
            self.use(CONSUMER_BYTE_RATE, _fetched(outcome))
        wait_ms = int(self._until_ms - self.broker.clock.monotonic_ms())
        return _with_throttle_time(outcome, wait_ms) if wait_ms >= 1 else outcome


class Mutations:
    """The partitions that one request creates and deletes (KIP-599)."""

    def __init__(self, context: RequestContext, *, is_strict: bool) -> None:
        """With `is_strict` what comes too early is refused; otherwise it only waits."""
        quotas, self._context, self._is_strict = context.broker.quotas, context, is_strict
        self._limit = None if quotas is None else quotas.mutations(context.peer.principal.name, context.client_id or "")
        self._is_above = False

    def count(self, partitions: int) -> None:
        """Raises KafkaError(THROTTLING_QUOTA_EXCEEDED)."""
        if self._limit is None:
            return
        bucket, rate, burst = self._limit
        monotonic_ms = self._context.broker.clock.monotonic_ms()
        if self._is_strict and bucket.owed_ms(rate, burst, monotonic_ms) > 0:
            self._is_above = True
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        bucket.take(partitions, rate, burst, monotonic_ms)
        self._is_above |= not self._is_strict

    def with_throttle_time(self, response: MessageT) -> MessageT:
        """Return the response with the client's throttle time, if it has to wait: if strict, only when something was
        refused."""
        if self._limit is None or not self._is_above:
            return response
        bucket, rate, burst = self._limit
        wait_ms = ceil(bucket.owed_ms(rate, burst, self._context.broker.clock.monotonic_ms()))
        if wait_ms == 0:
            return response
        _keep_waiting(self._context, wait_ms)
        return _with_throttle_time(response, wait_ms)


def _keep_waiting(context: RequestContext, wait_ms: int) -> None:
    context.broker.metrics.throttled += 1
    if context.peer.throttle is not None:
        context.peer.throttle(min(wait_ms, _LONGEST_MS))


def _with_throttle_time(response: MessageT, wait_ms: int) -> MessageT:
    own_wait_ms = getattr(response, "throttle_time_ms", None)
    if own_wait_ms is None:  # an API without this field
        return response
    return _with(response, throttle_time_ms=max(min(wait_ms, _LONGEST_MS), own_wait_ms))


def _with(message: MessageT, **changes: int) -> MessageT:
    """Return a changed copy: messages are read-only, and parts of them may be shared."""
    kind: Callable[..., Any] = type(message)
    fields: tuple[str, ...] = message.FIELDS
    copy: MessageT = kind(*(changes.get(name, getattr(message, name)) for name in fields))
    return copy


def _produced(request: "ProduceRequest") -> int:
    return sum(_size(each.records) for topic in request.topic_data for each in topic.partition_data)


def _fetched(response: "FetchResponse | ShareFetchResponse") -> int:
    return sum(_size(each.records) for topic in response.responses for each in topic.partitions)


def _size(records: Any) -> int:
    if records is None:
        return 0
    return sum(map(len, records)) if isinstance(records, (list, tuple)) else len(records)
