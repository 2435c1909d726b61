"""The cost of one operation: processor time, wall time, and countable work.

Owns: the measuring. Does not own: what is measured. Work is counted in executed lines of Python: the same on every
machine and in every run, so that a test can assert it; time is what users notice.
"""

import gc
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Any

_ROUND_S = 0.02
_ROUNDS = 9
_MAX_OPERATIONS = 5_000
_COUNTED = 3
_UNTIMED = _COUNTED + 2


@dataclass(frozen=True, slots=True)
class Operation:
    """`run` does it once. `limit`: how often it may be repeated before it changes what is measured."""

    name: str
    run: Callable[[], object]
    limit: int = _MAX_OPERATIONS * _ROUNDS
    is_read: bool = False


@dataclass(frozen=True, slots=True)
class Point:
    size: int
    cpu_us: float
    wall_us: float
    lines: int
    """Lines of Python executed by one operation."""


def measure(operation: Operation, size: int) -> Point:
    """The least of several rounds, each long enough for the clock: other processes only ever add to it."""
    lines = count_lines(operation.run)
    operation.run()
    started_s = time.perf_counter()
    operation.run()
    once_s = max(time.perf_counter() - started_s, 1e-7)
    rounds = min(_ROUNDS, max(1, operation.limit - _UNTIMED))
    each = max(1, min(_MAX_OPERATIONS, int(_ROUND_S / once_s), (operation.limit - _UNTIMED) // rounds))
    cpu: list[float] = []
    wall: list[float] = []
    for _ in range(rounds):
        wall_ns, cpu_ns = time.perf_counter_ns(), time.process_time_ns()
        for _ in range(each):
            operation.run()
        cpu.append((time.process_time_ns() - cpu_ns) / each / 1_000)
        wall.append((time.perf_counter_ns() - wall_ns) / each / 1_000)
    return Point(size, min(cpu), min(wall), lines)


def count_lines(run: Callable[[], object], times: int = _COUNTED, *, leave_out: tuple[str, ...] = ()) -> int:
    """Lines of Python that one run executes, loops line by line: the median of a few, since some do a little more.
    Files whose path begins with one of `leave_out` do not count."""
    return int(statistics.median([_count_once(run, leave_out) for _ in range(times)]))


def peak_bytes(run: Callable[[], object]) -> int:
    """What one run has allocated at most, beyond what was there before; the least of what it stores and drops."""
    collects, traces = gc.isenabled(), tracemalloc.is_tracing()
    gc.disable()
    if not traces:
        tracemalloc.start()
    try:
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        run()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        if not traces:
            tracemalloc.stop()
        if collects:
            gc.enable()


def _count_once(run: Callable[[], object], leave_out: tuple[str, ...]) -> int:
    count = 0

    def on_event(frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal count
        if event == "call" and frame.f_code.co_filename.startswith(leave_out):
            return None
        count += event == "line"
        return on_event

    before, collects = sys.gettrace(), gc.isenabled()
    gc.disable()  # A collection that falls into the run calls whoever asked to be told of it: Hypothesis, in the tests.
    sys.settrace(on_event)
    try:
        run()
    finally:
        sys.settrace(before)
        if collects:
            gc.enable()
    return count
