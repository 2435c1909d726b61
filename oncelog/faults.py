"""Fault injection in a running broker, from Python: `FaultClient` talks to its `oncelog.admin.listen` address.

Owns: one HTTP request per call. Does not own: what a rule means (`broker.faults.rule`, whose values are re-exported).
For tests with their own broker, and for looking at the state between two steps.

    faults = FaultClient("127.0.0.1:9644")
    held = faults.plant(Rule(Point.MARKER, Action.HOLD, Selector(transactional_id="mover"), times=None))
    ...                                     # commit: it succeeds, and no marker is written
    print(faults.transactions())            # PrepareCommit, and which partitions lack their marker
    faults.release(held)
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import Any
from urllib.parse import quote, urlencode

from oncelog.broker.faults.rule import Action, Point, Rule, RuleError, Selector
from oncelog.http_port import HttpPort
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.errors import ErrorCode

__all__ = [
    "Action",
    "ApiKey",
    "ErrorCode",
    "FaultClient",
    "FaultsRefused",
    "Point",
    "Rule",
    "RuleError",
    "RuleStatus",
    "Selector",
]


class FaultsRefused(Exception):
    """Raised if the broker rejected the request; the message says why, `status` is the HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class RuleStatus:
    """The state of a planted rule at one moment."""

    number: int
    matched_count: int
    fired_count: int
    is_consumed: bool
    held: list[dict[str, Any]]
    answers_of_copies: list[str]
    rule: dict[str, Any] = field(default_factory=dict)
    """The rule as JSON, as `Rule.as_json` has it."""


class FaultClient:
    """Plants and releases faults, and inspects transactions: `FaultClient("127.0.0.1:9644")`.

    Every call raises OSError if nothing listens on the address, and FaultsRefused for an error response.
    """

    def __init__(
        self, address: str, timeout_s: float = 30.0, *, token: str | None = None, ca_file: str | None = None
    ) -> None:
        """`address` is HOST:PORT, or https://HOST:PORT; `timeout_s` limits each call. `token` is the one in the
        broker's `oncelog.admin.token.file`, `ca_file` has the certificates (PEM) that the broker's is signed with."""
        self._port = HttpPort(address, token, ca_file)
        self._timeout_s = timeout_s

    # --- rules

    def plant(self, rule: Rule) -> int:
        """Plant the rule; returns its number, for the other calls."""
        number: int = self._ask("POST", "/faults", rule.as_json())["number"]
        return number

    def status(self, number: int) -> RuleStatus:
        """Return how often the rule has matched and fired, and what it holds."""
        return _status(self._ask("GET", f"/faults/{number}"))

    def statuses(self) -> list[RuleStatus]:
        """Return the state of every planted rule, in the order in which they were planted."""
        return [_status(each) for each in self._ask("GET", "/faults")["faults"]]

    def wait_fired(self, number: int, timeout_ms: int = 10_000) -> RuleStatus:
        """Wait until the rule has fired or the timeout passes; check `fired_count`."""
        return _status(self._ask("GET", f"/faults/{number}?{urlencode({'until': 'fired', 'timeout_ms': timeout_ms})}"))

    def release(self, number: int, count: int | None = None) -> int:
        """Release the oldest `count` requests or records that the rule holds, or all; returns how many."""
        released: int = self._ask("POST", f"/faults/{number}/release", {} if count is None else {"count": count})[
            "released"
        ]
        return released

    def remove(self, number: int) -> RuleStatus:
        """Remove the rule and release everything it holds."""
        return _status(self._ask("DELETE", f"/faults/{number}", {}))

    def remove_all(self) -> None:
        """Remove all rules, as `remove`."""
        self._ask("DELETE", "/faults", {})

    # --- inspecting

    def transactions(self) -> list[dict[str, Any]]:
        """Return every transactional id: its state, its partitions, and those `without_marker`."""
        transactions: list[dict[str, Any]] = self._ask("GET", "/transactions")["transactions"]
        return transactions

    def state(self, transactional_id: str) -> str | None:
        """Return "Ongoing", "PrepareCommit" and the like; None for an unknown id."""
        for transaction in self.transactions():
            if transaction["transactional_id"] == transactional_id:
                state: str = transaction["state"]
                return state
        return None

    def partitions(self, topic: str | None = None) -> list[dict[str, Any]]:
        """Return offsets and open transactions of each partition, of one topic or of all."""
        query = "" if topic is None else f"?{urlencode({'topic': topic})}"
        partitions: list[dict[str, Any]] = self._ask("GET", f"/partitions{query}")["partitions"]
        return partitions

    def events(self, since: int = 0) -> list[dict[str, Any]]:
        """Return those of the last 1,000 events whose number is above `since`."""
        events: list[dict[str, Any]] = self._ask("GET", f"/events?follow=false&since={since}")["events"]
        return events

    def follow(self, since: int = 0) -> Iterator[dict[str, Any]]:
        """Stream events with a number above `since` until the broker stops; TimeoutError after `timeout_s` without
        one."""
        connection = self._connection()
        try:
            connection.request("GET", f"/events?since={since}", headers=self._port.headers)
            response = connection.getresponse()
            if response.status >= 400:
                _read(response)  # raises
            for line in response:
                if line.startswith(b"data: "):
                    yield json.loads(line.removeprefix(b"data: "))
        finally:
            connection.close()

    # --- changing

    def move_epoch_on(self, transactional_id: str, producer_epoch: int) -> None:
        """Raise the producer epoch of an id without an open transaction, up to 32766."""
        self._ask("POST", f"/transactions/{quote(transactional_id, safe='')}/epoch", {"producer_epoch": producer_epoch})

    def skip_producer_ids_to(self, producer_id: int) -> None:
        """Continue assigning producer ids from `producer_id`."""
        self._ask("POST", "/producer-ids", {"next": producer_id})

    def now_ms(self) -> int:
        """Return the broker's wall clock."""
        now_ms: int = self._ask("POST", "/time", {})["now_ms"]
        return now_ms

    def advance_time(self, advance_ms: int) -> None:
        """Advance both clocks, as if the machine had slept."""
        self._ask("POST", "/time", {"advance_ms": advance_ms})

    def jump_wall_clock(self, offset_ms: int) -> None:
        """Shift the wall clock forward or back; timers are not affected."""
        self._ask("POST", "/time", {"jump_wall_ms": offset_ms})

    def crash(self) -> None:
        """Kill the broker, as kill -9."""
        try:
            self._ask("POST", "/crash", {})
        except (HTTPException, ConnectionError):
            return  # it died before responding
        raise FaultsRefused(200, "the broker survived")

    # --- HTTP

    def _connection(self) -> HTTPConnection:
        return self._port.connection(self._timeout_s)

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        connection = self._connection()
        try:
            if body is None:
                connection.request(method, path, headers=self._port.headers)
            else:
                headers = {"Content-Type": "application/json", **self._port.headers}
                connection.request(method, path, json.dumps(body), headers)
            return _read(connection.getresponse())
        finally:
            connection.close()


def _read(response: HTTPResponse) -> Any:
    answer = json.loads(response.read())
    if response.status >= 400:
        raise FaultsRefused(response.status, answer["error"])
    return answer


def _status(values: dict[str, Any]) -> RuleStatus:
    return RuleStatus(
        values["number"],
        values["matched"],
        values["fired"],
        values["is_consumed"],
        values["held"],
        values.get("answers_of_copies", []),
        values["rule"],
    )
