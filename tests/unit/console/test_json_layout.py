"""JSON on lines: what is laid out, and that the text stays the one that was written."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.console.json_layout import MOST_LINES, lines_of
from oncelog.console.messages import shown

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(st.lists(_VALUES, max_size=4) | st.dictionaries(st.text(), _VALUES, max_size=4), st.booleans())
def test_it_is_laid_out_as_python_does_whatever_spaces_it_was_written_with(value: object, is_tight: bool) -> None:
    """Any object or list, on the lines that `json.dumps` would give it."""
    text = json.dumps(value, separators=(",", ":") if is_tight else (" , ", " : "))
    assert "\n".join(lines_of(text)) == json.dumps(value, indent=2)


def test_digits_and_repeated_names_stay_as_they_were_written() -> None:
    """Reading and writing JSON would change trailing zeros, exponents, large numbers, and a name that is there
    twice.
    """
    assert lines_of('{"cents": 12.50, "n": 1E5, "id": 12345678901234567890123, "n": 2}') == (
        "{",
        '  "cents": 12.50,',
        '  "n": 1E5,',
        '  "id": 12345678901234567890123,',
        '  "n": 2',
        "}",
    )


@pytest.mark.parametrize("text", ["", "12", '"text"', "{", '{"a": 1', "[1] and more", "{a}", "[" * 8_000])
def test_what_is_no_object_or_list_is_not_laid_out(text: str) -> None:
    """Plain text, broken JSON, and what is nested too deep to be read."""
    assert lines_of(text) == ()


def test_a_value_with_too_many_lines_is_shown_on_one() -> None:
    """A page of a hundred such values would be too long to render each second."""
    few, many = ([1] * (MOST_LINES - 2), [1] * MOST_LINES)
    assert len(shown(json.dumps(few).encode()).lines) == MOST_LINES
    assert shown(json.dumps(many).encode()).lines == ()
