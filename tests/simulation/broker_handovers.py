"""Partitions of the coordinators are lost and gained while the broker runs, as when their leader changes for a while.

Owns: which, when, and for how long. The next request that arrives starts the turns after which a partition goes, so
that it goes at any step of what that request asked for. In between no node leads it: its log stays as it is.
"""

from random import Random
from typing import Any

from oncelog.broker.coordinator.runtime import CoordinatorRuntime
from tests.fakes.broker import VirtualBroker
from tests.simulation.broker_states import COORDINATOR_PARTITIONS

_MAX_TURNS = 12


class Handovers:
    def __init__(self, random: Random) -> None:
        self._random = random
        self._is_due = False
        self._away: set[tuple[str, int]] = set()
        self.count = 0

    def come_due(self) -> None:
        self._is_due = True

    def on_request(self, broker: VirtualBroker) -> None:
        if self._is_due:
            self._is_due = False
            parts = broker.broker
            runtime = self._random.choice([parts.transactions._runtime, parts.groups._runtime])
            partition = self._random.randrange(COORDINATOR_PARTITIONS)
            self._lose_in(self._random.randrange(_MAX_TURNS), broker, runtime, partition)

    def on_restart(self) -> None:
        """A start gains everything."""
        self._is_due = False
        self._away.clear()

    def _lose_in(self, turns: int, broker: VirtualBroker, runtime: CoordinatorRuntime[Any], partition: int) -> None:
        if turns:
            broker.time.call_soon(lambda: self._lose_in(turns - 1, broker, runtime, partition))
        elif (runtime.topic, partition) not in self._away:
            self.count += 1
            self._away.add((runtime.topic, partition))
            runtime.lose(partition)
            broker.time.call_later(self._random.choice([0, 1, 20, 300, 1_500]), lambda: self._gain(runtime, partition))

    def _gain(self, runtime: CoordinatorRuntime[Any], partition: int) -> None:
        self._away.discard((runtime.topic, partition))
        epoch = runtime._epoch_of(runtime.topic, partition)
        if epoch is not None:
            runtime.gain(partition, epoch)
