"""A broker in virtual time that is stopped in every way: the stage of a world.

Owns: time, what happens when, kills, crashes, power cuts also in the midst of a start. Does not own: who asks the
broker, what must hold.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from itertools import count
from random import Random

from oncelog.testing.memory_disk import MemoryDisk, PowerCut
from tests.fakes.broker import VirtualBroker
from tests.fakes.virtual_time import VirtualTime

_STEP_MS = 25
Turn = tuple[int, int]
"""Milliseconds since the life began, and the order within one."""


class Stage:
    def __init__(self, seed: int, random: Random, settings: Sequence[str]) -> None:
        self.broker = VirtualBroker(*settings, seed=seed)
        self.counts: Counter[str] = Counter()
        self.now_ms = 0
        self.is_calm = False
        self.collect: Callable[[], None] = lambda: None
        """Takes the answers that are there."""
        self.on_stop: Callable[[str], None] = lambda _: None
        """Is given the kind of stop while the broker that stopped is still here."""
        self.on_start: Callable[[], None] = lambda: None
        self._seed = seed
        self._random = random
        self._settings = settings
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._order = count()

    def turn(self) -> Turn:
        return self.now_ms, next(self._order)

    def later(self, delay_ms: int, function: Callable[[], None]) -> None:
        heappush(self._events, (self.now_ms + delay_ms, next(self._order), function))

    def run_until(self, end_ms: int) -> None:
        while self._events and self._events[0][0] <= end_ms:
            at_ms, _, function = heappop(self._events)
            self._pass(at_ms)
            self._guarded(function)
            self.collect()
        self._pass(end_ms)

    def _pass(self, end_ms: int) -> None:
        """Small steps: an answer is seen when it is there, not when the next event is."""
        while self.now_ms < end_ms:
            step = min(end_ms - self.now_ms, _STEP_MS)
            self.now_ms += step
            self._guarded(lambda step_ms=step: self._step(step_ms))  # type: ignore[misc]
            self.collect()

    def _step(self, step_ms: int) -> None:
        self.broker.time.advance(step_ms)
        self.broker.broker.transactions.step()
        self.broker.broker.logs.step()
        shares = self.broker.broker.shares_when_needed.known
        if shares is not None:
            shares.step()

    # --- stops --------------------------------------------------------------------------------------------------------

    def trouble(self) -> None:
        """Stop the broker now and then, in various ways, until it is calm."""
        if self.is_calm:
            return
        self.later(self._random.choice([300, 1_000, 3_000]), self.trouble)
        kind = self._random.choice(["kill", "crash", "power cut", "clean", "none"])
        if kind == "power cut":
            self.broker.disk.operations_left = self._random.randint(0, 30)
        elif kind != "none":
            self.counts["stops"] += 1
            if kind == "clean":
                self.broker.broker.logs.close()
            disk = self.broker.disk
            self._restart(kind, disk.crash(self._seeded()) if kind == "crash" else disk.kill())

    def calm(self) -> None:
        self.is_calm = True
        self.broker.disk.operations_left = None

    def _guarded(self, function: Callable[[], None]) -> None:
        try:
            function()
        except PowerCut:
            self.counts["power_cuts"] += 1
            self._restart("power cut", self.broker.disk.crash(self._seeded()))

    def _restart(self, kind: str, disk: MemoryDisk) -> None:
        self.on_stop(kind)
        wall_ms = self.broker.time.wall_ms()
        while True:
            self._seed += 1
            if self._random.random() < 0.2:
                disk.operations_left = self._random.randint(0, 20)
            try:
                self.broker = VirtualBroker(*self._settings, disk=disk, time=VirtualTime(wall_ms), seed=self._seed)
                break
            except PowerCut:
                self.counts["power_cuts"] += 1
                disk = disk.crash(self._seeded())
        self.broker.disk.operations_left = None
        self.on_start()

    def _seeded(self) -> Random:
        return Random(self._random.randrange(2**30))
