"""Patterns of clients: whoever may send one may not keep the broker from others with it."""

from collections.abc import Callable
from typing import Any

import pytest

from oncelog.broker.coordinator.group.consumer.regex import compile_regex, matching_names
from oncelog.broker.pattern import LONGEST_PATTERN, compiled_pattern
from oncelog.protocol.errors import ErrorCode, KafkaError

COMPILERS = pytest.mark.parametrize("compiled", [compiled_pattern, compile_regex], ids=lambda each: each.__name__)
_ALTERNATIVES = "|".join(f".*{'abc'[number % 3]}.{{8}}{'cab'[number % 3]}.*" for number in range(900))


@COMPILERS
@pytest.mark.parametrize(
    "pattern",
    [".*a" * 3_000, "(.*a.{100}b){5}", _ALTERNATIVES, "(a?){1000}" * 10, "a" * (LONGEST_PATTERN + 1)],
    ids=lambda pattern: pattern[:20],
)
def test_a_pattern_that_can_be_in_thousands_of_states_at_once_is_refused(
    compiled: Callable[[str], Any], pattern: str
) -> None:
    """Some took 50 ms for one name, and a group has an expression for each of its members."""
    with pytest.raises(KafkaError) as refused:
        compiled(pattern)
    assert refused.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION


@COMPILERS
@pytest.mark.parametrize(
    "pattern",
    [
        r"(prod|stage)\.(eu|us|ap)-(west|east)-[1-3]\..*",
        r"(?i)[\p{L}\p{N}_.-]+",
        r"orders-[a-z0-9._-]{1,249}",
        "|".join(f"topic-{number}" for number in range(900)),
    ],
)
def test_patterns_that_people_write_are_taken(compiled: Callable[[str], Any], pattern: str) -> None:
    assert compiled(pattern) is not None


def test_an_expression_names_all_that_it_matches() -> None:
    expression = "|".join(f"topic-{number}" for number in range(900))
    assert matching_names(expression, ("topic-1", "topic-900", "topic-899")) == {"topic-1", "topic-899"}
