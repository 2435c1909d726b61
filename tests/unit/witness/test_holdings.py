"""What a member of a share group holds, as the witness remembers it."""

from hypothesis import given
from hypothesis import strategies as st

from oncelog.broker.turns.ports import MonotonicMs
from oncelog.broker.witness.holdings import MOST_RANGES, Held, Holdings

_RANGES = st.tuples(st.integers(0, 30), st.integers(0, 10)).map(lambda each: (each[0], each[0] + each[1]))
_STEPS = st.lists(st.tuples(st.sampled_from(("hold", "take", "renew")), _RANGES), max_size=MOST_RANGES // 2)


@given(steps=_STEPS, looked_at=_RANGES)
def test_each_record_has_the_time_of_its_last_lock(
    steps: list[tuple[str, tuple[int, int]]], looked_at: tuple[int, int]
) -> None:
    """The times equal those in a table with one entry a record, however ranges overlap and are acknowledged in
    parts.
    """
    holdings = Holdings()
    until: dict[int, int] = {}
    for now_ms, (step, (first_offset, last_offset)) in enumerate(steps):
        offsets = range(first_offset, last_offset + 1)
        if step == "hold":
            holdings.hold(Held(first_offset, last_offset, 10, MonotonicMs(now_ms + 10)))
            until |= dict.fromkeys(offsets, now_ms + 10)
        elif step == "take":
            holdings.take(first_offset, last_offset)
            for offset in offsets:
                until.pop(offset, None)
        else:
            holdings.renew(first_offset, last_offset, 10, MonotonicMs(now_ms + 10))
            until |= {offset: now_ms + 10 for offset in offsets if offset in until}
    now_ms = 15
    late = {offset: at for offset, at in until.items() if looked_at[0] <= offset <= looked_at[1] and at < now_ms}
    found = holdings.overdue([looked_at], MonotonicMs(now_ms))
    assert (found is None) == (not late)
    if found is not None:
        assert found.until_ms == min(late.values())
        assert all(until[offset] == found.until_ms for offset in range(found.first_offset, found.last_offset + 1))


def test_the_oldest_ranges_make_way() -> None:
    """However many records a member takes, one at a time, the memory for them has a bound."""
    holdings = Holdings()
    for offset in range(3 * MOST_RANGES):
        holdings.hold(Held(offset, offset, 10, MonotonicMs(10)))
    assert len(holdings) == MOST_RANGES
    assert holdings.take(0, 2 * MOST_RANGES - 1) == []


def test_pieces_that_acknowledgements_leave_are_bounded_too() -> None:
    """Every second record of a range, acknowledged by itself, would leave half as many pieces as it has records."""
    holdings = Holdings()
    holdings.hold(Held(0, 999, 10, MonotonicMs(10)))
    for offset in range(1, 999, 2):
        holdings.take(offset, offset)
    assert len(holdings) <= MOST_RANGES
