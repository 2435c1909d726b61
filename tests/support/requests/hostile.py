"""Harmful names that clients and foreign brokers may choose, and how to see the harm.

One table for every test of what is printed, logged or counted.
"""

import re

from hypothesis import strategies as st

HOSTILE = {
    "clears the screen": "a\x1b[2J\x1b[H",
    "C1 control sequence": "a\x9b31mb",
    "sets the title": "\x1b]0;owned\x07",
    "link to elsewhere": "\x1b]8;;http://elsewhere\x1b\\orders\x1b]8;;\x1b\\",
    "device control": "\x90q\x9c",
    "overwrites the line": "aborted\rcommitted",
    "erases what is before": "aborted\b\b\b\b\b\b\bcommitted",
    "row of its own": "orders\nid-2  0  7  CompleteCommit",
    "log line of its own": "orders\n2026-01-01T00:00:00Z [info     ] transaction.complete_commit",
    "tab": "a\tb",
    "vertical tab and form feed": "a\x0bb\x0cc",
    "NUL and DEL": "a\x00b\x7f",
    "next line": "a\x85b",
    "line separator": "a\u2028b\u2029c",
    "read from the right": "orders-\u202egnp.exe",
    "isolates": "\u2066\u2067a\u2069",
    "nothing to see": "or\u200bders\ufeff",
    "tag characters": "a\U000e0041\U000e007f",
    "private use": "\ue000\U0010ffff",
    "colours of rich": "[red]a[/red]",
    "unbalanced markup of rich": "a[/]b[bold",
    "emoji code of rich": ":skull:",
    "another metric": "a:1|c\nb:1|g#tag@0.1",
    "end of JSON": '"}\n{"event":"forged"}',
    "backslashes": "a\\x1b\\",
}
"""Hostile names that can come over the wire, which takes UTF-8."""
SURROGATE = "a\ud800b\udc9b"
ORDINARY = ("orders.eu-1", "zahlungen-für-größe", "注文", "заказы", "παραγγελίες", "🧾-1", "a b", "o'hara & söhne <x>")

_COLOUR = re.compile("\x1b\\[[0-9;]*m")
names = st.one_of(st.sampled_from([*HOSTILE.values(), *ORDINARY]), st.text(max_size=30))
"""Any names, with lone surrogates, too."""


def require_harmless(output: str, *, allows_colours: bool = False) -> None:
    """Raises AssertionError unless each line is printable, but for our own colours where those are allowed."""
    for line in (_COLOUR.sub("", output) if allows_colours else output).split("\n"):
        if not line.isprintable():
            raise AssertionError(f"this line is not printable: {line!r}")
