"""A block of a page that a command writes: its marks, and its replacement.

<!-- begin: make pages, errors -->      the command, and what of it
...
<!-- end -->
"""

import re

_END = "<!-- end -->\n"
_BEGIN = re.compile(r"^<!-- begin: (.*) -->$", re.MULTILINE)


def with_block(page: str, command: str, text: str) -> str:
    """The page with the block of `command` replaced. Raises ValueError unless it has exactly one."""
    begin = f"<!-- begin: {command} -->\n"
    if page.count(begin) != 1:
        raise ValueError(f"the page has no block of {command}, or more than one")
    before, _, rest = page.partition(begin)
    _, ended, after = rest.partition(_END)
    if not ended:
        raise ValueError(f"the block of {command} has no end")
    return f"{before}{begin}\n{text}\n{_END}{after}"


def commands_of(page: str) -> list[str]:
    """Those that write a block of the page."""
    return _BEGIN.findall(page)
