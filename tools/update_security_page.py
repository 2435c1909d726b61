"""Rewrites the tables of docs/operate/security.md: rights, from the table that brokers use, and known bugs, from that
of tests.

    PYTHONPATH=. python tools/update_security_page.py

A test holds the page to it.
"""

from pathlib import Path

from oncelog.broker.handlers.rights.table import RIGHTS
from oncelog.protocol.api_keys import ApiKey
from tests.support.known_bugs import KNOWN_BUGS

_DOCS = Path(__file__).resolve().parent.parent / "docs"
PAGES = (_DOCS / "operate" / "security.md", _DOCS / "operate" / "rights.md")
RIGHTS_START = "<!-- from the code: python tools/update_security_page.py -->"
BUGS_START = "<!-- from the tests: python tools/update_security_page.py -->"
END = "<!-- to here -->"


def rights_table() -> str:
    lines = ["", "| key | API | operations, by resource |", "|--:|---|---|"]
    for key, rights in RIGHTS.items():
        by_resource: dict[str, list[str]] = {}
        for operation, resource in rights.all:
            by_resource.setdefault(resource.name, []).append(operation.name)
        needed = "; ".join(f"{resource}: {', '.join(names)}" for resource, names in by_resource.items())
        lines.append(f"| {int(key)} | {_name(key)} | {needed or f'none: {rights.free}'} |")
    return "\n".join([*lines, ""])


def bugs_table() -> str:
    lines = ["", "| bug | whose | our tests |", "|---|---|---|"]
    for bug in KNOWN_BUGS:
        files = ", ".join(
            f"`{name}`" for name in dict.fromkeys(f"tests/{each.partition('::')[0]}" for each in bug.tests)
        )
        lines.append(f"| {bug.what} | {', '.join(bug.names)} | {files} |")
    return "\n".join([*lines, ""])


def updated(page: str) -> str:
    for start, table in ((RIGHTS_START, rights_table()), (BUGS_START, bugs_table())):
        before, found, rest = page.partition(start)
        if not found:
            continue
        page = f"{before}{start}\n{table}{END}{rest.partition(END)[2]}"
    return page


def _name(key: ApiKey) -> str:
    return "".join(part.capitalize() for part in key.name.split("_"))


if __name__ == "__main__":
    for each in PAGES:
        each.write_text(updated(each.read_text(encoding="utf-8")), encoding="utf-8")
