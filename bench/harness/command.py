"""The command of a benchmark: its arguments, who takes part, progress on stderr, the file with every number.

Owns: what is the same for all of them. Does not own: arguments of one alone, tables and pages.
"""

import argparse
import json
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from tools.interop import Unavailable


class Keyed(Protocol):
    @property
    def key(self) -> str: ...


class Preparable(Keyed, Protocol):
    @property
    def name(self) -> str: ...

    def prepare(self) -> str:
        """Fetches or builds it where it is not there yet; returns its version. Raises interop.Unavailable."""


Row = TypeVar("Row", bound=Keyed)


class Arguments:
    """--rounds, --quick and --json, and what a benchmark adds to `parser`."""

    def __init__(self, command: str, description: str | None, *, rounds: int) -> None:
        """`rounds` are those of a whole run."""
        self._rounds = rounds
        self.parser = argparse.ArgumentParser(
            prog=command, description=description, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        self.parser.add_argument("--rounds", type=int, help=f"{rounds} unless given, 1 with --quick")
        self.parser.add_argument("--quick", action="store_true")
        self.parser.add_argument("--json", type=Path, metavar="FILE")

    def parse(self, arguments: Sequence[str] | None) -> argparse.Namespace:
        options = self.parser.parse_args(arguments)
        if options.rounds is None:
            options.rounds = 1 if options.quick else self._rounds
        if options.rounds < 1:
            self.parser.error("--rounds must be at least 1")
        if options.json is not None and not options.json.parent.is_dir():
            self.parser.error(f"--json: there is no directory {options.json.parent}")
        options.is_whole = not options.quick and options.rounds >= self._rounds
        return options

    def chosen(self, rows: Sequence[Row], keys: str | None, what: str) -> list[Row]:
        """Those of the table that are named, in its order; all without names. Ends the program for other names."""
        wanted = None if keys is None else keys.split(",")
        known = [row.key for row in rows]
        unknown = sorted(set(wanted or ()) - set(known))
        if unknown:
            self.parser.error(f"no {what} is called {', '.join(unknown)}; there are {', '.join(known)}")
        return [row for row in rows if wanted is None or row.key in wanted]


def available(rows: Sequence[Preparable]) -> tuple[dict[str, str], dict[str, str]]:
    """Versions by key, and by name why the others are left out."""
    versions, left_out = {}, {}
    for row in rows:
        try:
            versions[row.key] = row.prepare()
        except Unavailable as error:
            left_out[row.name] = str(error)
    return versions, left_out


def must_succeed(step: Callable[[], object]) -> None:
    """A step of a preparation that runs a command. Raises interop.Unavailable with the last line that a failed one
    printed."""
    try:
        step()
    except subprocess.CalledProcessError as error:
        last = (error.stdout or "").strip().splitlines()[-1:]
        raise Unavailable(f"{Path(error.cmd[0]).name} failed: {''.join(last)[:160]}") from error


class Bar:
    """What runs now, and how much of all is done."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("", total=None)

    def show(self, what: str, done: int = 0, total: int | None = None) -> None:
        self._progress.update(self._task, description=what, completed=done, total=total)


@contextmanager
def progress_bar() -> Iterator[Bar]:
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, speed_estimate_period=3600) as progress:
        yield Bar(progress)


def save(path: Path | None, found: Mapping[str, object]) -> None:
    """Every number of every round, if the user has asked for the file."""
    if path is not None:
        path.write_text(json.dumps(found, indent=1), encoding="utf-8")
