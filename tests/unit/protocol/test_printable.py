"""What others chose is shown in one line, readable where it can be, and JSON keeps it exactly."""

import json

import pytest
from hypothesis import given

from oncelog.protocol.printable import json_text, printable
from tests.support.requests.hostile import HOSTILE, ORDINARY, SURROGATE, names, require_harmless


@given(names)
def test_any_text_becomes_one_printable_line(text: str) -> None:
    assert printable(text).isprintable()
    assert printable(text).encode().decode() == printable(text)


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_names_of_any_script_stay_as_they_are(text: str) -> None:
    assert printable(text) == text
    assert json.loads(json_text({"name": text}, is_ascii=False)) == {"name": text}
    assert text.replace('"', '\\"') in json_text({"name": text}, is_ascii=False)


def test_what_is_escaped_says_what_it_was() -> None:
    assert printable("a\x1b[2J\n\u202e\\") == "a\\x1b[2J\\n\\u202e\\\\"
    assert printable(SURROGATE) == "a\\ud800b\\udc9b"


@given(names)
def test_json_is_exact_and_harmless(text: str) -> None:
    for is_ascii in (True, False):
        for indent in (None, 2):
            shown = json_text([{"name": text}], indent=indent, is_ascii=is_ascii)
            assert json.loads(shown) == [{"name": text}]
            require_harmless(shown)


def test_all_of_the_table_is_escaped_but_what_only_rich_obeys() -> None:
    as_it_is = [what for what, text in HOSTILE.items() if printable(text) == text]
    assert as_it_is == ["colours of rich", "unbalanced markup of rich", "emoji code of rich", "backslashes"]
