"""Medians and spreads of rounds, and the speeds and tables made of them.

Owns: what a number looks like, what a speed is: twice as many records a second, or half the time, is 2 ×, and the
median of the contestant that all are compared with, in the same run, is 1. Does not own: which figures there are.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from bench.harness import picture
from bench.page import aligned

FAILED = "failed"
Rows = Sequence[tuple[str, Mapping[str, str]]]
"""Titles, and what the columns say, by contestant."""


@dataclass(frozen=True, slots=True)
class Spread:
    median: float
    lowest: float
    highest: float

    def __str__(self) -> str:
        if self.lowest == self.highest:
            return number(self.median)
        return f"{number(self.median)} ({number(self.lowest)}–{number(self.highest)})"


def spread(values: Sequence[float]) -> Spread:
    return Spread(median(values), min(values), max(values))


@dataclass(frozen=True, slots=True)
class Figure:
    """A line of a table of speeds: a rate, or a time."""

    title: str
    unit: str
    """Empty where the table has one unit."""
    more_is_better: bool
    spreads: Mapping[str, Spread]
    """By contestant; it lacks those that failed."""
    base: str
    """The contestant that all are compared with."""

    def speed(self, contestant: str) -> float | None:
        """Relative to the base; None without either of both."""
        own, base = self.spreads.get(contestant), self.spreads.get(self.base)
        if own is None or base is None:
            return None
        ratio = own.median / base.median
        return ratio if self.more_is_better else 1 / ratio

    def cells(self) -> dict[str, str]:
        speeds = {key: None if key == self.base else self.speed(key) for key in self.spreads}
        return {
            key: f"{found}, {number(speed)} ×" if (speed := speeds[key]) is not None else str(found)
            for key, found in self.spreads.items()
        }


def table(first: str, rows: Rows, columns: Mapping[str, str], missing: str = "–") -> str:
    """`first` is the title of the titles, `columns` those of the others, by contestant."""
    lines = [[title, *(cells.get(key, missing) for key in columns)] for title, cells in rows]
    return aligned([[first, *columns.values()], *lines])


def rows_of(figures: Iterable[Figure]) -> list[tuple[str, dict[str, str]]]:
    """For a table of them."""
    return [(f"{each.title}, {each.unit}" if each.unit else each.title, each.cells()) for each in figures]


def speeds_of(figures: Iterable[Figure], names: Mapping[str, str]) -> list[picture.Row]:
    """For a picture of them; `names` by contestant."""
    found = []
    for figure in figures:
        speeds = {name: figure.speed(key) for key, name in names.items() if key != figure.base}
        found.append(picture.Row(figure.title, {name: speed for name, speed in speeds.items() if speed}))
    return found


def number(value: float) -> str:
    """Three digits, as many as such measurements have, and no more than five behind the point."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    if 0 < abs(value) < 0.001:
        return f"{value:.5f}"
    return f"{value:#.3g}".rstrip(".") if value else "0"
