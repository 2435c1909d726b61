"""The tree of lowest numbers against looking at each."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from oncelog.broker.storage.minimum_tree import NONE, NOTHING_LOWER, MinimumTree


def drawn(seed: int, count: int) -> list[int]:
    return Random(seed).choices(range(51), k=count)


# The long ones by a seed: hypothesis takes its time to draw a thousand numbers one by one.
numbers = st.lists(st.integers(0, 50), max_size=200) | st.builds(drawn, st.integers(0), st.integers(1000, 1200))


@given(numbers, st.integers(0, 1200), st.integers(0, 1200), st.integers(-1, 52))
def test_finds_what_a_walk_would_find_however_it_was_built(
    values: list[int], given_count: int, start: int, bound: int
) -> None:
    tree = MinimumTree(values[:given_count])
    for value in values[given_count:]:
        tree.append(value)
    walked = [slot for slot in range(start, len(values)) if values[slot] < bound]
    assert tree.find_below(start, bound) == (walked[0] if walked else NONE)
    assert tree.lowest(start) == min(values[start:], default=NOTHING_LOWER)


@given(st.integers(0, 40_000))
def test_finds_the_only_low_one_among_many(place: int) -> None:
    tree = MinimumTree([7] * place + [1] + [7] * (40_000 - place))
    assert tree.find_below(0, 2) == place
    assert tree.find_below(place + 1, 2) == NONE
    assert tree.lowest(place) == 1
