"""The whole broker over tables that go back to an earlier state, once in a life: a standby was promoted that had not
received everything, or a backup was restored, under a running broker or between two.

Owns: what is lost, and what is then excused: the history behind the restored point is gone, as far as it was answered
before. All else holds as ever, also for a `TransactionalSession`, which copies. What the broker that was running
answers to what is asked later must be there in the end, the clients' ids and epochs of the lost time are not given out
again, and consumers that have read further learn where their history ends. A client that cannot know of it, such as an
idempotent producer that counts its batches, ends with the broker; transactional producers continue.
"""

from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise, takewhile
from random import Random

from oncelog.broker.requests.context import Peer
from oncelog.broker.requests.dispatch import Exchange
from oncelog.broker.storage.shared.statements import Fenced, RoundsLost
from oncelog.protocol.generated.find_coordinator_request import FindCoordinatorRequest
from oncelog.testing.memory_disk import MemoryDisk
from tests.clients.simulated import GROUP, feeds, reads
from tests.fakes.tables_broker import TablesBroker
from tests.history.auditor import HistoryError
from tests.history.events import Partition
from tests.simulation.broker_copier import Copying
from tests.simulation.broker_network import Client
from tests.simulation.broker_states import log_of
from tests.simulation.broker_world import _READ
from tests.simulation.lost_time import LostTime
from tests.simulation.shared_world import NotedTable
from tests.simulation.tables_world import TablesTally, TablesWorld

_ALONE_SHARE = 0.6
_COPIED_SHARE = 0.2
_ROUNDS, _BESIDE, _COPIED = "rounds", "beside rounds", "a commit of the copier"
_LAST_COPIES_MS = 120_000
_AWAITED_MS = 2_000
"""Restore after this wait, even if no state of the awaited kind has come."""
GO_ON = ("t", "p.", "member")
"""How the names of those clients begin that know what to do."""


@dataclass
class RestoredTally(TablesTally):
    restores: int = 0
    restores_beside: int = 0
    noticed: int = 0
    lost_rounds: int = 0
    forgotten: int = 0
    copied_batches: int = 0
    batches_again: int = 0
    copier_sessions: int = 0


