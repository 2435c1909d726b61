"""All printing of the oncelog commands.

Owns: lines, tables, JSON, colours, the exit with a message, also that of a signal, the question before something is
destroyed. Invariant: text stays on its line and is never interpreted by the terminal (`protocol.printable`); colours
come from `Styled` alone.
"""

import signal
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any, NoReturn

import click

from oncelog.protocol.amounts import duration_text, size_text
from oncelog.protocol.printable import json_text, printable

Row = dict[str, Any]
EXIT_NOT_WRITTEN = EXIT_NOT_CONFIRMED = 2
_LINES_AT_ONCE = 1_000
_LEAST_PROSE = 30
"""The least columns of a terminal for sentences; with less they begin on a line of their own."""
_LEAST_CELL, _LEAST_HEADING = 12, 7
"""The least widths of cells and headings: enough to distinguish one name from the next, and to know the column."""
_SHORT_HEADINGS = {
    "committed_offset": "committed",
    "coordinator_epoch": "c_epoch",
    "end_offset": "end",
    "last_sequence": "sequence",
    "last_stable_offset": "LSO",
    "new_offset": "new",
    "new_start_offset": "new_start",
    "partition": "part",
    "partitions": "parts",
    "producer_epoch": "epoch",
    "producer_id": "producer",
    "start_offset": "start",
    "transaction_start_offset": "open_since",
}
"""Headings wider than most of their cells, and the words for them where a terminal has no room."""


@dataclass(frozen=True, slots=True)
class Styled:
    """A piece of a line in a colour of click's."""

    text: str
    colour: str | None = None
    is_bold: bool = False


@contextmanager
def writing() -> Iterator[None]:
    """Guard everything that writes to standard output: the command ends if it cannot be written, as on a full disk, and
    that is not taken for another error."""
    try:
        yield
    except BrokenPipeError:  # the reader has seen enough: no error
        raise
    except OSError as error:
        sys.stdout = None  # Python would try again at its end
        fail(f"standard output cannot be written: {error.strerror or error}", EXIT_NOT_WRITTEN)


def say(*parts: str | Styled, err: bool = False) -> None:
    """Print one line, on standard output unless `err`."""
    text = "".join(map(_escape, parts))
    if err:
        with suppress(OSError):  # a message that cannot be seen changes nothing
            click.echo(text, err=True)
    else:
        _write(text)


def _write(text: str | bytes, *, ends_line: bool = True) -> None:
    with writing():
        click.echo(text, nl=ends_line)


def say_row(*parts: str | Styled) -> None:
    """Print one line, which on a terminal ends at its edge."""
    room = _edge()
    shown: list[str | Styled] = []
    for part in parts:
        given = part if isinstance(part, Styled) else Styled(part)
        whole = printable(given.text)
        text = _cut(whole, room)
        shown.append(Styled(text, given.colour, given.is_bold) if isinstance(part, Styled) else text)
        if room is not None:
            room -= cell_width(text)
            if text != whole or not room:
                break
    say(*shown)


def _escape(part: str | Styled) -> str:
    if isinstance(part, str):
        return printable(part)
    return click.style(printable(part.text), fg=part.colour, bold=part.is_bold)


def say_json(value: Any, indent: int | None = 2) -> None:
    _write(json_text(value, indent=indent))


def say_json_lines(values: Iterable[Any]) -> None:
    """Print a line of JSON for each value, many at once, in UTF-8 whatever the locale is."""
    left = iter(values)
    while lines := [json_text(value, is_ascii=False) for value in islice(left, _LINES_AT_ONCE)]:
        _write("\n".join(lines).encode())


def say_bytes(pieces: Iterable[tuple[bytes, bool]]) -> None:
    """Print pieces of a format (False) and data that came from clients (True): to a pipe as they are, to the byte; on a
    terminal data is text of one line."""
    if sys.stdout.isatty():
        shown = (
            printable(piece.decode(errors="backslashreplace")) if is_data else piece.decode(errors="replace")
            for piece, is_data in pieces
        )
        _write("".join(shown), ends_line=False)
    else:
        _write(b"".join(piece for piece, _ in pieces), ends_line=False)


def say_progress(text: str) -> None:
    """Replace the previous progress line, on a terminal; prints no newline."""
    click.echo(f"\r\x1b[K{printable(text)}", nl=False, err=True)


def fail(message: str, exit_code: int) -> NoReturn:
    say(f"oncelog: {message}", err=True)
    sys.exit(exit_code)


