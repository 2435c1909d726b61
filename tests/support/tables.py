"""A table whose rows are walked by one test: each row is checked, and each that fails is named.

For rows that cost less than pytest needs to collect, set up and report a test of their own (some 4 ms on four workers).
A test that needs another fixture for each row, or whose rows take long, is parametrised.
"""

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

import pytest

Name = Callable[[Any], str]
SHOWN = 10


def rows(names: str, table: Iterable[Any], name: Name = str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Calls a test for each row, like `pytest.mark.parametrize` but as one test; `name` makes a row's name."""
    parameters = [each.strip() for each in names.split(",")]
    given = list(table)
    if not given:
        raise ValueError(f"no rows for {names}")

    def decorate(check: Callable[..., None]) -> Callable[..., None]:
        @wraps(check)
        def walk(*args: Any, **fixtures: Any) -> None:
            failures, failed = [], []
            for row in given:
                values = row if len(parameters) > 1 else (row,)
                try:
                    check(*args, **fixtures, **dict(zip(parameters, values, strict=True)))
                except (Exception, pytest.fail.Exception) as error:
                    failures.append(error)
                    failed.append(name(row))
            if failures:
                message = f"{len(failed)} of {len(given)} rows fail: {'; '.join(failed[:SHOWN])}"
                raise BaseExceptionGroup(message, failures[:SHOWN])

        signature = inspect.signature(check)
        own = [each for key, each in signature.parameters.items() if key not in parameters]
        walk.__signature__ = signature.replace(parameters=own)  # type: ignore[attr-defined]
        return walk

    return decorate
