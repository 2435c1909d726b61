"""Writes the tables of options in docs/clients/client-options.md from `oncelog/client/options/settings.py`, and the table of
errors in docs/clients/client-errors.md from `oncelog/client/values/errors.py`; a test compares.

    python tools/update_client_page.py

A table stands between `<!-- options of Producer -->` and `<!-- end of options -->`, or `<!-- errors -->` and
`<!-- end of errors -->`.
"""

import ast
import inspect
import re
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any

from oncelog.client import AdminSettings, ConsumerSettings, ProducerSettings, SessionSettings
from oncelog.client.values import errors
from oncelog.client.wire.security import SecuritySettings

_DOCS = Path(__file__).parent.parent / "docs" / "clients"
PAGES = (_DOCS / "clients/client-options.md", _DOCS / "clients/client-errors.md")
Kind = type[SecuritySettings]
_KINDS: dict[str, Kind] = {
    "Security": SecuritySettings,
    "Producer": ProducerSettings,
    "Consumer": ConsumerSettings,
    "TransactionalSession": SessionSettings,
    "Admin": AdminSettings,
}
_PLACE = re.compile(r"(<!-- options of (\w+) -->\n).*?(<!-- end of options -->)", re.DOTALL)
_ERRORS = re.compile(r"(<!-- errors -->\n).*?(<!-- end of errors -->)", re.DOTALL)


def _meanings(kind: type) -> dict[str, str]:
    """The string below each field of a class."""
    tree = ast.parse(Path(inspect.getfile(kind)).read_text(encoding="utf-8"))
    (found,) = (each for each in tree.body if isinstance(each, ast.ClassDef) and each.name == kind.__name__)
    meanings: dict[str, str] = {}
    for field, text in zip(found.body, found.body[1:], strict=False):
        if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
            continue
        if not isinstance(text, ast.Expr) or not isinstance(text.value, ast.Constant):
            raise TypeError(f"{kind.__name__}.{field.target.id} has no docstring")
        meanings[field.target.id] = " ".join(str(text.value.value).split())
    return meanings


def _default(field: Field[Any]) -> str:
    return "" if field.default is MISSING else f"`{field.default!r}`"


def table(kind: Kind) -> str:
    """The options that the class adds to those of every client, with their defaults and meanings."""
    meanings = _meanings(kind)
    lines = ["| option | default | |", "|---|---|---|"]
    lines += [
        f"| `{each.name}` | {_default(each)} | {meanings[each.name]} |"
        for each in fields(kind)
        if each.name in meanings
    ]
    return "\n".join(lines)


_KINDS_OF_ERRORS = (errors.RetriableError, errors.AbortableError, errors.FatalError, errors.ConfigError)


def table_of_errors() -> str:
    """Each class below one of the four kinds, with what it means and what to do."""
    lines = ["| error | is a | means | to do |", "|---|---|---|---|"]
    for kind in _KINDS_OF_ERRORS:
        for each in kind.__subclasses__():
            meaning = " ".join(str(each.__doc__).split("\n\n")[0].split())
            to_do = each.default_hint or "the message says"
            lines.append(f"| `{each.__name__}` | `{kind.__name__}` | {meaning} | {to_do} |")
    return "\n".join(lines)


def updated(page: str) -> str:
    """The page with its tables rewritten."""
    page = _PLACE.sub(lambda place: f"{place[1]}\n{table(_KINDS[place[2]])}\n\n{place[3]}", page)
    return _ERRORS.sub(lambda place: f"{place[1]}\n{table_of_errors()}\n\n{place[2]}", page)


if __name__ == "__main__":
    for path in PAGES:
        path.write_text(updated(path.read_text(encoding="utf-8")), encoding="utf-8")
