"""The system's limits on this process, raised as far as possible, and how they are divided.

Owns: the number of open files, and of processors. Invariants
- A limit that cannot be raised stays as it is, without an error.
- Connections never take the descriptors that logs need: those are reserved before the first connection.
"""

import contextlib
import os
import resource
from dataclasses import dataclass

_MOST_FILES = 512
_MOST_OTHERS = 128
"""The most descriptors of other kinds: listening sockets, the loop's own, the lock, threads that open a file for a sync
or a read."""


@dataclass(frozen=True, slots=True)
class DescriptorShares:
    """How many descriptors each use may hold at once."""

    files: int
    connections: int | None
    """The share of connections; None for no limit."""


def raise_open_files() -> int:
    """Raise the limit on open files to what this process may have; returns it, -1 without a limit. The usual 1,024 are
    for programs that use select; the JVM raises the limit for Kafka in the same way."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft if soft != resource.RLIM_INFINITY else -1


def share_descriptors(limit: int) -> DescriptorShares:
    """Share `limit` descriptors (-1 for any number): log files get a quarter and everything else a quarter, at most
    what each can use; connections get the rest."""
    if limit < 0:
        return DescriptorShares(_MOST_FILES, None)
    files, others = min(_MOST_FILES, limit // 4), min(_MOST_OTHERS, limit // 4)
    return DescriptorShares(files, limit - files - others)


def processor_count(quota_path: str = "/sys/fs/cgroup/cpu.max") -> int:
    """Return how many processors this process may use at the same time, for as long as it likes: a container's quota
    counts, rounded down to at least one."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        with open(quota_path, encoding="ascii") as file:
            quota_us, period_us = map(int, file.read().split())
    except (OSError, ValueError):  # none is known, or it is "max"
        return count
    return max(1, min(count, quota_us // period_us))


def return_memory() -> None:
    """Give what was freed back to the system; elsewhere than with glibc nothing is done. In any thread."""
    import ctypes

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
