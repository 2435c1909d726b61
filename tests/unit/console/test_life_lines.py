"""Ages of transactions, and the order of their list."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from oncelog.client.admin.descriptions import ListedTransaction, TransactionDescription
from oncelog.console import life_lines
from oncelog.console.life_lines import LINE_UNITS, life_line
from oncelog.protocol.transaction_states import NO_TIMEOUT_MS, STATE_NAMES
from oncelog.tools.txn.tail import Transition

NOW_MS = 1_000_000
OPEN = TransactionDescription("till", "Ongoing", 7, 3, 60_000, NOW_MS - 15_000, ())
STEP = Transition(0, "till", 7, 3, None, "Ongoing", (), None)


def test_the_line_is_the_part_of_its_timeout_that_has_passed() -> None:
    line = life_line(OPEN, NOW_MS)
    assert (line.age_ms, line.units, line.urgency) == (15_000, LINE_UNITS // 4, "fresh")
    assert life_line(OPEN, NOW_MS + 20_000).urgency == "late"
    overdue = life_line(OPEN, NOW_MS + 10**9)
    assert (overdue.units, overdue.urgency) == (LINE_UNITS, "overdue")


@given(st.integers(-(2**62), 2**62), st.integers(-(2**31), 2**31 - 1), st.sampled_from(STATE_NAMES))
def test_a_line_stays_on_its_rail_whatever_a_coordinator_says(start_ms: int, timeout_ms: int, state: str) -> None:
    line = life_line(replace(OPEN, start_time_ms=start_ms, timeout_ms=timeout_ms, state=state), NOW_MS)
    assert 0 <= line.units <= LINE_UNITS and (line.age_ms is None or line.age_ms >= 0)


def test_no_timeout_applies_to_what_is_decided() -> None:
    line = life_line(replace(OPEN, state="PrepareCommit"), NOW_MS + 10**9)
    assert (line.age_ms, line.units, line.urgency) == (10**9 + 15_000, 0, "decided")


def test_a_two_phase_commit_has_no_line_to_a_timeout() -> None:
    line = life_line(replace(OPEN, timeout_ms=NO_TIMEOUT_MS), NOW_MS)
    assert (line.age_ms, line.units, line.urgency) == (15_000, 0, "endless")


def test_only_what_readers_may_wait_for_has_an_age() -> None:
    ages = {state: life_line(replace(OPEN, state=state), NOW_MS).age_ms for state in STATE_NAMES}
    assert [state for state, age in ages.items() if age is not None] == [
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "PrepareEpochFence",
    ]
    assert life_line(replace(OPEN, start_time_ms=-1), NOW_MS).age_ms is None


def test_the_oldest_comes_first_and_what_has_no_age_last() -> None:
    begun = {"young": NOW_MS - 1, "ahead of our clock": NOW_MS + 50, "old": NOW_MS - 900, "not begun": -1}
    lines = [life_line(replace(OPEN, transactional_id=name, start_time_ms=at), NOW_MS) for name, at in begun.items()]
    found = [each.transaction.transactional_id for each in life_lines.oldest_first(lines)]
    assert found == ["old", "young", "ahead of our clock", "not begun"]


def test_a_list_has_what_is_open_first_and_only_what_was_asked_for() -> None:
    states = {"b-1": "CompleteCommit", "b-2": "Ongoing", "a-1": "Empty", "a-2": "PrepareCommit", "c": "Ongoing"}
    listed = [ListedTransaction(name, 1, 7, state) for name, state in states.items()]
    assert [each.transactional_id for each in life_lines.matching(listed, "", "")] == ["b-2", "c", "a-2", "a-1", "b-1"]
    assert [each.transactional_id for each in life_lines.matching(listed, "b-", "Ongoing")] == ["b-2"]
    counts = life_lines.count_by_state(listed)
    assert list(counts.items()) == [("Ongoing", 2), ("PrepareCommit", 1), ("CompleteCommit", 1), ("Empty", 1)]
    assert (life_lines.count_of("open", counts), life_lines.count_of("decided", counts)) == (2, 1)


def test_steps_of_several_logs_are_the_newest_first_and_those_of_one_millisecond_in_their_order() -> None:
    steps = [replace(STEP, time_ms=time_ms, state=state) for time_ms, state in ((5, "a"), (9, "b"), (9, "c"), (1, "d"))]
    assert [each.state for each in life_lines.newest_first(steps, 3)] == ["c", "b", "a"]
