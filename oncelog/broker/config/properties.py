"""Java's properties syntax, the format of server.properties.

Owns: lines, comments, continuation, separators, escapes, as java.util.Properties reads them. Does not own: the meaning
of keys, the encoding of the file (UTF-8 here, Latin-1 to Java). Invariant: parsing returns pairs or raises a
PropertiesError that names the line, whatever the text.
"""

import re
from collections.abc import Iterator

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_BLANK = " \t\f"
_END_OF_LINE = re.compile(r"\r\n|\r|\n")
_HEXADECIMAL = re.compile(r"[0-9A-Fa-f]{4}")


class PropertiesError(Exception):
    """The text is not a properties file; the message names the line."""


def parse_properties(text: str) -> dict[str, str]:
    """Return the pairs in order; for a repeated key, the last."""
    pairs = {}
    for line_number, line in _logical_lines(text):
        end = _end_of_key(line)
        rest = line[end:].lstrip(_BLANK)
        if rest[:1] in ("=", ":"):
            rest = rest[1:].lstrip(_BLANK)
        pairs[_unescape(line[:end], line_number)] = _unescape(rest, line_number)
    return pairs


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines without comments and blanks, continued ones joined, each with the number where it starts."""
    pending, start, lone_backslash_at = "", 0, -1
    raws = _END_OF_LINE.split(text)
    for number, raw in enumerate(raws, 1):
        line = raw.lstrip(_BLANK)
        if not pending:  # also after a backslash alone, as in Java
            if not line or line[0] in "#!":
                continue
            start = number
        if (len(line) - len(line.rstrip("\\"))) % 2:
            pending += line[:-1]
            lone_backslash_at = -1 if pending else number
            continue
        yield start, pending + line
        pending = ""
    # At the end of the text a backslash alone is an empty key to Java, unless CR LF comes after it.
    has_empty_key = lone_backslash_at == len(raws) - (not raws[-1]) and not text.endswith("\r\n")
    if pending or has_empty_key:
        yield start, pending


def _end_of_key(line: str) -> int:
    position = 0
    while position < len(line):
        if line[position] == "\\":
            position += 1
        elif line[position] in "=: \t\f":
            break
        position += 1
    return min(position, len(line))


def _unescape(text: str, line_number: int) -> str:
    if "\\" not in text:
        return text
    parts = []
    position = 0
    while position < len(text):
        character = text[position]
        position += 1
        if character != "\\":
            parts.append(character)
            continue
        escaped = text[position : position + 1]
        position += 1
        if escaped == "u":
            digits = text[position : position + 4]
            if not _HEXADECIMAL.fullmatch(digits):
                raise PropertiesError(f"line {line_number}: \\u needs four hexadecimal digits")
            parts.append(chr(int(digits, 16)))
            position += 4
        else:
            parts.append(_ESCAPES.get(escaped, escaped))
    # Java's text is UTF-16: two escapes can be one character, and half of a pair is none.
    return "".join(parts).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
