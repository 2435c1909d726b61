"""What a client may use in a time, as a bucket of tokens.

Owns: the arithmetic. Does not own: whose bucket it is, and what its tokens are. A bucket is given the time, and refuses
nothing by itself: what was used is taken, and `owed_ms` is the time until nothing is owed any more.

Apache Kafka measures most rates over a window of samples, and calls a client above its quota when the rate over at
least ten seconds is. A bucket that holds ten seconds' worth gives the same throttle times and the same long-run rate,
whatever the sizes.
"""

from oncelog.broker.turns.ports import MonotonicMs

_LONGEST_MS = 2**31 - 1
"""The longest throttle time that a response can carry; used when a rate is near zero."""


class TokenBucket:
    """A bucket whose tokens come back at a rate, up to a burst. More may be taken than there are."""

    __slots__ = ("_at_ms", "_tokens")

    def __init__(self, burst: float, monotonic_ms: MonotonicMs) -> None:
        self._tokens = burst
        self._at_ms = monotonic_ms

    def owed_ms(self, rate: float, burst: float, monotonic_ms: MonotonicMs) -> float:
        """Return the milliseconds until no token is owed, at most `_LONGEST_MS`; 0 if none is. `rate` is tokens per
        second, `burst` the most that the bucket holds; both may change between calls."""
        self._tokens = min(burst, self._tokens + (monotonic_ms - self._at_ms) * rate / 1_000)
        self._at_ms = monotonic_ms
        return min(max(0.0, -self._tokens / rate * 1_000), _LONGEST_MS)

    def take(self, count: float, rate: float, burst: float, monotonic_ms: MonotonicMs) -> None:
        """Take `count` tokens; a negative count gives them back."""
        self.owed_ms(rate, burst, monotonic_ms)
        self._tokens -= count

    def is_full(self, rate: float, burst: float, monotonic_ms: MonotonicMs) -> bool:
        self.owed_ms(rate, burst, monotonic_ms)
        return self._tokens >= burst
