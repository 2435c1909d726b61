"""Tables, and the blocks of docs/compare/performance.md that are written from measurements.

Owns: how a table is aligned, where a block begins and ends. Does not own: what is in it.
"""

from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE, IMAGES = ROOT / "docs" / "compare" / "performance.md", ROOT / "docs" / "images"
_END = "<!-- end -->\n"


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """A table that reads as text and as Markdown."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for number, row in enumerate(rows):
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        lines.append(f"| {' | '.join(cells)} |")
        if number == 0:
            rules = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
            lines.append(f"| {' | '.join(rules)} |")
    return "\n".join(lines)


def write_block(command: str, text: str, page: Path = PAGE) -> None:
    """Replace what `command` wrote last. Raises ValueError on a page without its markers."""
    begin = f"<!-- begin: {command} -->\n"
    before, found, rest = page.read_text(encoding="utf-8").partition(begin)
    _, ended, after = rest.partition(_END)
    if not found or not ended:
        raise ValueError(f"{page.name} has no block of {command}")
    page.write_text(f"{before}{begin}\n{text}\n{_END}{after}", encoding="utf-8")
