"""A part of what is exhaustive: `make test` tries a sample of rows and of examples, `make test-all` all of them.

For rows that cost far more than pytest's own work on a test; a table of cheap rows is in `tests/support/tables.py`.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

import pytest
from hypothesis import settings


def sample(items: Iterable[pytest.Item]) -> None:
    """Mark cases of each test that is marked `sampled(every)` as `slow`. The first stays, and then one in so many.

    If cases are a product, the sample has each value if `every` has no common factor with the length of any part.
    """
    seen: Counter[str] = Counter()
    for item in items:
        marker = item.get_closest_marker("sampled")
        if marker is not None:
            test = item.nodeid.partition("[")[0]
            if seen[test] % marker.args[0]:
                item.add_marker(pytest.mark.slow)
            seen[test] += 1


def lives(few: range, count: int) -> pytest.MarkDecorator:
    """Give a test `seeds`: a few in each run, all of `count` in `make test-all`."""
    every = pytest.param(range(count), marks=pytest.mark.slow)
    return pytest.mark.parametrize("seeds", [few, every], ids=["few", "all"])


def in_proportion(seeds: Sequence[int], count: int, **least: int) -> dict[str, int]:
    """Return what must have happened at least in these lives, by what must have in `count` of them."""
    return {name: max(1, number * len(seeds) // count) for name, number in least.items()}


def examples(count: int) -> int:
    """The `max_examples` of a property: `count` with a profile of 100 examples, in proportion with others."""
    return max(1, count * settings.default.max_examples // 100)
