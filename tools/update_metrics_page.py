"""Writes the table of docs/operate/metrics.md.

    PYTHONPATH=. python tools/update_metrics_page.py

A test holds the page to this.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from oncelog.broker.observability.catalogue import ALL, COUNTER, PREFIX, Family

PAGE = Path(__file__).resolve().parent.parent / "docs" / "operate" / "metrics.md"
_TABLE = re.compile(r"(?<=<!-- from the code: python tools/update_metrics_page.py -->\n).*?(?=<!-- end -->)", re.DOTALL)


def updated(page: str) -> str:
    """The page as it should be."""
    return _TABLE.sub(lambda _: "".join(_rows()), page)


def _rows() -> Iterator[str]:
    yield "\n| metric | kind | what it is | Kafka's |\n|---|---|---|---|\n"
    for family in ALL:
        jmx = f"`{family.jmx}`" if family.jmx else ""
        yield f"| `{shown(family)}` | {family.kind} | {family.text} | {jmx} |\n"
    yield "\n"


def shown(family: Family) -> str:
    """As Prometheus has it, with its labels."""
    name = f"{PREFIX}_{family.name}{'_total' if family.kind == COUNTER else ''}"
    return f"{name}{{{', '.join(family.labels)}}}" if family.labels else name


def main() -> None:
    PAGE.write_text(updated(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
