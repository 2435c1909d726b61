"""The whole broker over tables in virtual time: statements take time, may have happened though their answer is lost,
and another broker may take the lease in between.

Owns: the stops of a broker that has no disk. Everything else is the world of files: the same clients, network,
handovers and auditor.
"""

from dataclasses import dataclass
from random import Random

from oncelog.broker.assembly.broker import StartError
from oncelog.broker.log.partition_log import PartitionLog
from oncelog.broker.log.store import StoreDamagedError
from oncelog.broker.storage.shared.log import SharedLog
from oncelog.broker.storage.shared.store import SharedSizes
from oncelog.broker.storage.shared.tables import (
    AddAside,
    AppendRound,
    Checkpoint,
    MoveStarts,
    RefuseRows,
    ReplaceChunks,
    WriteBlob,
)
from oncelog.testing.memory_disk import MemoryDisk
from tests.fakes.broker import VirtualBroker
from tests.fakes.database import Database
from tests.fakes.tables import FakeTables
from tests.fakes.tables_broker import TablesBroker
from tests.fakes.virtual_time import VirtualTime
from tests.history.auditor import HistoryError
from tests.history.events import Partition, Restart
from tests.simulation.broker_states import log_of
from tests.simulation.broker_tables import WatchedTable
from tests.simulation.broker_world import BrokerWorld, Tally

_CUT_SHARE = 0.02
_FULL_SHARE = 0.3
_FULL_AFTER_MS = (100, 500, 2_000)
_FULL_MS = (20, 300, 3_000)
_SLACK_MS = 20_000
"""A coordinator whose log is in many small chunks, fetched one by one, is not at work before the next stop or two."""


@dataclass
class TablesTally(Tally):
    cuts: int = 0
    checkpoints: int = 0
    compacted_starts: int = 0
    lost_leases: int = 0
    stops_in_a_statement: int = 0
    full_disks: int = 0


class ChunkedTable(WatchedTable):
    """A log that is compacted in chunks."""

    def __init__(self, partition: Partition) -> None:
        super().__init__(partition)
        self._chunks: list[int] = []

    def _is_new(self, virtual: VirtualBroker, log: PartitionLog) -> bool:
        """Whether readers get other chunks than at the last look, which is later than when the tables changed."""
        assert isinstance(log.stored, SharedLog)
        before, self._chunks = self._chunks, [row.id for segment in log.stored.segments for row in segment.chunks]
        return self._chunks != before

    def _clean_offset(self, virtual: VirtualBroker, log: PartitionLog) -> int:
        assert isinstance(virtual, TablesBroker) and virtual.store.cleaner is not None
        return min(virtual.store.cleaner._checkpoint.get(log.topic, log.partition), log.log_end_offset)


class TablesWorld(BrokerWorld):
    def __init__(self, seed: int) -> None:
        self.database = Database()
        self._sizes_of = Random(seed + 2**42)
        self.tally: TablesTally
        self.broker: TablesBroker
        super().__init__(seed)
        if not self._clock_jumps:
            self.recorder.history.slack_ms = _SLACK_MS
        self._tables = [ChunkedTable(table.partition) for table in self._tables]

    def _nothing(self) -> TablesTally:
        return TablesTally()

    def _begun(self, seed: int) -> TablesBroker:
        return self._on_tables(VirtualTime(), seed)

    def _started(self, disk: MemoryDisk, wall_ms: int) -> TablesBroker:
        self._starts += 1
        return self._on_tables(VirtualTime(wall_ms), self._starts)

    def _on_tables(self, time: VirtualTime, seed: int) -> TablesBroker:
        self.tables = FakeTables(self.database, time, time, Random(seed), cut_share=_CUT_SHARE)
        random = self._sizes_of
        sizes = SharedSizes(
            row_bytes=random.choice([200, 1_000_000]),
            checkpoint_bytes=random.choice([1, 1_000, 10_000]),
            chunk_bytes=random.choice([200, 1_000, 1_000_000]),
            written_bytes=random.choice([0, 2_000, 1_000_000]),
            fetched_bytes=random.choice([0, 2_000, 1_000_000]),
        )
        try:
            broker = TablesBroker(
                *self._settings, database=self.database, time=time, seed=seed, tables=self.tables, sizes=sizes
            )
        except (OSError, StartError) as error:
            raise HistoryError(f"the tables are not what a broker has left: {error}") from error
        if random.random() < _FULL_SHARE:  # a start without space fails
            time.call_later(random.choice(_FULL_AFTER_MS), self._fill_the_disk)
        return broker

    def _fill_the_disk(self) -> None:
        """Fill the database's disk; there is space again later."""
        tables = self.tables
        if not self.network.is_calm:
            self.tally.full_disks += 1
            self.network.may_be_refused = True  # some answers have no place for the error
            tables.refused = (AddAside, AppendRound, Checkpoint, MoveStarts, RefuseRows, ReplaceChunks, WriteBlob)
            self.broker.time.call_later(self._sizes_of.choice(_FULL_MS), lambda: self._make_space(tables))

    def _make_space(self, tables: FakeTables) -> None:
        tables.refused = ()

    def _log_of(self, partition: Partition) -> PartitionLog | None:
        return log_of(self.broker, partition)

    # --- stops --------------------------------------------------------------------------------------------------------

    def _turn(self, step_ms: int) -> None:
        try:
            super()._turn(step_ms)
        except StoreDamagedError as error:
            raise HistoryError(f"what was written is gone: {error}") from error
        if self.broker.broker.logs.offline_count:
            raise HistoryError("what was written cannot be read")
        if self.broker.failures:
            raise HistoryError(f"nobody has taken the lease, and nothing is refused: {self.broker.failures}")
        if self.broker.problems:
            raise HistoryError(f"a log cannot be compacted: {self.broker.problems}")

    def _trouble(self) -> None:
        if self.network.is_calm:
            return
        self._later(self.random.choice([400, 1_500, 4_000]), self._trouble)
        if self._clock_jumps and self.random.random() < 0.5:
            self._set_the_clock()
        kind = self.random.choice(["kill", "clean", "lease"])
        self.tally.stops += 1
        if kind == "clean":
            self.broker.broker.logs.close()
        elif kind == "lease":
            self._lose_the_lease()
        self._restart(kind, self.broker.disk)

    def _lose_the_lease(self) -> None:
        """Take the broker's lease away: it keeps answering what it can, but can append nothing."""
        self.tally.lost_leases += 1
        self.database.take_lease(self.random)
        self.broker.time.advance(self.random.choice([0, 5, 50, 500]))
        self.network.collect()

    def _restart(self, kind: str, disk: MemoryDisk) -> None:
        """Start on what statements have made durable: the rest is lost, as after a power cut."""
        self.tally.stops_in_a_statement += bool(self.database.in_flight)
        self.tally.cuts += self.tables.cut_count
        self.tally.checkpoints += self.database.trimmed > 0
        self.tally.compacted_starts += bool(self.database.replaced)
        self._leave()
        self.network.on_restart()
        self.recorder.history.power_cuts.append(self.recorder.tick())
        self.recorder.history.restarts.append(Restart(self.recorder.tick(), kind))
        self.handovers.on_restart()
        self.database.attendant = None
        self.broker = self._started(disk, self.broker.time.wall_ms())
        self._later(self.random.choice([0, 20, 300]), self.database.wake_sleepers)
        for table in self._tables:
            table.on_restart()
        self._visitor.on_restart()
        self._look()

    def _settle(self, start_ms: int) -> None:
        self.tables.cut_share = 0
        self._make_space(self.tables)
        super()._settle(start_ms)
