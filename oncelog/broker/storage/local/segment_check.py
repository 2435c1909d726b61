"""Reads in the background the segments that a start adopted unread, and verifies their CRC-32C.

Owns: the order and the pace. Does not own: the handling of a bad segment (`StoredLog.attach`).
Invariants
- The loop never blocks on a read: each slice is read off the loop, with a pause after it, so that flushes go first.
- A result counts only if the segment is still part of its log: retention or compaction may have removed it meanwhile.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from oncelog.broker.storage.disk_errors import lacks_descriptor
from oncelog.broker.storage.local.batch_scan import BatchScan
from oncelog.broker.storage.local.local_log import LocalLog
from oncelog.broker.storage.local.segment import LOG_SUFFIX, Segment
from oncelog.broker.turns.ports import Clock, Disk, Scheduler
from oncelog.protocol.checksum import crc32c

SLICE_BYTES = 1024 * 1024
_FIRST_PAUSE_MS = 100
_PAUSE_MS = 2


@dataclass(frozen=True, slots=True)
class CheckSummary:
    """The result of one run over all segments."""

    segment_count: int
    checked_bytes: int
    duration_ms: int
    damaged_count: int


class SegmentCheck:
    def __init__(
        self,
        disk: Disk,
        scheduler: Scheduler,
        clock: Clock,
        on_done: Callable[[CheckSummary], None],
    ) -> None:
        """`on_done` is called once nothing is left to check."""
        self._disk = disk
        self._scheduler = scheduler
        self._clock = clock
        self._on_done = on_done
        self._waiting: deque[tuple[LocalLog, Segment]] = deque()
        self._is_running = False
        self._is_stopped = False
        self._position = 0
        self._crc = 0
        self._started_ms = 0
        self._segment_count = self._checked_bytes = self._damaged_count = 0

    @property
    def is_busy(self) -> bool:
        return self._is_running

    def add(self, log: LocalLog) -> None:
        """Check the segments of `log` that recovery did not read."""
        self._waiting.extend((log, segment) for segment in log.segments if segment.unverified_sum is not None)
        if self._waiting and not self._is_running:
            self._is_running = True
            self._started_ms = self._clock.monotonic_ms()
            self._segment_count = self._checked_bytes = self._damaged_count = 0
            self._scheduler.call_later(_FIRST_PAUSE_MS, self._next_slice)

    def stop(self) -> None:
        self._is_stopped = True

    def _next_slice(self) -> None:
        while self._waiting and not _is_of_interest(*self._waiting[0]):
            self._next_segment()
        if self._is_stopped:
            return
        if not self._waiting:
            self._finish()
            return
        _, segment = self._waiting[0]
        size_bytes, _ = segment.unverified_sum or (0, 0)
        start, end = self._position, min(size_bytes, self._position + SLICE_BYTES)

        def read() -> None:
            data = self._disk.read_range(segment.path(LOG_SUFFIX), start, end)
            self._crc = crc32c(data, self._crc)
            self._position += len(data)

        self._scheduler.run_in_thread(read, lambda error: self._on_slice(start, size_bytes, error))

    def _on_slice(self, start: int, size_bytes: int, error: Exception | None) -> None:
        if self._is_stopped:
            return
        log, segment = self._waiting[0]
        if _is_of_interest(log, segment) and not lacks_descriptor(error):
            self._checked_bytes += self._position - start
            if error is not None:
                self._judge(log, segment, f"it cannot be read: {error}")
            elif self._position >= size_bytes:
                self._judge(log, segment, None)
            elif self._position == start:
                self._judge(log, segment, f"it ends at position {start}, {size_bytes} bytes were written")
        # Without a descriptor nothing was read, and the slice is retried.
        self._scheduler.call_later(_FIRST_PAUSE_MS if lacks_descriptor(error) else _PAUSE_MS, self._next_slice)

    def _judge(self, log: LocalLog, segment: Segment, problem: str | None) -> None:
        self._segment_count += 1
        expected, segment_crc = segment.unverified_sum, self._crc
        self._next_segment()
        if problem is None and expected is not None and expected[1] == segment_crc:
            segment.unverified_sum = None
            return
        self._damaged_count += 1
        text = f"{segment.path(LOG_SUFFIX)}: {problem}" if problem is not None else place_of_damage(self._disk, segment)
        log.on_damage(text)

    def _next_segment(self) -> None:
        self._waiting.popleft()
        self._position = self._crc = 0

    def _finish(self) -> None:
        self._is_running = False
        self._on_done(
            CheckSummary(
                self._segment_count,
                self._checked_bytes,
                self._clock.monotonic_ms() - self._started_ms,
                self._damaged_count,
            )
        )


def _is_of_interest(log: LocalLog, segment: Segment) -> bool:
    return (
        segment.unverified_sum is not None
        and not log.is_closed
        and not log.is_offline
        and any(segment is known for known in log.segments)
    )


def find_damage(disk: Disk, segment: Segment) -> str | None:
    """Read a segment that was adopted unread, at once; returns what is wrong with it."""
    if segment.unverified_sum is None:
        return None
    size_bytes, expected_crc = segment.unverified_sum
    path = segment.path(LOG_SUFFIX)
    crc = 0
    try:
        for start in range(0, size_bytes, SLICE_BYTES):
            crc = crc32c(disk.read_range(path, start, min(size_bytes, start + SLICE_BYTES)), crc)
    except OSError as error:
        return f"{path} cannot be read: {error}"
    return None if crc == expected_crc else place_of_damage(disk, segment)


def place_of_damage(disk: Disk, segment: Segment) -> str:
    """The first bad batch of a segment whose checksum does not match, and the affected offsets."""
    path = segment.path(LOG_SUFFIX)
    size_bytes = segment.unverified_sum[0] if segment.unverified_sum is not None else segment.size_bytes

    def read_view(start: int, end: int) -> memoryview:
        return memoryview(disk.read_range(path, start, end))

    scan = BatchScan(read_view, size_bytes, segment.base_offset, has_gaps=segment.has_gaps)
    try:
        for _ in scan:
            pass
    except OSError as error:
        return f"{path} cannot be read: {error}"
    last_offset = segment.next_offset - 1
    if scan.problem is None:
        return (
            f"{path} has the wrong checksum, though each batch is valid: "
            f"offsets {segment.base_offset} to {last_offset} are in doubt"
        )
    return (
        f"{path} at position {scan.position}, offset {scan.next_offset}: {scan.problem}; "
        f"offsets {scan.next_offset} to {last_offset} are in doubt"
    )
