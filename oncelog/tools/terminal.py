"""All printing of the oncelog commands.

Owns: lines, tables, JSON, colours, the exit with a message. Invariant: text stays on its line and is never interpreted
by the terminal (`protocol.printable`); colours come from `Styled` alone.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import click

from oncelog.protocol.printable import json_text, printable

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Styled:
    """A piece of a line in a colour of click's."""

    text: str
    colour: str | None = None
    is_bold: bool = False


def say(*parts: str | Styled, err: bool = False) -> None:
    """One line, on standard output unless `err`."""
    click.echo("".join(map(_escape, parts)), err=err)


def _escape(part: str | Styled) -> str:
    if isinstance(part, str):
        return printable(part)
    return click.style(printable(part.text), fg=part.colour, bold=part.is_bold)


def say_json(value: Any, indent: int | None = 2) -> None:
    click.echo(json_text(value, indent=indent))


def say_progress(text: str) -> None:
    """Replace the previous progress line, on a terminal; prints no newline."""
    click.echo(f"\r\x1b[K{printable(text)}", nl=False, err=True)


def fail(message: str, exit_code: int) -> NoReturn:
    say(f"oncelog: {message}", err=True)
    sys.exit(exit_code)


def say_table(rows: Sequence[Row]) -> None:
    """Rows with the same names, and a heading."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in rows[0]:
        is_number = isinstance(rows[0][name], int)
        table.add_column(name, justify="right" if is_number else "left", no_wrap=True)
    for row in rows:
        table.add_row(*map(text_of, row.values()))
    # A pipe gets whole lines: a truncated name cannot be copied or searched for.
    width = None if sys.stdout.isatty() else 1_000
    Console(width=width, highlight=False, markup=False, emoji=False).print(table)


def say_pairs(row: Row) -> None:
    """One name and value per line."""
    width = max(map(len, row))
    for name, value in row.items():
        say(f"{name:<{width}}  {text_of(value)}")


def text_of(value: Any) -> str:
    """A value in a cell. List separators inside a value are escaped."""
    if value is None:
        return "-"
    if isinstance(value, list):
        return ", ".join(map(printable, value)) or "-"
    return printable(str(value))


def marked(text: str) -> str:
    """Escape text for a piece of rich markup."""
    from rich.markup import escape

    return escape(printable(text))
