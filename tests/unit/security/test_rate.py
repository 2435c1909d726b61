"""Buckets of tokens over virtual time."""

from hypothesis import given
from hypothesis import strategies as st

from oncelog.broker.security.rate import TokenBucket
from oncelog.broker.turns.ports import MonotonicMs


@given(st.integers(1, 100_000), st.lists(st.tuples(st.integers(0, 5_000), st.floats(0, 1e6)), max_size=100))
def test_a_client_that_waits_as_asked_never_gets_more_than_the_burst_and_the_rate(
    rate: int, uses: list[tuple[int, float]]
) -> None:
    burst, now_ms, used, latest = rate * 10, 0, 0.0, 0.0
    bucket = TokenBucket(burst, MonotonicMs(0))
    for gap_ms, latest in uses:
        now_ms += gap_ms
        assert used <= (burst + rate * now_ms / 1_000) * 1.000_001
        used += latest
        bucket.take(latest, rate, burst, MonotonicMs(now_ms))
        now_ms += int(bucket.owed_ms(rate, burst, MonotonicMs(now_ms))) + 1


@given(st.integers(1, 100_000), st.floats(0.01, 50))
def test_a_client_that_always_returns_in_time_gets_the_whole_rate(rate: int, share: float) -> None:
    burst, now_ms, used = rate * 10, 0, 0.0
    bucket = TokenBucket(burst, MonotonicMs(0))
    while now_ms < 20_000:
        used += rate * share
        bucket.take(rate * share, rate, burst, MonotonicMs(now_ms))
        now_ms += int(bucket.owed_ms(rate, burst, MonotonicMs(now_ms))) + 1
    assert used >= 0.85 * rate * now_ms / 1_000


def test_a_burst_after_silence_counts_over_ten_seconds_as_in_kafka() -> None:
    bucket = TokenBucket(1_000, MonotonicMs(0))
    bucket.take(1_000, 100, 1_000, MonotonicMs(50_000))
    assert bucket.owed_ms(100, 1_000, MonotonicMs(50_000)) == 0
    bucket.take(1_000, 100, 1_000, MonotonicMs(50_000))
    assert bucket.owed_ms(100, 1_000, MonotonicMs(50_000)) == 10_000


def test_more_tokens_are_taken_than_there_are_and_are_owed_then() -> None:
    bucket = TokenBucket(11.0, MonotonicMs(0))
    bucket.take(31, 2.0, 11.0, MonotonicMs(0))
    assert bucket.owed_ms(2.0, 11.0, MonotonicMs(0)) == 10_000
    assert bucket.owed_ms(2.0, 11.0, MonotonicMs(10_000)) == 0
    assert not bucket.is_full(2.0, 11.0, MonotonicMs(15_000))
    assert bucket.is_full(2.0, 11.0, MonotonicMs(15_500))
