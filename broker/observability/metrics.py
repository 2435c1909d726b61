"""The broker's counters and gauges.

Owns: the numbers. Does not own: counting (the part that does the work adds one) or reporting (`statsd`).
Invariants
- Counters only grow. One addition to a slot costs 0.05 µs, so the hot paths always count.
- Gauges are refreshed by the reporter, just before it reports.
"""

COUNTERS = (
    "requests",
    "request_bytes",
    "response_bytes",
    "appends",
    "append_bytes",
    "full_fetches",
    "incremental_fetches",
    "fetch_session_evictions",
    "flush_rounds",
    "transactions_started",
    "transactions_committed",
    "transactions_aborted",
    "producers_fenced",
    "connections",
    "connections_refused",
    "connections_closed_idle",
    "connections_closed_slow",
    "file_problems",
)
GAUGES = ("open_transactions", "open_connections", "fetch_sessions", "offline_partitions")


class Metrics:
    __slots__ = (*COUNTERS, *GAUGES)

    def __init__(self) -> None:
        self.requests = 0
        self.request_bytes = 0
        self.response_bytes = 0
        self.appends = 0
        self.append_bytes = 0
        self.full_fetches = 0
        """Fetches that name all their partitions; `incremental_fetches` continue a session."""
        self.incremental_fetches = 0
        self.fetch_session_evictions = 0
        self.flush_rounds = 0
        self.transactions_started = 0
        self.transactions_committed = 0
        self.transactions_aborted = 0
        self.producers_fenced = 0
        self.connections = 0
        """Accepted since the start."""
        self.connections_refused = 0
        """Accepted and closed at once: too many from one address."""
        self.connections_closed_idle = 0
        self.connections_closed_slow = 0
        """They held memory that others waited for, and made no progress."""
        self.file_problems = 0
        """Log lines about files that are damaged, missing or unreadable."""
        self.open_transactions = 0
        self.open_connections = 0
        self.fetch_sessions = 0
        self.offline_partitions = 0

    def counters(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in COUNTERS}

    def gauges(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in GAUGES}
