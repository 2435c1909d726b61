"""A real client of a world that copies one topic into another, exactly once: `TransactionalSession` itself.

Owns: the client's task on the world's network, and the judgement of what it has copied:
- I38: each record that is committed in the input is committed in the copy once, in order, whatever was lost and came
  again.
"""

from collections.abc import Callable
from random import Random
from typing import Any

from oncelog.protocol.generated.create_topics_request import CreatableTopic, CreateTopicsRequest
from tests.clients.session_copier import COPIES, SessionCopier
from tests.clients.simulated import INPUT, end_of, fetch, read
from tests.history.auditor import HistoryError
from tests.history.events import Partition
from tests.simulation.broker_wires import BOOTSTRAP, Serve, Wires

Ask = Callable[[Any, int], Any]


class Copying:
    def __init__(self, random: Random, serve: Serve, ask: Ask) -> None:
        self.wires = Wires(random, serve)
        self.copier = SessionCopier(random, BOOTSTRAP)
        self._task = self.wires.loop.create_task(self.copier.copies())
        ask(CreateTopicsRequest(topics=[CreatableTopic(name=COPIES[0], num_partitions=1, replication_factor=1)]), 5)

    def pass_time(self, delay_ms: int) -> None:
        self.wires.pass_time(delay_ms)
        if self._task.done() and not self._task.cancelled():
            raise HistoryError("the copier has ended") from self._task.exception()

    def calm(self) -> None:
        self.wires.is_calm = self.copier.hurries = True

    def stop(self) -> None:
        self._task.cancel()

    @property
    def has_stopped(self) -> bool:
        return self._task.done()

    def has_everything(self, ask: Ask) -> bool:
        return len(_committed(ask, COPIES)) >= len(_committed(ask, INPUT))

    def judge(self, ask: Ask) -> None:
        wanted, copies = _committed(ask, INPUT), _committed(ask, COPIES)
        if copies != wanted:
            missing = [each for each in wanted if each not in copies]
            more = [each for each in copies if copies.count(each) > 1 or each not in wanted]
            raise HistoryError(
                f"I38, a session copies each record once, in order: missing are {missing}, too many are {more}, of "
                f"{len(wanted)} in the input"
            )


def _committed(ask: Ask, partition: Partition) -> list[bytes]:
    """Return what a reader of committed records gets from the start."""
    found: list[bytes] = []
    offset, is_over = 0, False
    while not is_over:
        answer = ask(fetch(partition, offset), 11)
        found += [value for _, value in read(answer, offset)]
        is_over = end_of(answer, offset) == offset
        offset = end_of(answer, offset)
    return found
