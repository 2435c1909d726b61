"""What a relay prints, and its metrics for Prometheus.

Owns: the words, the names and numbers. Does not own: printing (`terminal`), HTTP (`broker.admin.http`). On a pipe a
relay that works says something every `_QUIET_S`.
"""

import sys
import time
from collections.abc import Iterator
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from oncelog.tools.outbox.events import Event
from oncelog.tools.outbox.feed import Backlog
from oncelog.tools.outbox.position import Position, lsn_text
from oncelog.tools.terminal import say, say_json

_QUIET_S = 10.0
_PREFIX = "oncelog_outbox"


class Reporter(Collector):
    """The `Watcher` of the command."""

    def __init__(self, name: str, *, as_json: bool) -> None:
        self._name = name
        self._as_json = as_json
        self._said_s = time.monotonic()
        self._said_count = 0
        self._problem = ""
        self.events = self.transactions = self.bytes = self.refused = self.troubles = 0
        self._relay_s = 0.0
        """The time from the commit of the last SQL transaction until Kafka had it."""
        self._position: Position | None = None
        self._backlog = Backlog()
        self._is_running = False

    # --- the watcher --------------------------------------------------------------------------------------------------

    def on_start(self, position: Position) -> None:
        self._problem = ""
        self._is_running = True
        self._position = position
        if self._as_json:
            self._event("started", place=place_text(position), database=position.origin.database)
        else:
            say(f"Relaying {position.origin.database} from {place_text(position)}.")
            sys.stdout.flush()

    def on_relayed(self, event_count: int, transaction_count: int, size_bytes: int, committed_ms: int) -> None:
        self.events += event_count
        self.transactions += transaction_count
        self.bytes += size_bytes
        self._relay_s = max(0.0, time.time() - committed_ms / 1000)
        now_s = time.monotonic()
        if now_s - self._said_s < _QUIET_S:
            return
        count, seconds = self.events - self._said_count, now_s - self._said_s
        self._said_s, self._said_count = now_s, self.events
        if self._as_json:
            self._event("relayed", events=count, seconds=round(seconds, 3), place=self._place())
        else:
            say(f"{count:,} events in {seconds:.0f} s, to {self._place()}, {self._lag_s() or 0:.1f} s behind.")
            sys.stdout.flush()

    def on_refused(self, event: Event, reason: str) -> None:
        self.refused += 1
        if self._as_json:
            self._event("refused", topic=event.topic, transaction=event.transaction, reason=reason)
        else:
            say(f"Refused, event {event.ordinal + 1} of transaction {event.transaction}: {reason}", err=True)

    def on_moved(self, position: Position, backlog: Backlog | None) -> None:
        self._position = position
        if backlog is not None:
            self._backlog = backlog

    def on_trouble(self, problem: str) -> None:
        """Report a problem once, however often it is met."""
        self._is_running = False
        self.troubles += 1
        if problem == self._problem:
            return
        self._problem = problem
        if self._as_json:
            self._event("waiting", problem=problem)
        else:
            say(f"Waiting: {problem}", err=True)

    # ------------------------------------------------------------------------------------------------------------------

    def _lag_s(self) -> float | None:
        return lag_seconds(self._position, self._backlog)

    def _place(self) -> str:
        return "" if self._position is None else place_text(self._position)

    def _event(self, name: str, **fields: Any) -> None:
        say_json({"event": name, **fields}, indent=None)
        sys.stdout.flush()

    # --- metrics ------------------------------------------------------------------------------------------------------

    def collect(self) -> Iterator[Metric]:
        for name, value, text in (
            ("events", self.events, "Events written to Kafka."),
            ("transactions", self.transactions, "SQL transactions with events that were written."),
            ("bytes", self.bytes, "Bytes of keys, values and headers that were written."),
            ("refused_events", self.refused, "Events that the target did not take."),
            ("restarts", self.troubles, "How often the relay began again from its position."),
        ):
            counter = CounterMetricFamily(f"{_PREFIX}_{name}", text, labels=["relay"])
            counter.add_metric([self._name], value)
            yield counter
        backlog = self._backlog
        for name, number, text in (
            ("up", float(self._is_running), "1 while the relay reads the database and writes to Kafka."),
            ("lag_seconds", self._lag_s(), "How old the last position is, if there is something behind it."),
            ("lag_bytes", backlog.size_bytes, "Write-ahead log behind the position."),
            ("lag_rows", backlog.rows, "Rows of the table that are not relayed."),
            ("held_wal_bytes", backlog.held_bytes, "Write-ahead log that the server keeps for the slot."),
            ("relay_seconds", self._relay_s, "From the last commit in the database until Kafka had its events."),
        ):
            if number is not None:
                gauge = GaugeMetricFamily(f"{_PREFIX}_{name}", text, labels=["relay"])
                gauge.add_metric([self._name], number)
                yield gauge

    def text(self) -> bytes:
        """Return the metrics in Prometheus' text format."""
        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        return generate_latest(registry)


def lag_seconds(position: Position | None, backlog: Backlog) -> float | None:
    """Return how old a position is; 0 if there is nothing behind it, None if nothing was committed there yet."""
    if not (backlog.size_bytes or backlog.rows):
        return 0.0
    if position is None or not position.time_ms:
        return None
    return max(0.0, time.time() - position.time_ms / 1000)


def place_text(position: Position) -> str:
    """Return a place as people know it: an LSN, or the number of a batch."""
    return f"batch {position.place}" if not position.origin.slot else lsn_text(position.place)
