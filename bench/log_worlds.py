"""Logs that have grown in one direction, and the operations whose cost might have grown with them.

Owns: how each world is filled, and its operations. The log, its manager, the rounds and the files are the broker's
own, on a real directory; nothing waits for the disk (`oncelog.flush.policy=memory`), since the time of a sync does not
depend on any of these sizes.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import ClassVar
from uuid import UUID

from bench.batches import NOW_MS, BatchMaker
from bench.measure import Operation
from oncelog.broker.log.log_config import LogConfig
from oncelog.broker.log.log_manager import LogManager
from oncelog.broker.log.partition_log import FetchIsolation
from oncelog.broker.log.values import EndMarker
from oncelog.broker.storage.retention import retention_start
from oncelog.broker.system.disk import RealDisk
from oncelog.broker.turns.ports import WallMs
from oncelog.broker.turns.slices import at_once
from tests.fakes.logs import local_logs, read_records, segments_of
from tests.fakes.scheduler import ManualClock, ManualScheduler

TOPIC_ID = UUID(int=77)
FETCH_BYTES = 1024
PLAIN_PRODUCER, OTHER_PRODUCER = 1_000_000_001, 1_000_000_002
_FLUSH_EVERY = 500
_BASE_BATCHES = 1_000
Progress = Callable[[int], None]


class LogWorld:
    """One partition that grows in one way; `fill` makes it `size` large, on top of a small common base."""

    axis: ClassVar[str]

    def __init__(self, path: Path, size: int, config: LogConfig | None = None) -> None:
        self.size = size
        self.disk = RealDisk(path)
        self.config = config or LogConfig()
        self.batches = BatchMaker()
        self.scheduler = ManualScheduler()
        self.log = at_once(self.started().open("topic", 0, TOPIC_ID, self.config))
        self.random = Random(size)
        self.wall_ms = NOW_MS
        self.filled_end_offset = 0

    def started(self) -> LogManager:
        """What a start does before it opens the partition."""
        return local_logs(self.disk, ManualClock(NOW_MS), self.scheduler, _fail, policy="memory")

    def close(self) -> None:
        """Give back its descriptors, of which a large one has hundreds."""
        self.disk.close()

    def write(self, producer_id: int = -1, *, transactional: bool = False) -> None:
        batch = self.batches.next(producer_id, transactional=transactional, timestamp_ms=self.wall_ms)
        self.log.append(batch, wall_ms=self.wall_ms)

    def end(self, producer_id: int, *, committed: bool) -> None:
        self.log.append_end_txn_marker(EndMarker(producer_id, 0, committed, 0), self.wall_ms)

    def flush(self) -> None:
        self.scheduler.run()

    def filled(self, progress: Progress) -> "LogWorld":
        # Many intervals of the index, so that finding a place costs the same in the smallest log.
        for _ in range(_BASE_BATCHES):
            self.write()
        self.fill(progress)
        self.flush()
        self.filled_end_offset = self.log.log_end_offset
        return self

    def fill(self, progress: Progress) -> None:
        raise NotImplementedError

    def any_offset(self) -> int:
        """Among those that `fill` has written: measuring appends must not change what is read."""
        return self.random.randrange(self.filled_end_offset)

    # -- operations of every world

    def append(self) -> None:
        """One idempotent batch, durable."""
        self.write(PLAIN_PRODUCER)
        self.flush()

    def transaction(self, *, committed: bool = True) -> None:
        """One transaction of one batch, from its first append to the moved last stable offset."""
        self.write(OTHER_PRODUCER, transactional=True)
        self.end(OTHER_PRODUCER, committed=committed)
        self.flush()

    def read_at(self, offset: int, isolation: FetchIsolation = FetchIsolation.TXN_COMMITTED) -> None:
        read_records(self.log, offset, FETCH_BYTES, isolation)

    def read_anywhere(self) -> None:
        self.read_at(self.any_offset())

    def read_end(self) -> None:
        self.read_at(self.log.last_stable_offset - 1)

    def operations(self) -> list[Operation]:
        return [
            Operation("append", self.append),
            Operation("transaction", self.transaction),
            Operation("read anywhere", self.read_anywhere, is_read=True),
            Operation("read at the end", self.read_end, is_read=True),
        ]


class Segments(LogWorld):
    """Complete segments of one small batch each."""

    axis = "segments"

    def fill(self, progress: Progress) -> None:
        self.log.config = replace(self.config, segment_bytes=self.batches.size_bytes + 1)
        for number in range(self.size):
            self.wall_ms = WallMs(NOW_MS + number)
            self.write()
            if number % _FLUSH_EVERY == 0:
                self.flush()
                progress(number)
        self.log.config = self.config
        self.wall_ms = WallMs(NOW_MS + self.size)

    def find_timestamp(self) -> None:
        self.log.offset_for_timestamp(NOW_MS + self.random.randrange(self.size), FetchIsolation.HIGH_WATERMARK)

    def roll(self) -> None:
        self.log.config = replace(self.config, segment_bytes=self.batches.size_bytes + 1)
        self.write()
        self.log.config = self.config
        self.flush()

    def retention(self) -> None:
        retention_start(segments_of(self.log), self.config, self.log.high_watermark, self.wall_ms)

    def operations(self) -> list[Operation]:
        return [
            *super().operations(),
            Operation("find a timestamp", self.find_timestamp, is_read=True),
            Operation("find the newest timestamp", self.log.offset_of_max_timestamp, is_read=True),
            Operation("decide on retention", self.retention, is_read=True),
            Operation("begin a segment", self.roll, limit=200),
        ]


class OpenTransactions(LogWorld):
    """Open transactions of one batch each."""

    axis = "open transactions"

    def fill(self, progress: Progress) -> None:
        for number in range(self.size):
            self.write(number, transactional=True)
            if number % _FLUSH_EVERY == 0:
                self.flush()
                progress(number)

    def append_inside(self) -> None:
        """One more batch of a transaction that is open."""
        self.write(self.random.randrange(self.size), transactional=True)
        self.flush()

    def read_uncommitted(self) -> None:
        self.read_at(self.any_offset(), FetchIsolation.HIGH_WATERMARK)

    def operations(self) -> list[Operation]:
        return [
            Operation("append", self.append),
            Operation("append inside one of them", self.append_inside),
            Operation("transaction", self.transaction),
            Operation("read up to the last stable offset", self.read_end, is_read=True),
            Operation("read uncommitted", self.read_uncommitted, is_read=True),
        ]


class ProducerIds(LogWorld):
    """Producers known to the partition, by one batch each."""

    axis = "producer ids"

    def fill(self, progress: Progress) -> None:
        for number in range(self.size):
            self.write(number)
            if number % _FLUSH_EVERY == 0:
                self.flush()
                progress(number)

    def append_known(self) -> None:
        self.write(self.random.randrange(self.size))
        self.flush()

    def operations(self) -> list[Operation]:
        return [
            Operation("append", self.append_known),
            Operation("transaction", self.transaction),
            Operation("read anywhere", self.read_anywhere, is_read=True),
            Operation("read at the end", self.read_end, is_read=True),
        ]


class AbortedTransactions(LogWorld):
    """Aborted transactions of one batch each, in the log."""

    axis = "aborted transactions"

    def fill(self, progress: Progress) -> None:
        for number in range(self.size):
            self.write(OTHER_PRODUCER, transactional=True)
            self.end(OTHER_PRODUCER, committed=False)
            if number % _FLUSH_EVERY == 0:
                self.flush()
                progress(number)

    def abort(self) -> None:
        self.transaction(committed=False)

    def operations(self) -> list[Operation]:
        return [
            Operation("append", self.append),
            Operation("aborted transaction", self.abort),
            Operation("read anywhere", self.read_anywhere, is_read=True),
            Operation("read at the end", self.read_end, is_read=True),
        ]


class AbortedInsideOne(AbortedTransactions):
    """The same while one other transaction was open from the first to the last: no single index entry tells a reader
    that the later ones do not overlap its read."""

    axis = "aborted transactions inside a long one"

    def fill(self, progress: Progress) -> None:
        self.write(PLAIN_PRODUCER, transactional=True)
        super().fill(progress)
        self.end(PLAIN_PRODUCER, committed=True)


def _fail(error: OSError) -> None:
    raise error
