"""Writes the tables of options in docs/client-options.md from `client/settings.py`; a test compares.

    python tools/update_client_page.py

A table stands between `<!-- options of Producer -->` and `<!-- end of options -->`.
"""

import ast
import inspect
import re
from dataclasses import fields
from pathlib import Path

from oncelog.client import ConsumerSettings, ProducerSettings, settings

PAGE = Path(__file__).parent.parent / "docs" / "client-options.md"
_KINDS: dict[str, type[ProducerSettings] | type[ConsumerSettings]] = {
    "Producer": ProducerSettings,
    "Consumer": ConsumerSettings,
}
_PLACE = re.compile(r"(<!-- options of (\w+) -->\n).*?(<!-- end of options -->)", re.DOTALL)


def _meanings(kind: type) -> dict[str, str]:
    """The string below each field of a class."""
    tree = ast.parse(inspect.getsource(settings))
    (found,) = (each for each in tree.body if isinstance(each, ast.ClassDef) and each.name == kind.__name__)
    meanings: dict[str, str] = {}
    for field, text in zip(found.body, found.body[1:], strict=False):
        if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
            continue
        if not isinstance(text, ast.Expr) or not isinstance(text.value, ast.Constant):
            raise TypeError(f"{kind.__name__}.{field.target.id} has no docstring")
        meanings[field.target.id] = " ".join(str(text.value.value).split())
    return meanings


def table(kind: type[ProducerSettings] | type[ConsumerSettings]) -> str:
    """The options with their defaults and meanings."""
    meanings = _meanings(kind)
    lines = ["| option | default | |", "|---|---|---|"]
    lines += [f"| `{each.name}` | `{each.default!r}` | {meanings[each.name]} |" for each in fields(kind)]
    return "\n".join(lines)


def updated(page: str) -> str:
    """The page with its tables rewritten."""
    return _PLACE.sub(lambda place: f"{place[1]}\n{table(_KINDS[place[2]])}\n\n{place[3]}", page)


if __name__ == "__main__":
    PAGE.write_text(updated(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
