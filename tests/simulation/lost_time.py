"""The time that is lost when the tables go back to an earlier state, and what is excused for it.

Owns: which answers are forgotten, and what must hold all the same: ids and epochs of the lost time are not given out
again, and consumers that have read further learn where their history ends. Does not own: when the tables go back, and
when a broker begins to lead that knows it (`restored_world`, `restored_pair_world`).
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from oncelog.protocol.generated.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.history.auditor import HistoryError
from tests.history.events import NEVER, End, Identity, Init, Outcome, Partition, Span
from tests.history.recorder import Recorder

Ask = Callable[[Any, int], Any]


class LostTime:
    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._looks: dict[int, int] = {}
        self._known_at = NEVER
        """When a broker began to lead that knows what was lost."""
        self._restored_at = 0
        self._lost_identities: set[Identity] = set()
        self._ends: list[tuple[Partition, int, int]] = []
        """A partition, the epoch in which it was led when the tables went back, and where it then ended."""
        self.lost_from: int | None = None
        """The time from which answers are lost, while the tables are back and no broker that knows it leads."""
        self.forgotten = 0

    def tick(self) -> int:
        """The time of a state of the tables."""
        tick = self._recorder.tick()
        self._looks[tick] = len(self._recorder.history.looks)
        return tick

    def begin(self, lost_from: int) -> None:
        """The tables have lost what happened from then on."""
        self.lost_from, self._restored_at = lost_from, self._recorder.tick()

    def end(self) -> None:
        """Excuse the operations that were invoked before the tables went back and answered in the time that is lost."""
        lost_from, history = self.lost_from, self._recorder.history
        assert lost_from is not None
        self.lost_from = None
        self._known_at = self._recorder.tick()

        def is_lost(span: Span) -> bool:
            return span.is_ok and lost_from <= span.completed_at and span.invoked_at < self._restored_at

        operations: list[list[Any]] = [
            history.inits, history.sends, history.send_offsets, history.ends, history.group_commits
        ]  # fmt: skip
        for each in operations:
            for place, operation in enumerate(each):
                if is_lost(operation.span):
                    self.forgotten += 1
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

    def note_end(self, partition: Partition, epoch: int, end_offset: int) -> None:
        """Record where what is left of the epoch's part of a partition ends."""
        self._ends.append((partition, epoch, end_offset))

    def judge(self, ask: Ask) -> None:
        history = self._recorder.history
        history.steps.clear()  # some of them are in no table any more
        given = {each.identity for each in history.inits if self._is_later(each.span)}
        # An end that leaves a producer its identity gives out no new one.
        new = [each for each in history.ends if each.next_identity not in (None, each.identity)]
        given |= {each.next_identity for each in new if self._is_later(each.span)}
        twice = self._lost_identities.intersection(given)
        if twice:
            raise HistoryError(f"producers of the lost time have these too: {sorted(twice)}")
        for partition, epoch, end in self._ends:
            told = _end_of_epoch(ask, partition, epoch)
            if told > end:
                raise HistoryError(f"epoch {epoch} of {partition} ended at {end}, and consumers are told {told}")

    def _is_later(self, span: Span) -> bool:
        return span.is_ok and span.completed_at > self._restored_at


def _end_of_epoch(ask: Ask, partition: Partition, epoch: int) -> int:
    wanted = OffsetForLeaderPartition(partition=partition[1], leader_epoch=epoch)
    topics = [OffsetForLeaderTopic(topic=partition[0], partitions=[wanted])]
    answer = ask(OffsetForLeaderEpochRequest(replica_id=-1, topics=topics), 3)
    return int(answer.topics[0].partitions[0].end_offset)
