"""Several nodes over tables that go back to an earlier state, once in a life: all of them were connected to a server
whose standby was promoted, or that was restored from a backup.

Owns: when the tables go back, and what the nodes have to do with it: the leader finds it out, or ends; those that stand
by follow the next leader from what is left. Does not own: what is lost, and what holds all the same (`lost_time`).
"""

from dataclasses import dataclass

from oncelog.broker.storage.shared.statements import RoundsLost
from tests.clients.simulated import reads
from tests.fakes.node import VirtualNode, VirtualProcess
from tests.history.auditor import HistoryError
from tests.history.events import Partition
from tests.simulation.broker_network import Client
from tests.simulation.broker_states import log_of
from tests.simulation.broker_world import _READ
from tests.simulation.lost_time import LostTime
from tests.simulation.pair_tables import Committed, WatchedDatabase
from tests.simulation.pair_world import PairTally, PairWorld
from tests.simulation.restored_world import GO_ON
from tests.simulation.shared_world import NotedTable

_DEPOSED_MS = (1_000, 2_000, 3_500)
"""How long after a live leader was deposed the tables go back to its time."""
_LONGEST_MS = 4_000
"""A leader from before the restore that has nothing to write ends within this time."""


@dataclass
class RestoredPairTally(PairTally):
    restores: int = 0
    noticed: int = 0
    lost_rounds: int = 0
    forgotten: int = 0


class RestoredPairWorld(PairWorld):
    def __init__(self, seed: int) -> None:
        self.tally: RestoredPairTally
        self._followers: list[Client] = []
        self._older: list[VirtualProcess] = []
        """Processes that began before the tables went back, and may know what is lost."""
        self._is_lost_time = self._is_taken = False
        """After the tables went back, by a node that knows it."""
        self._lost_epochs: dict[Partition, int] = {}
        super().__init__(seed)
        self._lost_time = LostTime(self.recorder)
        self.database.tick = self._lost_time.tick
        self.database.note()
        self._later(self._fate.randint(1_500, 9_000), self._restore)

    def _nothing(self) -> RestoredPairTally:
        return RestoredPairTally()

    def _readers(self, partition: Partition) -> None:
        self._follow(partition, "follower")

    def _follow(self, partition: Partition, name: str) -> None:
        for is_committed in (True, False):
            life = reads(self.recorder, self.random, name, partition, is_committed=is_committed)
            self._followers.append(Client(life, name))
            self.network.join(self._followers[-1])

    # --- the tables go back -------------------------------------------------------------------------------------------

    def _restore(self) -> None:
        if len(self.database.states) < 2:
            self._later(500, self._restore)  # nothing was written yet that could be lost
        else:
            self._go_back(self._fate.choice([1, 2, 5, 10, 30, 100]))

    def _lose_leadership(self, epoch: int) -> None:
        """Go back to before a leadership that has deposed a live node, which may not have noticed yet."""
        if self.database.epoch == epoch and not self.tally.restores:
            self._go_back(sum(state.rows["epoch"] == epoch for state in self.database.states))
            for node in self.nodes:
                node.stay_away(False)
                if node.is_standing_still:
                    node.go_on()

    def _go_back(self, statements: int) -> None:
        if self.tally.restores:
            return
        self.tally.restores += 1
        self.around.cut_share = 0
        for client in (*self._clients, *self._followers):
            if not client.name.startswith(GO_ON):
                client.life.close()
        for node in self.nodes:
            self._excuse(node, 2 * _LONGEST_MS)
            self._older += [] if node.process is None else [node.process]
            if node.tables is not None:
                node.tables.cut_share = 0
                node.tables.cut_all()
        self._is_lost_time = True
        before = set(self.database.journal)
        self._lost_time.begin(self.database.restore(statements))
        self.tally.lost_rounds += bool(before - set(self.database.journal))
        self._lost_epochs = {partition: epoch for partition, (epoch, _) in self._leading.items()}
        self._watched, self._tables = [table.partition for table in self._tables], []
        self._forget_rounds()
        self._later(self._fate.choice([400, 2_000, _LONGEST_MS]), self._end_leader)

    def _forget_rounds(self) -> None:
        """Forget the rounds that are no longer in the journal."""
        newest = self.database.newest
        self._newest_round = newest, self.database.epoch
        self._coordinators.clear()
        self._followed = [(number, body) for number, body in self._followed if number <= newest]
        self._committed, self._ends = Committed(), []
        for number, body in self._followed:
            self._committed.on_round(body)
            self._ends.append((number, self._committed.next_offset))

    def _end_leader(self) -> None:
        """One that has nothing to write does not find out what was lost."""
        if self._is_lost_time and not self._is_taken:
            for node in self.nodes:
                if node.process is not None and node.process.node.term.is_leading:
                    self._kill(node)
            if not self.network.is_calm:
                self._later(1_000, self._end_leader)

    def _trouble(self) -> None:
        if not self._is_lost_time:
            super()._trouble()
        elif not self.network.is_calm:
            self._later(1_000, self._trouble)

    def _on_taken(self, database: WatchedDatabase) -> None:
        deposed = self.tally.deposed
        super()._on_taken(database)
        self._is_taken = self._is_lost_time
        if self.tally.deposed > deposed and not self._is_lost_time:
            self._later(self._fate.choice(_DEPOSED_MS), lambda: self._lose_leadership(database.epoch))

    def _judge(self, process: VirtualProcess) -> None:
        if process not in self._older:
            super()._judge(process)
        for problem in process.failures if process in self._older else ():
            if str(RoundsLost()) not in str(problem):
                raise HistoryError(f"what is lost is not named: {problem}") from problem
        self._judge_warnings(process)

    def _on_ended(self, node: VirtualNode) -> None:
        self.tally.noticed += node.process is not None and bool(node.process.failures)
        super()._on_ended(node)

    def _follow_leader(self) -> None:
        if not self._is_lost_time:
            super()._follow_leader()
            return
        self.broker.follow(self.nodes, self.database.epoch)
        if self._is_taken and self.broker.is_there:
            self._go_on()

    def _go_on(self) -> None:
        """A node leads that knows what was lost."""
        self._lost_time.end()
        self._is_lost_time = False
        self._bounds.clear()
        self._tables = [NotedTable(partition) for partition in self._watched]
        self.network.cut_all()
        for partition in _READ:
            if partition in self._lost_epochs:
                end_offset = log_of(self.broker, partition).log_end_offset
                self._lost_time.note_end(partition, self._lost_epochs[partition], end_offset)
            self._follow(partition, "follower after")

    # --- the end ------------------------------------------------------------------------------------------------------

    def _read_everything(self) -> None:
        super()._read_everything()
        self._lost_time.judge(self.broker.ask)
        self.tally.forgotten = self._lost_time.forgotten
