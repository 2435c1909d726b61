"""The whole broker over tables that go back to an earlier state, once in a life: a standby was promoted that had not
received everything, or a backup was restored, under a running broker or between two.

Owns: what is lost, and what nobody may then hold against the broker: the history behind the restored point is gone, as
far as it was answered before. All else holds as ever. What the broker that was running answers to what is asked later
must be there in the end, the clients' ids and epochs of the lost time are not given out again, and consumers that have
read further are told where their history ends.
Who cannot know of it, such as an idempotent producer that counts its batches, ends with the broker; transactional
producers go on.
"""

from dataclasses import dataclass, replace
from itertools import pairwise, takewhile
from random import Random
from typing import Any

from oncelog.broker.storage.shared.statements import Fenced, RoundsLost
from oncelog.protocol.generated.find_coordinator_request import FindCoordinatorRequest
from oncelog.protocol.generated.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.clients.simulated import GROUP, reads
from tests.fakes.tables_broker import TablesBroker
from tests.history.auditor import HistoryError
from tests.history.events import NEVER, End, History, Identity, Init, Outcome, Partition, Span
from tests.simulation.broker_network import Client
from tests.simulation.broker_states import log_of
from tests.simulation.broker_world import _READ
from tests.simulation.shared_world import NotedTable
from tests.simulation.tables_world import TablesTally, TablesWorld

_ALONE_SHARE = 0.6
_ROUNDS, _BESIDE = "rounds", "beside rounds"
_AWAITED_MS = 2_000
"""After so long whatever is there is lost."""
_GO_ON = ("t", "p.", "member")
"""How the names of those clients begin that know what to do."""


@dataclass
class RestoredTally(TablesTally):
    restores: int = 0
    restores_beside: int = 0
    noticed: int = 0
    lost_rounds: int = 0
    forgotten: int = 0


class RestoredWorld(TablesWorld):
    def __init__(self, seed: int) -> None:
        self._looks: dict[int, int] = {}
        self._fate = Random(seed + 2**43)
        self.tally: RestoredTally
        self._lost_from: int | None = None
        """While the tables are back and the broker of before is running."""
        self._restored_at = 0
        self._lost_identities: set[Identity] = set()
        self._ends: list[tuple[Partition, int, int]] = []
        """A partition, the epoch in which it was led when the tables went back, and where it then ended."""
        self._followers: list[Client] = []
        super().__init__(seed)
        self.database.tick = self._tick
        self.database.note()
        self._awaited = ""
        """The tables go back as soon as this is the last that was written, and lose that alone."""
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

    def _tick(self) -> int:
        tick = self.recorder.tick()
        self._looks[tick] = len(self.recorder.history.looks)
        return tick

    # --- the tables go back -------------------------------------------------------------------------------------------

    def _come_due(self) -> None:
        if self._fate.random() < _ALONE_SHARE:
            self._awaited = self._fate.choice([_ROUNDS, _BESIDE])
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
        """What the broker writes next of the other kind does not tell it of the loss."""
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
            if not client.name.startswith(_GO_ON):
                client.life.close()
        before = set(self.database.journal)
        self._lost_from = self.database.restore(statements)
        self.tally.lost_rounds += bool(before - set(self.database.journal))
        self._restored_at = self.recorder.tick()
        self._watched, self._tables = [table.partition for table in self._tables], []
        self.tables.cut_share = 0

    def _turn(self, step_ms: int) -> None:
        while step_ms and self._awaited:
            super()._turn(1)
            step_ms -= 1
            self._maybe_lose_alone()
        if self._lost_from is None:
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
        if self._lost_from is None:
            super()._trouble()
        elif not self.network.is_calm:
            self._later(1_000, self._trouble)

    def _start_again(self) -> None:
        if self._lost_from is None:
            return
        self.tally.noticed += bool(self.broker.failures)
        self._forget(self.recorder.history, self._lost_from)
        sleeper, epochs = self.broker, dict(self._leading)
        self._lost_from = None
        self._bounds.clear()
        self._tables = [NotedTable(partition) for partition in self._watched]
        self.network.cut_all()
        self._restart("restore", self.broker.disk)
        for kind in (0, 1):  # as every client does that has lost its connection: the topics of coordinators may be gone
            self.broker.start(FindCoordinatorRequest(key=GROUP, key_type=kind), 2)
        for partition in _READ:
            self._ends.append((partition, epochs[partition][0], log_of(self.broker, partition).log_end_offset))
            self._follow(partition, "follower after")
        if self._fate.random() < 0.5:
            self._later(self._fate.choice([20, 300, 1_500]), lambda: self._wake(sleeper))

    def _wake(self, sleeper: TablesBroker) -> None:
        """It had slept, and knows nothing of it."""
        sleeper.time.advance(self._fate.choice([10, 100, 1_000]))

    def _forget(self, history: History, lost_from: int) -> None:
        """Whatever was asked before the tables went back, and answered in the time that is lost, may be gone."""

        def is_lost(span: Span) -> bool:
            return span.is_ok and lost_from <= span.completed_at and span.invoked_at < self._restored_at

        operations: list[list[Any]] = [
            history.inits, history.sends, history.send_offsets, history.ends, history.group_commits
        ]  # fmt: skip
        for each in operations:
            for place, operation in enumerate(each):
                if is_lost(operation.span):
                    self.tally.forgotten += 1
                    each[place] = replace(operation, span=Span(operation.span.invoked_at, NEVER, Outcome.UNKNOWN))
                    if isinstance(operation, Init):
                        self._lost_identities.add(operation.identity)
                    if isinstance(operation, End) and operation.next_identity:
                        self._lost_identities.add(operation.next_identity)
        history.polls[:] = [each for each in history.polls if each.span.completed_at < lost_from]
        history.offset_fetches[:] = [each for each in history.offset_fetches if each.span.completed_at < lost_from]
        history.bounds[:] = [each for each in history.bounds if each.span.completed_at < lost_from]
        history.generations[:] = [each for each in history.generations if each.at < lost_from]
        del history.looks[self._looks[lost_from] :]

    # --- the end ------------------------------------------------------------------------------------------------------

    def _read_everything(self) -> None:
        super()._read_everything()
        history = self.recorder.history
        history.steps.clear()  # of some nobody knows any more
        given = {each.identity for each in history.inits if self._is_later(each.span)}
        # An end that leaves a producer its identity gives it to nobody.
        new = [each for each in history.ends if each.next_identity not in (None, each.identity)]
        given |= {each.next_identity for each in new if self._is_later(each.span)}
        twice = self._lost_identities.intersection(given)
        if twice:
            raise HistoryError(f"producers of the lost time have these too: {sorted(twice)}")
        for partition, epoch, end in self._ends:
            told = self._end_of_epoch(partition, epoch)
            if told > end:
                raise HistoryError(f"epoch {epoch} of {partition} ended at {end}, and consumers are told {told}")

    def _is_later(self, span: Span) -> bool:
        return span.is_ok and span.invoked_at > self._restored_at

    def _end_of_epoch(self, partition: Partition, epoch: int) -> int:
        wanted = OffsetForLeaderPartition(partition=partition[1], leader_epoch=epoch)
        topics = [OffsetForLeaderTopic(topic=partition[0], partitions=[wanted])]
        answer = self.broker.ask(OffsetForLeaderEpochRequest(replica_id=-1, topics=topics), 3)
        return int(answer.topics[0].partitions[0].end_offset)
