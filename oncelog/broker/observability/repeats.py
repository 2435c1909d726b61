"""At most one line a second of each fault that clients can repeat as often as they like.

Owns: which faults those are, and how many lines of each were left out. Does not own: the log (`logging`), or when the
rest is reported (`report`, once a second and at the end). Invariants
- The first line of a fault is written at once; the next one says in `left_out` how many there were in between.
- Two lines are of the same fault if their event and one value, which a table here names, are the same, whatever the
  numbers in it. That value may be the client's choice (a topic's name in a reason), so at most `MOST_FAULTS` are
  distinguished in a second, and beyond that by the event alone: neither memory nor the log grows with client data.
"""

import re
import time
from collections.abc import Callable, MutableMapping
from typing import Any

PAUSE_S = 1.0
MOST_FAULTS = 20
# Events of a request, a connection or a turn, and the value by which two lines of one are still different faults.
REPEATABLE: dict[str, str | None] = {
    "authorizer.denied": "action",
    "connection.closed": "reason",
    "connection.idle": None,
    "connection.refused": None,
    "http.refused": "reason",
    "listener.not_reachable": "listener",
    "loop.error": "message",
    "producer.fenced": None,
    "request.failed": "api",
}
_NUMBER = re.compile("[0-9]+")
_Fault = tuple[str, str | None]


class Repeats:
    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._next_s: dict[_Fault, float] = {}
        """The time from which on a line of the fault may be written again."""
        self._left_out: dict[_Fault, tuple[str, int]] = {}
        """The level of the last line that was left out, and how many were."""

    def may_write(self, level: str, event: MutableMapping[str, Any]) -> bool:
        """Whether this line is written; if so it gets the number of those left out before it."""
        name = event["event"]
        if name not in REPEATABLE:
            return True
        monotonic_s = self._monotonic()
        fault = self._fault(name, event, monotonic_s)
        count = self._left_out.pop(fault, (level, 0))[1]
        if monotonic_s < self._next_s.get(fault, monotonic_s):
            self._left_out[fault] = level, count + 1
            return False
        self._next_s[fault] = monotonic_s + PAUSE_S
        if count:
            event["left_out"] = count
        return True

    def _fault(self, name: str, event: MutableMapping[str, Any], monotonic_s: float) -> _Fault:
        value = event.get(REPEATABLE[name] or "")
        if value is None:
            return name, None
        fault = name, _NUMBER.sub("#", str(value))
        if fault in self._next_s:
            return fault
        for known, next_s in list(self._next_s.items()):
            if monotonic_s >= next_s and known not in self._left_out:
                del self._next_s[known]
        return fault if len(self._next_s) < MOST_FAULTS else (name, None)

    def report(self, log: Any, *, is_last: bool = False) -> None:
        """Write a line for each fault of which lines were left out and no other has come since; `is_last`: the second
        need not be over."""
        monotonic_s = self._monotonic()
        for fault in [fault for fault in self._left_out if is_last or monotonic_s >= self._next_s[fault]]:
            level, count = self._left_out.pop(fault)
            self._next_s.pop(fault)
            name, value = fault
            key = REPEATABLE[name]
            facts = {} if key is None or value is None else {key: value}
            getattr(log, level)(name, **facts, left_out=count)
