"""A part of what is exhaustive: `make test` tries a sample of rows and of examples, `make test-all` all of them.

For rows that cost far more than pytest's own work on a test; a table of cheap rows is in `tests/support/tables.py`.
"""

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import settings


def sampled(table: Iterable[Any], every: int) -> list[Any]:
    """The rows, for `pytest.mark.parametrize`; all but one in so many are `slow`.

    Of a product (`itertools.product`), the sample has each value if `every` has no common factor with any length.
    """
    rows = (row if isinstance(row, tuple) else (row,) for row in table)
    return [pytest.param(*row, marks=[pytest.mark.slow] if at % every else []) for at, row in enumerate(rows)]


def examples(count: int) -> int:
    """Of a property, for `max_examples`: so many in `make test-all`, the share of the profile's otherwise."""
    return max(1, count * settings.default.max_examples // 100)
