"""server.properties is read as java.util.Properties reads it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.broker.config.properties import PropertiesError, parse_properties


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("a=1\n", {"a": "1"}),
        ("a = 1", {"a": "1"}),
        ("a: 1", {"a": "1"}),
        ("a 1", {"a": "1"}),
        ("  a\t=\t1", {"a": "1"}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("a=b=c", {"a": "b=c"}),
        ("# no\n! no\n\n   # no\na=1", {"a": "1"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=x\\\n   y\\\n  z", {"a": "xyz"}),
        ("a=x\\\\\nb=1", {"a": "x\\", "b": "1"}),
        ("a=1\\\n# part of the value", {"a": "1# part of the value"}),
        ("a\\=b\\:c\\ d=1", {"a=b:c d": "1"}),
        ("a=\\t\\n\\u00e9\\q", {"a": "\t\né" + "q"}),
        ("a=1\\", {"a": "1"}),
    ],
)
def test_a_line_means_what_it_means_to_java(text: str, pairs: dict[str, str]) -> None:
    assert parse_properties(text) == pairs


def test_a_broken_escape_names_its_line() -> None:
    with pytest.raises(PropertiesError, match="line 3"):
        parse_properties("a=1\n\nb=\\u12")


@given(st.text())
def test_any_text_ends_in_pairs_or_in_the_one_error(text: str) -> None:
    try:
        pairs = parse_properties(text)
    except PropertiesError:
        return
    assert all(isinstance(key, str) and isinstance(value, str) for key, value in pairs.items())


def _written(text: str) -> str:
    return "".join(f"\\u{ord(character):04x}" for character in text)


_TEXT = st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"]))


@given(st.dictionaries(_TEXT, _TEXT))
def test_what_is_written_with_escapes_is_read_back(pairs: dict[str, str]) -> None:
    text = "".join(f"{_written(key)}={_written(value)}\n" for key, value in pairs.items())
    assert parse_properties(text) == pairs
