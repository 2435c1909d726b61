"""The machine's clocks and randomness as ports."""

import random
import time
from uuid import UUID, uuid4

from oncelog.broker.turns.ports import MonotonicMs, WallMs

_RANDOM = random.SystemRandom()
"""The system's randomness: with Python's own generator, a client that has seen enough ids of fetch sessions could
predict those of others."""


class SystemClock:
    # Called once per append: the call of a NewType would cost as much as the clock.

    def wall_ms(self) -> WallMs:
        # A clock before 1970 would give negative timestamps, which mean "none" in records.
        time_ms = time.time_ns() // 1_000_000
        return max(0, time_ms)  # type: ignore[return-value]

    def monotonic_ms(self) -> MonotonicMs:
        return time.monotonic_ns() // 1_000_000  # type: ignore[return-value]


class SystemEntropy:
    def uuid(self) -> UUID:
        # Kafka reserves the UUIDs whose text starts with "-" in base64 (they look like options on a command line).
        while (candidate := uuid4()).bytes[0] >> 2 == 62:
            pass
        return candidate

    def random(self) -> float:
        return _RANDOM.random()
