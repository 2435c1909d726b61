"""The broker's numbers: counters, gauges, histograms.

Owns: the numbers. Does not own: counting (the part that does the work adds one), what each means (`catalogue`), or
reporting (`collection`). Invariants
- Counters only grow. One addition to a slot costs 0.05 µs, so the hot paths always count.
- Gauges are refreshed by the reporter, just before it reports.
- What needs a clock for each request or round is measured only if something reports it (`stopwatch`).
"""

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable

from oncelog.broker.turns.ports import Stopwatch
from oncelog.protocol.errors import ErrorCode

COUNTERS = (
    "requests",
    "request_bytes",
    "response_bytes",
    "appends",
    "append_bytes",
    "duplicate_batches",
    "full_fetches",
    "incremental_fetches",
    "fetch_session_evictions",
    "flush_rounds",
    "transactions_started",
    "transactions_committed",
    "transactions_aborted",
    "connections",
    "connections_refused",
    "throttled",
    "connections_closed_idle",
    "connections_closed_slow",
    "connections_closed_expired",
    "logins",
    "logins_failed",
    "logins_renewed",
    "renewals_failed",
    "file_problems",
)
GAUGES = (
    "open_transactions",
    "decided_transactions",
    "open_connections",
    "waiting_fetches",
    "fetch_sessions",
    "offline_partitions",
    "disk_full",
)
# Counted by the name of an error; those that are listed are reported as 0 before the first one.
BY_ERROR = {
    "rejected_batches": (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.INVALID_PRODUCER_EPOCH),
    "producers_fenced": (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED),
}
HISTOGRAMS = ("request_seconds", "round_seconds", "sync_seconds", "transaction_seconds")

_S = 1_000_000_000
BOUNDS_S = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
"""Bounds from a sync on a fast disk to the longest wait of a Fetch that clients ask for."""
LONG_BOUNDS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900)
"""Bounds for transactions, up to Kafka's `transaction.max.timeout.ms`."""


class Histogram:
    """Durations in nanoseconds, counted by upper bounds in seconds."""

    __slots__ = ("_bounds_ns", "bounds_s", "counts", "sum_ns")

    def __init__(self, bounds_s: tuple[float, ...] = BOUNDS_S) -> None:
        self.bounds_s = bounds_s
        self._bounds_ns = [round(bound_s * _S) for bound_s in bounds_s]
        self.counts = [0] * (len(bounds_s) + 1)
        """How many were above the bound before and up to this one; the last is above all bounds."""
        self.sum_ns = 0

    def observe(self, duration_ns: int) -> None:
        self.counts[bisect_left(self._bounds_ns, duration_ns)] += 1
        self.sum_ns += duration_ns


def stopwatch(histogram: Histogram, timer_ns: Callable[[], int] = time.perf_counter_ns) -> Stopwatch:
    """Return a stopwatch that observes the time between its two calls."""

    def begin() -> Callable[[], None]:
        started_ns = timer_ns()
        return lambda: histogram.observe(timer_ns() - started_ns)

    return begin


class Metrics:
    __slots__ = (*COUNTERS, *GAUGES, *BY_ERROR, *HISTOGRAMS)

    def __init__(self) -> None:
        self.requests = 0
        self.request_bytes = 0
        self.response_bytes = 0
        self.appends = 0
        self.append_bytes = 0
        self.duplicate_batches = 0
        self.full_fetches = 0
        """How many fetches named all their partitions; `incremental_fetches` continue a session."""
        self.incremental_fetches = 0
        self.fetch_session_evictions = 0
        self.flush_rounds = 0
        self.transactions_started = 0
        self.transactions_committed = 0
        self.transactions_aborted = 0
        self.connections = 0
        """How many connections were accepted since the start."""
        self.connections_refused = 0
        self.throttled = 0
        """How many connections were accepted and closed at once: too many from one address."""
        self.connections_closed_idle = 0
        self.connections_closed_slow = 0
        """How many connections were closed because they held memory that others waited for, and made no progress."""
        self.connections_closed_expired = 0
        self.logins = 0
        self.logins_failed = 0
        self.logins_renewed = 0
        """How many connections logged in again before their session ended (KIP-368)."""
        self.renewals_failed = 0
        self.file_problems = 0
        """How many log lines there were about files that are damaged, missing or unreadable."""
        self.open_transactions = 0
        self.decided_transactions = 0
        self.open_connections = 0
        self.waiting_fetches = 0
        self.fetch_sessions = 0
        self.offline_partitions = 0
        self.disk_full = 0
        self.rejected_batches = _by_error("rejected_batches")
        self.producers_fenced = _by_error("producers_fenced")
        self.request_seconds: dict[str, Histogram] = {}
        """How long requests took, by the name of the API."""
        self.round_seconds = Histogram()
        self.sync_seconds = Histogram()
        self.transaction_seconds = {"committed": Histogram(LONG_BOUNDS_S), "aborted": Histogram(LONG_BOUNDS_S)}
        """How long transactions took, by result, from the first partition to the last marker."""


def _by_error(name: str) -> Counter[str]:
    return Counter({code.name: 0 for code in BY_ERROR[name]})
