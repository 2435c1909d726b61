"""Escapes text from untrusted sources for display: it cannot steer a terminal, forge a line or hide characters.

Owns: which characters are escaped. Names, keys, values and messages come from clients and from other brokers, and may
contain anything.
Invariants
- The result is one line that str.isprintable calls printable: no control character of C0 or C1 (no ESC, CSI, OSC), no
  line or paragraph separator, no bidirectional override, nothing invisible but the space, no lone surrogate.
- Printable text, in any script, is returned as it is.
"""

import json
import re
from collections.abc import Sequence
from typing import Any

_NAMES_SHOWN = 5
_UNPRINTABLE = re.compile("[^\n -~]")


def printable(text: str) -> str:
    """Return `text` on one line; unprintable characters as in Python literals (\\x1b, \\u202e), and then backslashes
    doubled."""
    if text.isprintable():
        return text
    return "".join(map(_escaped, text))


def printable_names(names: Sequence[str]) -> str:
    """Return the first few of these names, printable and in quotes, and how many more there are."""
    more = len(names) - _NAMES_SHOWN
    text = ", ".join(f"'{printable(name)}'" for name in names[:_NAMES_SHOWN])
    return f"{text} and {more} more" if more > 0 else text


def _escaped(character: str) -> str:
    if character.isprintable() and character != "\\":
        return character
    return character.encode("unicode_escape").decode("ascii")


def json_text(value: Any, *, indent: int | None = None, is_ascii: bool = True, **settings: Any) -> str:
    """Return `value` as JSON, exactly, with every unprintable character as a JSON escape."""
    text = json.dumps(value, indent=indent, ensure_ascii=is_ascii, **settings)
    # JSON itself escapes neither DEL nor, when it may have more than ASCII, C1 and bidirectional overrides.
    return text if text.isprintable() else _UNPRINTABLE.sub(_json_escaped, text)


def _json_escaped(match: re.Match[str]) -> str:
    character = match[0]
    if character.isprintable():
        return character
    return "\\u007f" if character == "\x7f" else json.dumps(character)[1:-1]
