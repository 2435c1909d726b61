"""Java's properties syntax, the format of server.properties.

Owns: lines, comments, continuation, separators, escapes, as java.util.Properties reads them. Does not own: the meaning
of keys. Invariant: parsing returns pairs or raises a PropertiesError that names the line, whatever the text.
"""

from collections.abc import Iterator

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_BLANK = " \t\f"


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
    pending, start = "", 0
    for number, raw in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), 1):
        line = raw.lstrip(_BLANK)
        if not pending:
            if not line or line[0] in "#!":
                continue
            start = number
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            pending += line[:-1]
            continue
        yield start, pending + line
        pending = ""
    if pending:
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
            try:
                parts.append(chr(int(digits, 16) if len(digits) == 4 and digits.isalnum() else int("")))
            except ValueError:
                raise PropertiesError(f"line {line_number}: \\u needs four hexadecimal digits") from None
            position += 4
        else:
            parts.append(_ESCAPES.get(escaped, escaped))
    return "".join(parts)
