"""What a request costs a broker in memory: work, memory and bytes answered, and how much of the work stood in one turn.

Work is counted as calls of functions, Python's and C's, so that a busy machine measures the same as an idle one; some
nine million of them take a second.
"""

import sys
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import TypeVar

import pytest

from oncelog.broker.dispatch import Exchange
from oncelog.broker.request import Peer
from tests.fakes.broker import HOST, PORT, VirtualBroker

T = TypeVar("T")
CALLS_IN_20_MS = 150_000
"""Measured: 5 to 9 calls a microsecond of processor time, with the code between them."""
STORED_ELEMENTS = 5_000
"""What `tests.support.stored` stores: partitions, groups, offsets, transactional ids, producers."""
CALLS, CALLS_A_BYTE, CALLS_A_STORED_ELEMENT = 10_000, 100, 120
ANSWERED_BYTES, ANSWERED_BYTES_A_BYTE, ANSWERED_BYTES_A_STORED_ELEMENT = 30_000, 60, 120
PEAK_BYTES, PEAK_BYTES_A_BYTE, PEAK_BYTES_A_STORED_ELEMENT = 1_000_000, 500, 1_000


@dataclass(frozen=True, slots=True)
class Cost:
    calls: int
    longest_turn_calls: int
    turn_count: int
    peak_bytes: int
    """What was allocated at most beyond what there was before; 0 where it was not measured."""
    answered_bytes: int
    closes: str | None


class _Calls:
    """Counts calls while it is the profiler."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        if event in ("call", "c_call"):
            self.count += 1

    def during(self, function: Callable[[], object]) -> int:
        before = self.count
        sys.setprofile(self)
        try:
            function()
        finally:
            sys.setprofile(None)
        return self.count - before


def cost_of(broker: VirtualBroker, frame: bytes | memoryview, *, measures_memory: bool = False) -> Cost:
    """Plays a frame, turn by turn, until it is answered or nothing is left to do at this moment."""
    calls, turns = _Calls(), []
    exchanges: list[Exchange] = []
    if measures_memory:
        tracemalloc.start()
    peer = Peer("10.0.0.1", 40_000, "PLAINTEXT", (HOST, PORT))
    turns.append(calls.during(lambda: exchanges.append(broker.dispatcher.dispatch(memoryview(frame), peer))))
    has_more = [True]
    while has_more[-1]:
        turns.append(calls.during(lambda: has_more.append(broker.time.turn())))
    peak_bytes = 0
    if measures_memory:
        peak_bytes = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    exchange = exchanges[0]
    answered_bytes = sum(map(len, exchange.parts or ()))
    peer.disconnect()
    return Cost(calls.count, max(turns), len(turns), peak_bytes, answered_bytes, exchange.closes)


def turns_of(broker: VirtualBroker, action: Callable[[], None]) -> list[int]:
    """The calls of each turn, and of each timer, that run in an action."""
    calls = _Calls()
    turns: list[int] = []
    with pytest.MonkeyPatch.context() as patches:
        for name in ("turn", "_fire"):
            patches.setattr(broker.time, name, _counting(getattr(broker.time, name), calls, turns))
        action()
    return turns


def _counting(function: Callable[[], T], calls: _Calls, counts: list[int]) -> Callable[[], T]:
    def counted() -> T:
        results: list[T] = []
        counts.append(calls.during(lambda: results.append(function())))
        return results[0]

    return counted


def over_budget(cost: Cost, size_bytes: int) -> list[str]:
    """What a request of so many bytes may not cost, whatever is in it, where `STORED_ELEMENTS` are stored."""
    stored = STORED_ELEMENTS
    bounds = (
        ("calls", cost.calls, CALLS + CALLS_A_BYTE * size_bytes + CALLS_A_STORED_ELEMENT * stored),
        ("calls in one turn", cost.longest_turn_calls, CALLS_IN_20_MS),
        (
            "bytes answered",
            cost.answered_bytes,
            ANSWERED_BYTES + ANSWERED_BYTES_A_BYTE * size_bytes + ANSWERED_BYTES_A_STORED_ELEMENT * stored,
        ),
        (
            "bytes in memory",
            cost.peak_bytes,
            PEAK_BYTES + PEAK_BYTES_A_BYTE * size_bytes + PEAK_BYTES_A_STORED_ELEMENT * stored,
        ),
    )
    return [
        f"{size_bytes} bytes cost {found:,} {what}, {most:,} is the most"
        for what, found, most in bounds
        if found > most
    ]
