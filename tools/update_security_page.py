"""Rewrites the table of rights in docs/security.md from the table that brokers use.

    python tools/update_security_page.py

A test holds the page to it.
"""

from pathlib import Path

from oncelog.broker.handlers.rights.table import RIGHTS
from oncelog.protocol.api_keys import ApiKey

PAGE = Path(__file__).resolve().parent.parent / "docs" / "security.md"
START, END = "<!-- from the code: python tools/update_security_page.py -->", "<!-- to here -->"


def generated() -> str:
    lines = ["", "| key | API | operations, by resource |", "|--:|---|---|"]
    for key, rights in RIGHTS.items():
        by_resource: dict[str, list[str]] = {}
        for operation, resource in rights.all:
            by_resource.setdefault(resource.name, []).append(operation.name)
        needed = "; ".join(f"{resource}: {', '.join(names)}" for resource, names in by_resource.items())
        lines.append(f"| {int(key)} | {_name(key)} | {needed or f'none: {rights.free}'} |")
    return "\n".join([*lines, ""])


def updated(page: str) -> str:
    before, _, rest = page.partition(START)
    return f"{before}{START}\n{generated()}{END}{rest.partition(END)[2]}"


def _name(key: ApiKey) -> str:
    return "".join(part.capitalize() for part in key.name.split("_"))


if __name__ == "__main__":
    PAGE.write_text(updated(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
