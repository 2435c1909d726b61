"""This machine: what a reader of results must know of it, and what is done to it before a run.

Owns: the facts, and their units. Does not own: the sentences of a report.
"""

import mmap
import os
import platform
import time
from pathlib import Path
from statistics import median

from bench.harness.figures import number

_PROBES = 300
_TOUCHED_BYTES = 12 << 30
_TOUCHED_PART = 0.6


def cores() -> str:
    return f"{len(os.sched_getaffinity(0))} cores"


def load() -> float:
    """Of the last minute."""
    return os.getloadavg()[0]


def model() -> str:
    """The processor's name."""
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(": ")[2]
    return platform.machine()


def memory_gb() -> float:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9


def sync_time(place: Path) -> str:
    """Of one append of 100 bytes to a file there and its fdatasync: the median and the slowest of a hundred."""
    times_ms = sorted(_probe_disk(place))
    return f"{number(median(times_ms))} ms (p99 {number(times_ms[len(times_ms) * 99 // 100])} ms)"


def _probe_disk(place: Path) -> list[float]:
    place.mkdir(parents=True, exist_ok=True)
    path, times_ms = place / "probe", []
    with path.open("wb", buffering=0) as file:
        for _ in range(_PROBES):
            started_s = time.perf_counter()
            file.write(bytes(100))
            os.fdatasync(file.fileno())
            times_ms.append((time.perf_counter() - started_s) * 1000)
    path.unlink()
    return times_ms


def touch_memory() -> None:
    """Use once what a run will use. A virtual machine gets its pages from the host when it first touches them, which
    takes longer than all else that is done with a batch: who came first would be measured, not who is faster."""
    free_bytes = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    size_bytes = min(_TOUCHED_BYTES, int(free_bytes * _TOUCHED_PART))
    mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE).close()
