"""Tables, and the blocks of docs/compare/performance.md that are written from measurements.

Owns: how a table is aligned, which page has the blocks. Does not own: what is in them.
"""

from collections.abc import Sequence
from pathlib import Path

from tools.markers import with_block

ROOT = Path(__file__).parent.parent
PAGE, IMAGES = ROOT / "docs" / "compare" / "performance.md", ROOT / "docs" / "images"


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
    page.write_text(with_block(page.read_text(encoding="utf-8"), command, text), encoding="utf-8")
