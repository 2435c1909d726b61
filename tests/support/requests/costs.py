"""Measures what a request costs a broker in memory: work, in all and in one turn; memory; bytes answered.

Work is counted as calls of functions, Python's and C's, so that a busy machine measures the same as an idle one; some
nine million of them take a second.
"""

import sys
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any, TypeVar

import pytest
import re2

from oncelog.broker.apis.descriptor import Api
from oncelog.broker.requests.context import Peer
from oncelog.broker.requests.dispatch import Exchange
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.records import compression
from tests.fakes.broker import HOST, PORT, VirtualBroker

T = TypeVar("T")
CALLS_IN_20_MS = 150_000
"""Measured: 5 to 9 calls a microsecond of processor time, with the code between them."""
INFLATED_BYTES_IN_20_MS = 4_000_000
"""Measured: gzip inflates 200 to 400 MB a second."""
PATTERN_STEPS_IN_20_MS = 500_000
"""Measured: 10 to 40 ns for an instruction of the pattern and a character of the text, at worst."""
PATTERN_STEPS_A_CHARACTER, STORED_CHARACTERS = 1_600, 5_000
"""The largest pattern has 1,500 instructions; what `tests.support.requests.stored` gives topics as names."""
STORED_ELEMENTS = 5_000
"""Number of elements that `tests.support.requests.stored` stores: partitions, groups, offsets, transactional ids,
producers."""
CALLS, CALLS_A_BYTE, CALLS_A_STORED_ELEMENT = 10_000, 100, 120
ANSWERED_BYTES, ANSWERED_BYTES_A_BYTE, ANSWERED_BYTES_A_STORED_ELEMENT = 30_000, 60, 120
DESCRIBED_CALLS_A_BYTE, DESCRIBED_BYTES_A_BYTE = 200, 1_000
"""A group has twenty settings with sources and descriptions, some 5,000 bytes, and a request names it in five. As in
Kafka it need not exist."""
PEAK_BYTES, PEAK_BYTES_A_BYTE, PEAK_BYTES_A_STORED_ELEMENT = 1_000_000, 500, 1_000


@dataclass(frozen=True, slots=True)
class Cost:
    calls: int
    longest_turn_calls: int
    turn_count: int
    peak_bytes: int
    """The most memory allocated at a time, beyond what there was before; 0 where it was not measured."""
    answered_bytes: int
    closes: str | None
    inflated_bytes: int
    """Decompressed on the loop in one turn, by a call or two: work beside the loop keeps no other request waiting."""
    pattern_steps: int
    """On the loop in one turn: instructions of the pattern times characters of the text."""
    beside_pattern_steps: int
    """Beside the loop, in all: instructions times characters. It keeps no request waiting, and a core busy."""


class _Unseen:
    """Counts work on the loop that few calls do, however long it takes."""

    def __init__(self, is_beside: Callable[[], bool]) -> None:
        self.inflated_bytes = self.pattern_steps = self.beside_pattern_steps = 0
        self._is_beside = is_beside

    def watch(self, patches: pytest.MonkeyPatch) -> None:
        parts_of, fullmatch = compression._parts, re2._Regexp.fullmatch

        def parts(*arguments: Any) -> Iterator[bytes]:
            for part in parts_of(*arguments):
                self.inflated_bytes += 0 if self._is_beside() else len(part)
                yield part

        def match(pattern: Any, text: str, *bounds: Any) -> Any:
            if self._is_beside():
                self.beside_pattern_steps += pattern.programsize * len(text)
            else:
                self.pattern_steps += pattern.programsize * len(text)
            return fullmatch(pattern, text, *bounds)

        patches.setattr(compression, "_parts", parts)
        patches.setattr(re2._Regexp, "fullmatch", match)


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
    calls, turns, unseen = _Calls(), [], []
    exchanges: list[Exchange] = []
    if measures_memory:
        tracemalloc.start()
    peer = Peer("10.0.0.1", 40_000, "PLAINTEXT", (HOST, PORT))

    def run(turn: Callable[[], object]) -> None:
        unseen.append(_Unseen(lambda: broker.time.is_beside))
        with pytest.MonkeyPatch.context() as patches:
            unseen[-1].watch(patches)
            turns.append(calls.during(turn))

    run(lambda: exchanges.append(broker.dispatcher.dispatch(memoryview(frame), peer)))
    has_more = [True]
    while has_more[-1]:
        run(lambda: has_more.append(broker.time.turn()))
    peak_bytes = 0
    if measures_memory:
        peak_bytes = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    exchange = exchanges[0]
    answered_bytes = sum(map(len, exchange.parts or ()))
    peer.disconnect()
    return Cost(
        calls.count,
        max(turns),
        len(turns),
        peak_bytes,
        answered_bytes,
        exchange.closes,
        max(each.inflated_bytes for each in unseen),
        max(each.pattern_steps for each in unseen),
        sum(each.beside_pattern_steps for each in unseen),
    )


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


def over_budget(
    cost: Cost, size_bytes: int, stored_characters: int = STORED_CHARACTERS, api: Api | None = None
) -> list[str]:
    """Returns the costs that exceed the limits of a request of so many bytes, whatever is in it. `STORED_ELEMENTS` are
    stored, with names of so many characters."""
    stored = STORED_ELEMENTS
    calls_a_byte, answered_a_byte = CALLS_A_BYTE, ANSWERED_BYTES_A_BYTE
    if api is not None and api.key is ApiKey.DESCRIBE_CONFIGS:
        calls_a_byte, answered_a_byte = DESCRIBED_CALLS_A_BYTE, DESCRIBED_BYTES_A_BYTE
    bounds = (
        ("calls", cost.calls, CALLS + calls_a_byte * size_bytes + CALLS_A_STORED_ELEMENT * stored),
        ("calls in one turn", cost.longest_turn_calls, CALLS_IN_20_MS),
        ("bytes inflated in one turn", cost.inflated_bytes, INFLATED_BYTES_IN_20_MS),
        ("steps of a pattern in one turn", cost.pattern_steps, PATTERN_STEPS_IN_20_MS),
        (
            "steps of a pattern beside the loop",
            cost.beside_pattern_steps,
            PATTERN_STEPS_A_CHARACTER * stored_characters,
        ),
        (
            "bytes answered",
            cost.answered_bytes,
            ANSWERED_BYTES + answered_a_byte * size_bytes + ANSWERED_BYTES_A_STORED_ELEMENT * stored,
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
