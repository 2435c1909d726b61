"""The id of a node as text: a number exactly where Java's Integer.parseInt finds one, at no cost for long texts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.broker.config.node_id import check_node_id, parse_int32
from oncelog.protocol.errors import KafkaError


@given(st.integers(-(2**31), 2**31 - 1), st.sampled_from(["", "0", "0" * 6_000]))
def test_every_int32_is_read_back_with_or_without_zeros_before_it(number: int, zeros: str) -> None:
    sign = "-" if number < 0 else ""
    assert parse_int32(f"{sign}{zeros}{abs(number)}") == number
    if number >= 0:
        assert parse_int32(f"+{zeros}{number}") == number


@pytest.mark.parametrize(
    "text",
    ["", "+", "-", "+-1", "-+1", "--1", " 1", "1 ", "1_0", "0x1", "1.0", "2147483648", "-2147483649", "9" * 5_000]
    + ["\u00b2", "\U0001d7cf"],
)
def test_what_java_does_not_read_is_no_number(text: str) -> None:
    assert parse_int32(text) is None


@given(st.text())
def test_any_text_is_this_node_or_refused(text: str) -> None:
    try:
        check_node_id(text, 1, not_a_number="no number: {name}", another="not {node_id}: {name}")
    except KafkaError as error:
        assert text[:100] in str(error)
    else:
        assert int(text) == 1
