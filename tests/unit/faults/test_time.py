"""Time that is moved on: as after a sleep, whatever timers wait."""

from hypothesis import given
from hypothesis import strategies as st

from oncelog.broker.faults.time import MovableTime
from tests.fakes.virtual_time import VirtualTime

Delays = st.lists(st.integers(0, 1_000), max_size=8)


@given(Delays, st.lists(st.tuples(st.booleans(), st.integers(0, 600)), max_size=8))
def test_each_timer_runs_once_not_before_its_time_and_in_its_order_however_time_passes(
    delays: list[int], passages: list[tuple[bool, int]]
) -> None:
    below = VirtualTime()
    time = MovableTime(below, below)
    ran: list[tuple[int, int]] = []
    for number, delay_ms in enumerate(delays):
        time.call_later(delay_ms, lambda due=(delay_ms, number): ran.append(due))  # type: ignore[misc]
    passed_ms = 0
    for is_moved, amount_ms in passages:
        if is_moved:
            time.advance(amount_ms)
        else:
            below.advance(amount_ms)
        passed_ms += amount_ms
        assert time.monotonic_ms() == passed_ms
        expected = sorted((delay_ms, number) for number, delay_ms in enumerate(delays) if delay_ms <= passed_ms)
        below.settle()
        assert ran == expected
    assert below.timer_count == len(delays) - len(ran)


@given(Delays, st.sets(st.integers(0, 7)))
def test_a_cancelled_timer_never_runs(delays: list[int], cancelled: set[int]) -> None:
    below = VirtualTime()
    time = MovableTime(below, below)
    ran: list[int] = []
    timers = [time.call_later(delay_ms, lambda n=number: ran.append(n)) for number, delay_ms in enumerate(delays)]  # type: ignore[misc]
    for number in cancelled & set(range(len(timers))):
        timers[number].cancel()
    time.advance(500)
    below.advance(500)
    assert set(ran) == set(range(len(timers))) - cancelled


def test_a_timer_may_cancel_another_that_is_due_and_set_one_that_is_not() -> None:
    below = VirtualTime()
    time = MovableTime(below, below)
    ran: list[str] = []

    def first() -> None:
        ran.append("first")
        second.cancel()
        time.call_later(10, lambda: ran.append("third"))

    time.call_later(1, first)
    second = time.call_later(2, lambda: ran.append("second"))
    time.advance(1_000)
    assert ran == ["first"]
    time.advance(10)
    assert ran == ["first", "third"]


def test_the_wall_clock_alone_can_be_set_and_advances_with_the_other() -> None:
    below = VirtualTime(1_000_000)
    time = MovableTime(below, below)
    time.jump_wall(-5_000)
    assert (time.wall_ms(), time.monotonic_ms()) == (995_000, 0)
    time.advance(100)
    below.advance(10)
    assert (time.wall_ms(), time.monotonic_ms()) == (995_110, 110)
