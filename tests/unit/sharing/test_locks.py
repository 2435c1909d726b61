"""When locks expire: the earliest time of all that are there, however many were taken and given back."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from oncelog.broker.sharing.locks import Locks
from oncelog.broker.turns.ports import MonotonicMs


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 3), st.booleans()), max_size=200))
def test_the_next_expiry_is_the_earliest_lock(history: list[tuple[int, int, bool]]) -> None:
    locks, model = Locks(), Counter[int]()
    for time, count, is_added in history:
        until_ms = MonotonicMs(time)
        if is_added:
            locks.add(until_ms, count)
            model[time] += count
        elif model[time] >= count:
            locks.remove(until_ms, count)
            model[time] -= count
        assert locks.next_expiry_ms() == min((+model).keys(), default=None)


def test_released_locks_do_not_pile_up() -> None:
    """A lock that is renewed for ever keeps the times behind it from no sweep."""
    locks = Locks()
    locks.add(MonotonicMs(0), 1)
    for time in range(1, 100_000):
        locks.add(MonotonicMs(time), 1)
        locks.remove(MonotonicMs(time), 1)
    assert locks.next_expiry_ms() == 0
    assert len(locks._times) < 100
