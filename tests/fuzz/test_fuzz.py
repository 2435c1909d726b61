"""Seeds that are always played, quickly; with `-m fuzz` new bytes for a while, and a storm on the real daemon.

`make fuzz` searches longer, from a seed of its choice or yours.
"""

import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from tests.fuzz import broker_in_memory
from tests.fuzz.conversation import TooSlow
from tests.fuzz.costliest import TAKING_PATTERNS, climb
from tests.fuzz.search import GUARDED, Found, Tally, run, shorten
from tests.fuzz.storm import storm

pytestmark = pytest.mark.slow

_SECONDS_IN_MEMORY = 25
_SECONDS_OF_CLIMBING = 15
_SECONDS_ON_SOCKETS = 12


def told(found: Found) -> str:
    return f"seed {found.seed}: {found.what}\n{found.as_json()[:20_000]}"


@pytest.mark.parametrize("seed", range(8))
def test_no_bytes_of_a_known_seed_break_the_broker(seed: int) -> None:
    tally = Tally()
    found = run(seed, tally, 120)
    assert found is None, told(found)
    assert tally.answers > 30  # most of what was sent could be understood


@pytest.mark.parametrize("seed", range(4))
def test_no_bytes_of_clients_without_rights_have_an_effect_or_show_what_is_there(seed: int) -> None:
    tally = Tally()
    found = run(seed, tally, 120, GUARDED)
    assert found is None, told(found)
    assert tally.answers > 30


@pytest.mark.fuzz
def test_no_new_bytes_break_the_broker() -> None:
    seed = int(time.time())
    until = time.monotonic() + _SECONDS_IN_MEMORY
    while time.monotonic() < until:
        found = run(seed, Tally())
        assert found is None, told(found)
        seed += 1


@pytest.mark.parametrize("slow_turns", [1, 1_000_000])
def test_a_turn_is_too_slow_if_it_is_again_when_the_same_is_played(
    monkeypatch: pytest.MonkeyPatch, slow_turns: int
) -> None:
    left = slow_turns

    def measured(self: object, turn: Callable[[], None], size_bytes: int, what: str) -> None:
        nonlocal left
        turn()
        left -= 1
        if left >= 0:
            raise TooSlow(what)

    monkeypatch.setattr(broker_in_memory.Stage, "_measured", measured)
    assert (run(5, Tally(), 3) is not None) == (slow_turns > 1)


@pytest.mark.slow
def test_a_climb_comes_to_what_costs_more_and_the_same_seed_to_the_same() -> None:
    climb(7, frames=30)  # what is imported when it is first needed costs once
    first, again, longer = climb(7, frames=30), climb(7, frames=30), climb(7, frames=150)
    assert first.costliest is not None and again.costliest is not None and longer.costliest is not None
    assert first.costliest.frame == again.costliest.frame
    assert longer.costliest.calls_a_byte > first.costliest.calls_a_byte


_UNBOUNDED = {"config.pattern._MOST_INSTRUCTIONS": 1 << 40, "config.pattern._MOST_BYTES": 8 << 20}
_ON_THE_LOOP = {"config.pattern.AT_ONCE_STEPS": 1 << 60, "handlers.shared.matching.AT_ONCE_STEPS": 1 << 60}
_PATTERN_SEEDS, _PATTERN_FRAMES = 4, 200


def _problem(seeds: Iterable[int]) -> str:
    """Return the first problem that one of the seeds finds."""
    climbs = (climb(seed, frames=_PATTERN_FRAMES, apis=TAKING_PATTERNS) for seed in seeds)
    return next((each.problem for each in climbs if each.problem is not None), "")


@pytest.mark.interpreted  # replaces the bounds of a module
@pytest.mark.parametrize(
    ("planted", "found"),
    [
        (_UNBOUNDED, "steps of a pattern beside the loop"),
        (_ON_THE_LOOP, "steps of a pattern in one turn"),
    ],
    ids=["unbounded", "on the loop"],
)
def test_a_climb_finds_by_itself_a_pattern_that_costs_too_much(
    monkeypatch: pytest.MonkeyPatch, planted: dict[str, int], found: str
) -> None:
    """No pattern is listed for it: it puts them together (tests/fuzz/patterns.py)."""
    for name, value in planted.items():
        monkeypatch.setattr(f"oncelog.broker.{name}", value)
    assert found in _problem(reversed(range(_PATTERN_SEEDS)))  # the last finds them soonest


@pytest.mark.parametrize("seeds", [1, pytest.param(_PATTERN_SEEDS, marks=pytest.mark.slow)])
def test_no_pattern_of_a_known_seed_costs_too_much(seeds: int) -> None:
    assert _problem(range(seeds)) == ""


@pytest.mark.fuzz
def test_no_frame_that_a_climb_finds_is_over_the_budget() -> None:
    found = climb(int(time.time()), seconds=_SECONDS_OF_CLIMBING)
    assert found.problem is None, f"seed {found.seed}: {found.problem}"


@pytest.mark.fuzz
def test_the_daemon_weathers_a_storm_of_broken_clients(tmp_path: Path) -> None:
    storm(tmp_path, int(time.time()), _SECONDS_ON_SOCKETS)


def test_what_breaks_is_cut_down_to_the_actions_that_break_it() -> None:
    actions = [["pass", number] for number in range(100)]

    def breaks(fewer: list[list[object]]) -> bool:
        return ["pass", 17] in fewer and ["pass", 80] in fewer

    assert shorten(actions, breaks) == [["pass", 17], ["pass", 80]]


@pytest.mark.parametrize("seed", [pytest.param(3, marks=pytest.mark.slow), 4])
def test_a_seed_gives_the_same_run_again(seed: int) -> None:
    first, second = Tally(), Tally()
    run(seed, first, 100)
    run(seed, second, 100)
    assert (first.frames, first.answers) == (second.frames, second.answers)