def other_signals() -> Iterator[signal.Signals]:
    """Yield the signals that end a command besides Ctrl-C and SIGTERM, which ask it to stop; not one that is ignored,
    as SIGHUP is under nohup; none on Windows."""
    for name in ("SIGHUP", "SIGUSR1", "SIGUSR2"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            yield number


def fail_on_signals() -> dict[signal.Signals, Any]:
    """End the command by an exception, as Ctrl-C does, when one of them comes; return what was there before."""

    def end(number: int, _: object) -> NoReturn:
        fail_by(signal.Signals(number))

    return {number: signal.signal(number, end) for number in other_signals()}


def fail_by(number: signal.Signals) -> NoReturn:
    """End the command that this signal has ended, with the exit code that shells have for it. To a service manager that
    is a failure, and it starts a relay again; systemd takes an end by SIGHUP itself for one that was asked for."""
    fail(f"ended by {number.name}; SIGTERM asks it to stop", 128 + number)


yes_option = click.option("--yes", is_flag=True, help="Do not ask.")


def confirm(question: str, *, yes: bool, is_always_asked: bool = False) -> None:
    """End the command unless a person agrees, or has said --yes. A script has no terminal, and has decided before:
    `is_always_asked` is for what follows from a look at what is there."""
    if yes or not (is_always_asked or _has_person()):
        return
    try:
        if click.confirm(printable(question), err=True):
            return
    except click.Abort:  # Ctrl-C, or the end of standard input
        say(err=True)
    fail("nothing was changed", EXIT_NOT_CONFIRMED)


def _has_person() -> bool:
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


def say_table(rows: Sequence[Row], *, ends_in_prose: bool = False, gives_way: Sequence[str] = ()) -> None:
    """Print rows with the same names, and a heading; numbers in milliseconds and bytes as people read them. A
    terminal's lines end at its edge and never wrap, but for sentences in the last column, which continue below
    themselves: first headings that have a shorter word get it, then the columns that `gives_way` names are shortened,
    in that order, then the widest. Where there is no room for a number, each row is printed as pairs. A pipe gets whole
    lines, since a truncated name cannot be copied or searched for."""
    cells = [list(map(_heading, rows[0])), *([_for_people(*each) for each in row.items()] for row in rows)]
    is_number = [any(isinstance(row[name], int | float) for row in rows) for name in rows[0]]
    widths = _widths(cells)
    edge = _edge()
    if edge is not None:
        if _line_width(widths) > edge:
            cells[0] = [_short(*column) for column in zip(*cells, strict=True)]
            widths = _widths(cells)
        least = _least_widths(cells, is_number, widths)
        if _line_width(least) > edge and not ends_in_prose:
            _say_rows_as_pairs(rows, edge)
            return
        widths = _widths_for(edge, widths, least, [list(rows[0]).index(name) for name in gives_way], ends_in_prose)
    for number, line in enumerate(cells):
        shown = [_cut(cell, width) for cell, width in zip(line[: len(line) - ends_in_prose], widths, strict=False)]
        shown += line[len(shown) :]
        padded = [
            " " * (width - cell_width(cell)) + cell if right else cell + " " * (width - cell_width(cell))
            for cell, width, right in zip(shown, widths, is_number, strict=True)
        ]
        text = "  ".join(padded).rstrip()
        lines = _folded(text, _line_width(widths[:-1]) + 2, edge) if ends_in_prose else [_cut(text, edge)]
        for each in lines:
            say(Styled(each, is_bold=edge is not None and not number))


def _say_rows_as_pairs(rows: Sequence[Row], edge: int) -> None:
    for number, row in enumerate(rows):
        if number:
            say()
        for line in _pairs(row):
            say(_cut(line, edge))


def time_text(time_ms: int) -> str:
    """Return a moment, to the second, as `record consume --offset @TIME` takes it."""
    try:
        return datetime.fromtimestamp(time_ms / 1_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, OSError, ValueError):  # outside the range of years that the calendar has
        return f"{time_ms} ms"


_UNITS: tuple[tuple[str, str, Callable[[Any], str]], ...] = (
    ("time_ms", "time", time_text),
    ("timestamp_ms", "timestamp", time_text),
    ("_ms", "", duration_text),
    ("_seconds", "", lambda seconds: duration_text(seconds * 1_000)),
    ("_min", "", lambda minutes: duration_text(minutes * 60_000)),
    ("_bytes", "", size_text),
    ("bytes", "size", size_text),
)
"""The end of a heading, and how people read its numbers, by the end of a name in JSON."""


def _heading(name: str) -> str:
    """Return the name of a column without the unit that its cells have."""
    for end, heading, _ in _UNITS:
        if name.endswith(end):
            return name.removesuffix(end) + heading
    return name


def _for_people(name: str, value: Any) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        for end, _, text in _UNITS:
            if name.endswith(end):
                return text(value)
    return text_of(value)


def _short(heading: str, *cells: str) -> str:
    """Return a shorter word for a heading that takes more room than what is below it."""
    is_wider = cell_width(heading) > max(map(cell_width, cells))
    return _SHORT_HEADINGS.get(heading, heading) if is_wider else heading


def _widths(cells: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(cell_width, column)) for column in zip(*cells, strict=True)]


