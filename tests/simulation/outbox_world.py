"""The whole broker over tables, and beside it applications that produce in SQL transactions of the same database: also
while no broker is there, or one that has lost its lease.

Owns: when the broker is notified of rows, and what is looked at. The rest is the world of tables.
"""

from dataclasses import dataclass
from random import Random

from oncelog.broker.log.partition_log import PartitionLog
from oncelog.broker.outbox.feeder import Feeder
from oncelog.protocol.generated.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from oncelog.testing.memory_disk import MemoryDisk
from tests.fakes.tables_broker import TablesBroker
from tests.fakes.virtual_time import VirtualTime
from tests.simulation.broker_states import log_of
from tests.simulation.sql_writers import EVENTS, MAX_MESSAGE_BYTES, PARTITION_COUNT, SqlWriters
from tests.simulation.tables_world import TablesTally, TablesWorld

_WRITERS = 3
_NOTIFIED_SHARE = 0.7
_WHILE_FENCED_MS = (1, 3, 40)
_LAST_ROWS_MS = 600_000


@dataclass
class OutboxTally(TablesTally):
    rows: int = 0
    refused_rows: int = 0
    rolled_back_rows: int = 0


class OutboxWorld(TablesWorld):
    def __init__(self, seed: int) -> None:
        self._rows_random = Random(seed + 2**43)
        self.tally: OutboxTally
        super().__init__(seed)
        random = self._rows_random
        self._writers = SqlWriters(self.database, random, self._later, self._wall_ms, self._on_commit)
        wanted = CreatableTopic(name=EVENTS, num_partitions=PARTITION_COUNT, replication_factor=1)
        wanted.configs = [CreatableTopicConfig(name="max.message.bytes", value=str(MAX_MESSAGE_BYTES))]
        self.broker.ask(CreateTopicsRequest(topics=[wanted], timeout_ms=1_000), 5)

    def _nothing(self) -> OutboxTally:
        return OutboxTally()

    def _on_tables(self, time: VirtualTime, seed: int) -> TablesBroker:
        virtual = super()._on_tables(time, seed)
        broker = virtual.broker
        look_rows = self._rows_random.choice([2, 20, 1_000])
        feeder = Feeder(virtual.store, broker.topics, broker.metrics, broker.clock, broker.scheduler, look_rows)
        feeder.start()
        return virtual

    def _on_commit(self) -> None:
        if self._rows_random.random() < _NOTIFIED_SHARE:
            self.broker.store.outbox.notify()

    def run(self, duration_ms: int = 12_000) -> OutboxTally:
        for _ in range(_WRITERS):
            self._writers.write()
        super().run(duration_ms)
        self._writers.audit(self._event_logs())
        self.tally.rows, self.tally.refused_rows = self._writers.record_count, self._writers.refused_count
        self.tally.rolled_back_rows = self._writers.rolled_back
        return self.tally

    def _look(self) -> None:
        super()._look()
        self._writers.look(self._event_logs())

    def _lose_the_lease(self) -> None:
        for delay_ms in _WHILE_FENCED_MS:
            self.broker.time.call_later(delay_ms, self._writers.write_at_once)
        super()._lose_the_lease()

    def _restart(self, kind: str, disk: MemoryDisk) -> None:
        self._writers.write_at_once()  # no broker is there
        super()._restart(kind, disk)

    def _event_logs(self) -> list[PartitionLog]:
        return [log_of(self.broker, (EVENTS, partition)) for partition in range(PARTITION_COUNT)]

    def _settle(self, start_ms: int) -> None:
        self._writers.is_over = True
        super()._settle(start_ms)
        end_ms = self._now_ms + _LAST_ROWS_MS
        while self._now_ms < end_ms and not self._writers.are_taken:
            self._run_until(self._now_ms + 100)
        self._run_until(self._now_ms + 100)
