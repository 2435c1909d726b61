"""Who waits until the records of one partition are durable.

Owns: their order. Does not own: when records are durable (`rounds`), the high watermark (`partition_log`).
Invariant: a waiter is completed once everything below its offset is durable, and failed if the log is closed before.
"""

from bisect import insort
from collections import deque
from operator import itemgetter
from typing import Any, TypeVar

from oncelog.broker.turns.completion import Completion
from oncelog.protocol.errors import KafkaError

T = TypeVar("T")

_offset = itemgetter(0)


class DurabilityWaiters:
    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, Completion[Any], Any]] = deque()

    def add(self, completion: Completion[T], value: T, next_offset: int) -> None:
        """Complete `completion` with `value` once everything below `next_offset` is durable, unless it ends earlier."""
        waiting = self._waiting
        if waiting and waiting[-1][0] > next_offset:
            insort(waiting, (next_offset, completion, value), key=_offset)
        else:
            waiting.append((next_offset, completion, value))

    def complete(self, high_watermark: int) -> None:
        """Everything below `high_watermark` is durable."""
        waiting = self._waiting
        while waiting and waiting[0][0] <= high_watermark:
            _, completion, value = waiting.popleft()
            if not completion.done:
                completion.complete(value)

    def fail(self, error: KafkaError) -> None:
        """Nothing more becomes durable."""
        waiting, self._waiting = self._waiting, deque()
        for _, completion, _ in waiting:
            if not completion.done:
                completion.fail(error)