def _line_width(widths: Sequence[int]) -> int:
    return sum(widths) + 2 * max(0, len(widths) - 1)


def _least_widths(cells: Sequence[Sequence[str]], is_number: Sequence[bool], widths: Sequence[int]) -> list[int]:
    """Return how far columns may be shortened. A number never is, but its heading."""
    return [
        max(*map(cell_width, column[1:]), min(width, _LEAST_HEADING)) if right else min(width, _LEAST_CELL)
        for column, width, right in zip(zip(*cells, strict=True), widths, is_number, strict=True)
    ]


def _widths_for(
    edge: int, widths: Sequence[int], least: Sequence[int], order: Sequence[int], ends_in_prose: bool
) -> list[int]:
    if not ends_in_prose:
        return _fitted(widths, least, order, edge)
    # Sentences are beside the other columns if there is room, else below.
    beside = _fitted(widths[:-1], least[:-1], order, edge - _LEAST_PROSE - 2)
    fits = _line_width(beside) + 2 + _LEAST_PROSE <= edge
    return [*(beside if fits else _fitted(widths[:-1], least[:-1], order, edge)), widths[-1]]


def _fitted(widths: Sequence[int], least: Sequence[int], order: Sequence[int], room: int) -> list[int]:
    """Return widths of columns that fit into a line, as far as they can."""
    fitted = [max(each, min(width, room)) for each, width in zip(least, widths, strict=True)]
    excess = _line_width(fitted) - room
    for column in order:
        less = max(0, min(excess, fitted[column] - least[column]))
        fitted[column] -= less
        excess -= less
    while excess > 0 and fitted != least:
        widest = max(range(len(fitted)), key=lambda column: (fitted[column] > least[column], fitted[column]))
        fitted[widest] -= 1
        excess -= 1
    return fitted


def _edge() -> int | None:
    """Return the width of the terminal; None if standard output is none."""
    if not sys.stdout.isatty():
        return None
    import shutil  # with its compression modules: a pipe does not need them

    return shutil.get_terminal_size().columns


def cell_width(text: str) -> int:
    """Return how many columns of a terminal a printable text takes."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(each) in "WF" for each in text)
    return len(text) + wide - sum(unicodedata.category(each) in ("Mn", "Me") for each in text)


def _cut(text: str, edge: int | None) -> str:
    if edge is None or cell_width(text) <= edge:
        return text
    text = text[: 4 * edge]  # most characters take a cell or two, some none
    while cell_width(text) >= edge:
        text = text[:-1]
    return f"{text}…"


def _folded(text: str, indent: int, edge: int | None) -> list[str]:
    """Break a text at spaces, and continue below its first column where that leaves room."""
    if edge is None or cell_width(text) <= edge:
        return [text]
    import textwrap

    room = edge - indent
    if room < _LEAST_PROSE:
        return [_cut(text[:indent].rstrip(), edge), *textwrap.wrap(text[indent:], edge, break_on_hyphens=False)]
    first, *others = textwrap.wrap(text[indent:], room, break_on_hyphens=False)
    return [text[:indent] + first, *(" " * indent + each for each in others)]


def say_pairs(row: Row, *, gives_way: Sequence[str] = ()) -> None:
    """Print one name and value per line; a list of rows is a table below."""
    for line in _pairs(row):
        say(line)
    for name, value in row.items():
        if _is_table(value):
            say()
            say(Styled(name, is_bold=sys.stdout.isatty()))
            say_table(value, gives_way=[each for each in gives_way if each in value[0]])


def _pairs(row: Row) -> list[str]:
    pairs = {_heading(name): _for_people(name, value) for name, value in row.items() if not _is_table(value)}
    width = max(map(len, pairs))
    return [f"{name:<{width}}  {text}" for name, text in pairs.items()]


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict)


def text_of(value: Any) -> str:
    """Return the text of a value in a cell. List separators inside a value are escaped."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(printable(str(each)) for each in value) or "-"
    return printable(str(value))


def marked(text: str) -> str:
    """Escape text for a piece of rich markup."""
    from rich.markup import escape

    return escape(printable(text))
