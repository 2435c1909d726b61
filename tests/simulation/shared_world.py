"""The whole broker over a store elsewhere, which takes partitions away at random: another node leads them for a while.

Owns: which partition is lost and how, when it comes back, and the stops of a broker that has no disk. Everything else
is the world of files: the same clients, network, handovers and auditor.
A partition goes when a commit is refused it, or in between, in any turn; its log is gone until it is gained again.
"""

from collections import Counter
from dataclasses import dataclass
from random import Random

from oncelog.broker.log.partition_log import PartitionLog
from oncelog.testing.memory_disk import MemoryDisk
from tests.fakes.broker import VirtualBroker
from tests.fakes.shared_store import SharedStore, Shelf
from tests.fakes.tables_broker import LateBroker
from tests.fakes.virtual_time import VirtualTime
from tests.history.events import Partition, Restart
from tests.simulation.broker_states import log_of
from tests.simulation.broker_tables import WatchedTable
from tests.simulation.broker_world import PARTITIONS, BrokerWorld, Tally

_AWAY_MS = (0, 1, 20, 200, 1_000)
_TAKE_SHARE = 0.04
_LOST_AGAIN_SHARE = 0.2


@dataclass
class SharedTally(Tally):
    refused_commits: int = 0
    lost_partitions: int = 0
    gained_partitions: int = 0


class NotedTable(WatchedTable):
    """Nothing is compacted here."""

    def look(self, virtual: VirtualBroker, random: Random) -> None:
        self.note(virtual)


class SharedWorld(BrokerWorld):
    def __init__(self, seed: int) -> None:
        self.shelf = Shelf(is_calm=True)
        self._losses = Random(seed + 2**41)
        self._leaderships: Counter[Partition] = Counter(dict.fromkeys(PARTITIONS, 1))
        self.tally: SharedTally
        super().__init__(seed)
        self._tables = [NotedTable(table.partition) for table in self._tables]

    def _nothing(self) -> SharedTally:
        return SharedTally()

    def _begun(self, seed: int) -> VirtualBroker:
        self._settings = (*self._settings, "log.cleaner.enable=false")
        return self._on_shelf(VirtualTime(), seed)

    def _started(self, disk: MemoryDisk, wall_ms: int) -> VirtualBroker:
        self._starts += 1
        return self._on_shelf(VirtualTime(wall_ms), self._starts)

    def _on_shelf(self, time: VirtualTime, seed: int) -> VirtualBroker:
        store = SharedStore(self.shelf, time, time, Random(seed), take_share=_TAKE_SHARE, on_taken=self._on_refused)
        broker = LateBroker(*self._settings, time=time, seed=seed, store=store)
        leadership, topics = broker.broker.leadership, broker.broker.topics
        leadership.watch(self)
        for topic in topics.all():
            for partition in range(topic.partition_count):
                if not leadership.leads(topic, partition):  # lost in the middle of the start
                    self._give_back(broker, topic.name, partition)
        return broker

    # --- partitions that go and come ----------------------------------------------------------------------------------

    def _take_away(self) -> None:
        """A partition at any time, whether anything is written to it or not."""
        if self.network.is_calm:
            return
        self._later(self._losses.choice([50, 200, 700]), self._take_away)
        logs = sorted((log.topic, log.partition) for log in self.broker.broker.logs.logs)
        self.broker.broker.leadership.lose(*self._losses.choice(logs))

    def _on_refused(self, topic: str, partition: int) -> None:
        """The broker learns it with the answer of its statement."""
        self.tally.refused_commits += 1

    def on_epochs_changed(self) -> None:
        """See `LeadershipListener`."""

    def on_lost(self, topic: str, partition: int) -> None:
        self.tally.lost_partitions += 1
        for table in self._tables:
            if table.partition == (topic, partition):
                table.on_restart()  # what no statement has made durable is gone
        self._leaderships[topic, partition] += 1
        self._give_back(self.broker, topic, partition)

    def _give_back(self, broker: VirtualBroker, topic: str, partition: int) -> None:
        def gain() -> None:
            if broker is self.broker:
                broker.broker.leadership.gain(topic, partition)

        self._later(self._losses.choice(_AWAY_MS), gain)

    def _start(self, partition: Partition) -> int:
        """No two leaderships of a partition share an epoch, though one broker has had both."""
        return self._leaderships[partition]

    def on_gained(self, topic: str, partition: int) -> None:
        """It is opened now, and may be lost again before that has ended."""
        self.tally.gained_partitions += 1
        if not self.network.is_calm and self._losses.random() < _LOST_AGAIN_SHARE:
            leadership = self.broker.broker.leadership
            delay_ms = self._losses.choice((1, 5, 20))
            self.broker.time.call_later(delay_ms, lambda: leadership.lose(topic, partition))

    def _note_look(self) -> None:
        """Note nothing: one partition of a round may be refused, so markers are seen one by one, as in Apache Kafka."""

    def _log_of(self, partition: Partition) -> PartitionLog | None:
        is_open = self.broker.broker.topics.find_partition(*partition) is not None
        return log_of(self.broker, partition) if is_open else None

    def _settle(self, start_ms: int) -> None:
        self.shelf.is_calm = True
        super()._settle(start_ms)

    # --- stops --------------------------------------------------------------------------------------------------------

    def _trouble(self) -> None:
        if self.network.is_calm:
            return
        self.shelf.is_calm = False
        self._later(self.random.choice([400, 1_500, 4_000]), self._trouble)
        if self._clock_jumps and self.random.random() < 0.5:
            self._set_the_clock()
        kind = self.random.choice(["kill", "clean"])
        self.tally.stops += 1
        if kind == "clean":
            self.broker.broker.logs.close()
        self._restart(kind, self.broker.disk)

    def _restart(self, kind: str, disk: MemoryDisk) -> None:
        """Start on what statements have made durable: the rest is lost, as after a power cut."""
        self.network.on_restart()
        self._leaderships.update(list(self._leaderships))
        self.recorder.history.power_cuts.append(self.recorder.tick())
        self.recorder.history.restarts.append(Restart(self.recorder.tick(), kind))
        self.handovers.on_restart()
        self.broker = self._started(disk, self.broker.time.wall_ms())
        for table in self._tables:
            table.on_restart()
        self._visitor.on_restart()
        self._look()
