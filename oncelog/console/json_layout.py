"""JSON on lines of its own: pure.

Owns: where a text that is an object or a list is broken, and how far a line is indented. The text itself stays as it
was written, digit by digit: a number is never read and written again.
"""

import json
import re
from itertools import pairwise

MOST_LINES = 200
"""The most lines of one value: a page has up to a hundred of them, and is rendered each second."""
_INDENT = "  "
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[][{},:]|[^][{},:"\s]+')


def lines_of(text: str) -> tuple[str, ...]:
    """Return the text as `json.dumps` with an indent would have it; no line if it is no JSON object or list."""
    if not text.lstrip().startswith(("{", "[")):
        return ()
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return ()
    lines, line, depth = [], "", 0
    for token, following in pairwise([*_TOKEN.findall(text), ""]):
        if token in ("}", "]"):
            depth -= 1
            if not line.endswith(("{", "[")):  # else it is empty, and stays on its line
                lines.append(line)
                line = _INDENT * depth
        line += ": " if token == ":" else token
        if token in ("{", "["):
            depth += 1
        if token == "," or (token in ("{", "[") and following not in ("}", "]")):
            lines.append(line)
            line = _INDENT * depth
    return *lines, line