class RestoredWorld(TablesWorld):
    def __init__(self, seed: int) -> None:
        self._fate = Random(seed + 2**43)
        self.tally: RestoredTally
        self._followers: list[Client] = []
        super().__init__(seed)
        self._copying = Copying(Random(seed + 2**45), self._serve, self.broker.ask)
        self._lost_time = LostTime(self.recorder)
        self.database.tick = self._lost_time.tick
        self.database.note()
        self._awaited = ""
        """The tables go back as soon as this is the last that was written, and lose that, if it is a kind of statement,
        alone."""
        self._later(self._fate.randint(1_500, 9_000), self._come_due)

    def _nothing(self) -> RestoredTally:
        return RestoredTally()

    def _readers(self, partition: Partition) -> None:
        self._follow(partition, "follower")

    def _follow(self, partition: Partition, name: str) -> None:
        for is_committed in (True, False):
            life = reads(self.recorder, self.random, name, partition, is_committed=is_committed)
            self._followers.append(Client(life, name))
            self.network.join(self._followers[-1])

    # --- the copier ---------------------------------------------------------------------------------------------------

    def _serve(self, frame: memoryview, peer: Peer) -> Exchange:
        return self._asked().dispatcher.dispatch(frame, peer)

    def run(self, duration_ms: int = 12_000) -> RestoredTally:
        with closing(self._copying.wires):
            super().run(duration_ms)
        copier = self._copying.copier
        self.tally.copied_batches, self.tally.batches_again = copier.commits, copier.aborts
        self.tally.copier_sessions = copier.sessions
        return self.tally

    def _restart(self, kind: str, disk: MemoryDisk) -> None:
        self._copying.wires.cut_all()
        super()._restart(kind, disk)

    def _settle(self, start_ms: int) -> None:
        self._copying.calm()
        super()._settle(start_ms)
        end_ms = self._now_ms + _LAST_COPIES_MS
        while self._now_ms < end_ms and not self._copying.has_everything(self.broker.ask):
            commits = self._copying.copier.commits
            self._run_until(self._now_ms + 500)
            if self._copying.copier.commits > commits:  # over a slow database each may take seconds
                end_ms = self._now_ms + _LAST_COPIES_MS
        self._copying.stop()
        while not self._copying.has_stopped:
            self._run_until(self._now_ms + 500)

    # --- the tables go back -------------------------------------------------------------------------------------------

    def _come_due(self) -> None:
        draw = self._fate.random()
        if draw < _ALONE_SHARE + _COPIED_SHARE:
            self._awaited = self._fate.choice([_ROUNDS, _BESIDE]) if draw < _ALONE_SHARE else _COPIED
            self._later(_AWAITED_MS, self._restore)
        else:
            self._restore()

    def _restore(self) -> None:
        if self.tally.restores:
            return
        of_this_broker = sum(state.rows["epoch"] == self.database.epoch for state in self.database.states)
        self._go_back(self._fate.choice([1, 1, 2, 3, 5, 10, 30, 100, of_this_broker]))
        if self._fate.random() < 0.3:
            self._start_again()
        else:
            self._later(self._fate.choice([0, 50, 400, 2_000]), self._start_again)

    def _maybe_lose_alone(self) -> None:
        """Lose only writes of one kind: the next write of the other kind does not show the broker the loss."""
        pairs = pairwise(reversed(self.database.states))
        is_beside = (after.rows["written"] != before.rows["written"] for after, before in pairs)
        count = sum(1 for _ in takewhile(lambda each: each == (self._awaited == _BESIDE), is_beside))
        if count:
            self.tally.restores_beside += self._awaited == _BESIDE
            self._go_back(min(count, self._fate.choice([1, 2, 5, 20])))
            self._later(self._fate.choice([400, 2_000, 4_000]), self._start_again)

    def _go_back(self, statements: int) -> None:
        self._awaited = ""
        self.tally.restores += 1
        self._visitor.maybe_ask = lambda _: None  # type: ignore[method-assign]
        for client in (*self._clients, *self._followers):
            if not client.name.startswith(GO_ON):
                client.life.close()
        before = set(self.database.journal)
        self._lost_time.begin(self.database.restore(statements))
        self.tally.lost_rounds += bool(before - set(self.database.journal))
        self._watched, self._tables = [table.partition for table in self._tables], []
        self.tables.cut_share = 0

    def _turn(self, step_ms: int) -> None:
        commits = self._copying.copier.commits
        self._copying.pass_time(step_ms)
        if self._awaited == _COPIED and self._copying.copier.commits > commits:
            self._restore()
        while step_ms and self._awaited in (_ROUNDS, _BESIDE):
            super()._turn(1)
            step_ms -= 1
            self._maybe_lose_alone()
        if self._lost_time.lost_from is None:
            super()._turn(step_ms)
            return
        self.broker.time.advance(step_ms)
        if not self.broker.failures:
            self.broker.broker.transactions.step()
            self.broker.broker.logs.step()
        for error in self.broker.failures:
            if not isinstance(error, RoundsLost | Fenced):
                raise HistoryError(f"what is lost is not named: {error}") from error

    def _trouble(self) -> None:
        if self._lost_time.lost_from is None:
            super()._trouble()
        elif not self.network.is_calm:
            self._later(1_000, self._trouble)

    def _start_again(self) -> None:
        if self._lost_time.lost_from is None:
            return
        self.tally.noticed += bool(self.broker.failures)
        self._lost_time.end()
        sleeper, epochs = self.broker, dict(self._leading)
        self._bounds.clear()
        self._tables = [NotedTable(partition) for partition in self._watched]
        self.network.cut_all()
        self._restart("restore", self.broker.disk)
        for kind in (0, 1):  # as every client does that has lost its connection: the topics of coordinators may be gone
            self.broker.start(FindCoordinatorRequest(key=GROUP, key_type=kind), 2)
        for partition in _READ:
            self._lost_time.note_end(partition, epochs[partition][0], log_of(self.broker, partition).log_end_offset)
            self._follow(partition, "follower after")
        self._join(Client(feeds(self.recorder, self._fate, 20, "input after"), "feeder after"))
        if self._fate.random() < 0.5:
            self._later(self._fate.choice([20, 300, 1_500]), lambda: self._wake(sleeper))

    def _wake(self, sleeper: TablesBroker) -> None:
        """It had slept, and knows nothing of it."""
        sleeper.time.advance(self._fate.choice([10, 100, 1_000]))

    # --- the end ------------------------------------------------------------------------------------------------------

    def _read_everything(self) -> None:
        super()._read_everything()
        self._lost_time.judge(self.broker.ask)
        self.tally.forgotten = self._lost_time.forgotten
        self._copying.judge(self.broker.ask)
