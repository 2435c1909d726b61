"""At most one line a second of each fault that clients can repeat as often as they like.

Owns: which faults those are, and how many lines of each were left out. Does not own: the log (`logging`), or when the
rest is reported (`report`, once a second and at the end). Invariants
- The first line of a fault is written at once; the next one says in `left_out` how many there were in between.
- Nothing grows with what clients send: lines are told apart by the fault, and by what a table here names.
"""

import time
from collections.abc import Callable, MutableMapping
from typing import Any

PAUSE_S = 1.0
# Faults that come with a request, a connection or a turn, and the values by which lines of one are still different
# faults. Each has few values; a reason or an id would be the client's choice.
REPEATABLE: dict[str, tuple[str, ...]] = {
    "connection.closed": (),
    "connection.idle": (),
    "connection.refused": (),
    "listener.not_reachable": ("listener",),
    "loop.error": (),
    "producer.fenced": (),
    "request.failed": ("api",),
}

_Fault = tuple[Any, ...]


class Repeats:
    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._next_s: dict[_Fault, float] = {}
        self._left_out: dict[_Fault, tuple[str, int]] = {}
        """By fault: the level of the last line that was left out, and how many were."""

    def may_write(self, level: str, event: MutableMapping[str, Any]) -> bool:
        """Whether this line is written, with how many were left out before it."""
        name = event["event"]
        told_apart_by = REPEATABLE.get(name)
        if told_apart_by is None:
            return True
        fault = (name, *(event.get(key) for key in told_apart_by))
        monotonic_s = self._monotonic()
        count = self._left_out.pop(fault, (level, 0))[1]
        if monotonic_s < self._next_s.get(fault, monotonic_s):
            self._left_out[fault] = level, count + 1
            return False
        self._next_s[fault] = monotonic_s + PAUSE_S
        if count:
            event["left_out"] = count
        return True

    def report(self, log: Any, *, is_last: bool = False) -> None:
        """Write a line for each fault of which lines were left out and no other has come since; `is_last`: the second
        need not be over."""
        monotonic_s = self._monotonic()
        for fault in [fault for fault in self._left_out if is_last or monotonic_s >= self._next_s[fault]]:
            name, *values = fault
            level, count = self._left_out.pop(fault)
            del self._next_s[fault]
            details = dict(zip(REPEATABLE[name], values, strict=True))
            getattr(log, level)(name, **details, left_out=count, message="more lines of this event were left out")
