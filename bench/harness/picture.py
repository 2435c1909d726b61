"""Speeds relative to one of them, as SVG: a line for each workload, a dot for each contestant.

Owns: only the drawing. The axis is logarithmic, so that twice and half as fast are equally far from 1.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, log2

from bench.chart import COLOURS, GREY, GRID, INK, WIDTH, document, label

_LEFT, _RIGHT, _TOP, _ROW, _BOTTOM = 330, 30, 114, 26, 40
_NAMES_IN_A_LINE = 4


@dataclass(frozen=True, slots=True)
class Row:
    title: str
    speeds: Mapping[str, float]
    """By contestant."""


def draw(title: str, subtitle: str, rows: Sequence[Row]) -> str:
    names = list(dict.fromkeys(name for row in rows for name in row.speeds))
    speeds = [speed for row in rows for speed in row.speeds.values()]
    low, high = floor(log2(min([0.5, *speeds]))), ceil(log2(max([2.0, *speeds])))
    height = _TOP + _ROW * len(rows) + _BOTTOM

    def x(speed: float) -> float:
        return _LEFT + (log2(speed) - low) / (high - low) * (WIDTH - _LEFT - _RIGHT)

    parts = [label(24, 28, title, 17, weight="600"), label(24, 48, subtitle, 12, GREY)]
    for place, name in enumerate(names):
        left, line_y = 30 + 180 * (place % _NAMES_IN_A_LINE), 68 + 18 * (place // _NAMES_IN_A_LINE)
        parts.append(_dot(left, line_y, name, names))
        parts.append(label(left + 10, line_y + 4, name, 12))
    for exponent in range(low, high + 1):
        at, colour = x(2.0**exponent), INK if exponent == 0 else GRID
        bottom = height - _BOTTOM
        parts.append(f"<line x1='{at:.1f}' y1='{_TOP - 8}' x2='{at:.1f}' y2='{bottom}' stroke='{colour}'/>")
        parts.append(
            label(at, bottom + 18, f"{2**exponent} ×" if exponent >= 0 else f"1/{2**-exponent}", 12, GREY, "middle")
        )
    for number, row in enumerate(rows):
        y = _TOP + _ROW * number + _ROW / 2
        parts.append(label(_LEFT - 14, y + 4, row.title, 12, anchor="end"))
        parts += [_dot(x(speed), y, name, names) for name, speed in row.speeds.items()]
    return document(parts, height)


def _dot(x: float, y: float, name: str, names: Sequence[str]) -> str:
    return f"<circle cx='{x:.1f}' cy='{y:.1f}' r='5' fill='{COLOURS[names.index(name) % len(COLOURS)]}'/>"
