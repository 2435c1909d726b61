"""What `help(Producer)` says of the options: each with its type, default, unit and meaning.

Owns: the text. Does not own: names, types, defaults and meanings, which are the fields of the settings and the strings
below them; the pages of the documentation are made of the same. Invariant: nothing here is loaded, and no source read,
before someone looks at the documentation of a client (`option_values.Documentation`).
"""

import ast
import inspect
from contextlib import suppress
from dataclasses import MISSING, Field, fields
from itertools import pairwise
from textwrap import indent, wrap
from typing import Any, NamedTuple

_WIDTH = 92
"""The width of a meaning: `help` indents by a dozen columns."""
_SIZES = frozenset(("batch_size", "buffer_memory", "max_request_size"))
"""Options in bytes whose names do not say so."""


class Declaration(NamedTuple):
    """An option, as its source has it."""

    type: str
    meaning: str


def declarations(settings: type) -> dict[str, Declaration]:
    """The fields that a class of settings adds to its bases, with the string below each. Raises OSError without a
    source, and TypeError for a field without a string."""
    (found,) = ast.parse(inspect.getsource(settings)).body
    body = found.body if isinstance(found, ast.ClassDef) else []
    declared: dict[str, Declaration] = {}
    for field, text in pairwise(body):
        if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
            continue
        if not isinstance(text, ast.Expr) or not isinstance(text.value, ast.Constant):
            raise TypeError(f"{settings.__name__}.{field.target.id} has no docstring")
        meaning = " ".join(str(text.value.value).split())
        declared[field.target.id] = Declaration(ast.unparse(field.annotation), meaning)
    return declared


def unit_of(option: str) -> str:
    """The unit of a number, "" for a count and for what is no number."""
    if option.endswith("_ms"):
        return "milliseconds"
    return "bytes" if option.endswith("_bytes") or option in _SIZES else ""


def text_of(text: str | None, settings: type) -> str:
    """The text of a client with its options below: the client's own, then those of every client."""
    known: dict[str, Declaration] = {}
    for kind in settings.__mro__[:-1]:
        with suppress(OSError):  # an installation without sources: the names and the defaults are known all the same
            known |= declarations(kind)
    lines = (_line(each, known.get(each.name, Declaration("", ""))) for each in _own_first(settings))
    return "\n".join((inspect.cleandoc(text or ""), "", "Options, as keyword arguments:", "", *lines))


def _own_first(settings: type) -> list["Field[Any]"]:
    inherited = {each.name for base in settings.__bases__ if base is not object for each in fields(base)}
    return sorted(fields(settings), key=lambda each: each.name in inherited)


def _line(field: "Field[Any]", declared: Declaration) -> str:
    default, unit = field.default, unit_of(field.name)
    value = "" if default is MISSING else f" = {default:_}" if type(default) is int else f" = {default!r}"
    kind = f": {declared.type}" if declared.type else ""
    head = f"{field.name}{kind}{value}{f' ({unit})' if unit else ''}"
    return "\n".join((f"  {head}", indent("\n".join(wrap(declared.meaning, _WIDTH)), " " * 6)))
