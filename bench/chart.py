"""Curves as an SVG picture: plain text, no library.

Owns: only the drawing. Both axes are logarithmic, so that a constant cost is a flat line, and one that grows with the
size is parallel to the dashed line.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

WIDTH, HEIGHT = 760, 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 72, 230, 64, 56
INK, GREY, GRID, PAPER = "#1f2933", "#7b8794", "#e4e7eb", "#fbfbf9"
COLOURS = ("#3b7dd8", "#2f9e6e", "#d64545", "#e9b44c", "#8e5bb5", "#23a6b5", "#b8643a", "#52606d")
_FONT = "font-family='ui-sans-serif, system-ui, Helvetica, Arial, sans-serif'"
_LABEL_HEIGHT = 16.0


@dataclass(frozen=True, slots=True)
class Curve:
    name: str
    points: Sequence[tuple[float, float]]


def draw(title: str, subtitle: str, x_name: str, curves: Sequence[Curve]) -> str:
    xs = [x for curve in curves for x, _ in curve.points]
    ys = [y for curve in curves for _, y in curve.points]
    scale = _Scale(log10(min(xs)), log10(max(xs)), floor(log10(min(ys))), max(ceil(log10(max(ys))), 3))
    parts = [label(_LEFT, 28, title, 17, weight="600"), label(_LEFT, 48, subtitle, 12, GREY)]
    parts += _grid(scale, x_name)
    parts += _growth(scale)
    places = _label_places([scale.y(curve.points[-1][1]) for curve in curves])
    for number, (curve, place) in enumerate(zip(curves, places, strict=True)):
        colour = COLOURS[number % len(COLOURS)]
        places_of_points = [(scale.x(x), scale.y(y)) for x, y in curve.points]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in places_of_points)
        parts.append(f"<polyline points='{line}' fill='none' stroke='{colour}' stroke-width='2'/>")
        parts += [
            f"<circle cx='{scale.x(x):.1f}' cy='{scale.y(y):.1f}' r='3' fill='{colour}'/>" for x, y in curve.points
        ]
        parts.append(label(WIDTH - _RIGHT + 12, place + 4, curve.name, 12, colour))
    return document(parts)


@dataclass(frozen=True, slots=True)
class _Scale:
    """Logarithms of the ends of both axes."""

    x_low: float
    x_high: float
    y_low: float
    y_high: float

    def x(self, value: float) -> float:
        return _LEFT + (log10(value) - self.x_low) / (self.x_high - self.x_low) * (WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        return HEIGHT - _BOTTOM - (log10(value) - self.y_low) / (self.y_high - self.y_low) * (HEIGHT - _TOP - _BOTTOM)


def _grid(scale: _Scale, x_name: str) -> list[str]:
    parts = []
    left, right, top, bottom = _LEFT, WIDTH - _RIGHT, _TOP, HEIGHT - _BOTTOM
    for exponent in range(floor(scale.y_low), ceil(scale.y_high) + 1):
        y = scale.y(10.0**exponent)
        parts.append(f"<line x1='{left}' y1='{y:.1f}' x2='{right}' y2='{y:.1f}' stroke='{GRID}'/>")
        parts.append(label(left - 8, y + 4, _duration(exponent), 12, GREY, "end"))
    for exponent in range(ceil(scale.x_low), floor(scale.x_high) + 1):
        x = scale.x(10.0**exponent)
        parts.append(f"<line x1='{x:.1f}' y1='{top}' x2='{x:.1f}' y2='{bottom}' stroke='{GRID}'/>")
        parts.append(label(x, bottom + 18, f"{10**exponent:,}", 12, GREY, "middle"))
    parts.append(label((left + right) / 2, HEIGHT - 14, x_name, 13, INK, "middle"))
    return parts


def _growth(scale: _Scale) -> list[str]:
    """The slope of a cost that grows with the size."""
    decades = min(scale.x_high - scale.x_low, scale.y_high - scale.y_low)
    start, end = (10**scale.x_low, 10**scale.y_low), (10 ** (scale.x_low + decades), 10 ** (scale.y_low + decades))
    (x1, y1), (x2, y2) = ((scale.x(x), scale.y(y)) for x, y in (start, end))
    return [
        f"<line x1='{x1:.1f}' y1='{y1:.1f}' x2='{x2:.1f}' y2='{y2:.1f}' stroke='{GREY}' stroke-dasharray='3 4'/>",
        label(x2 + 8, y2 + 14, "what grows with the size", 11, GREY),
    ]


def _duration(exponent: int) -> str:
    names = {0: "µs", 3: "ms", 6: "s"}
    unit = max(known for known in names if known <= max(exponent, 0))
    return f"{10.0 ** (exponent - unit):g} {names[unit]}"


def _label_places(wanted: Sequence[float]) -> list[float]:
    """Next to the ends of the curves, moved apart where they would overlap."""
    places = list(wanted)
    lowest = 0.0
    for slot in sorted(range(len(wanted)), key=wanted.__getitem__):
        places[slot] = lowest = max(wanted[slot], lowest + _LABEL_HEIGHT)
    excess = max(0.0, lowest - (HEIGHT - _BOTTOM))
    return [place - excess for place in places]


def document(parts: Sequence[str], height: int = HEIGHT) -> str:
    body = "\n".join(parts)
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{WIDTH}' height='{height}' viewBox='0 0 {WIDTH} {height}'>\n"
        f"<rect width='{WIDTH}' height='{height}' fill='{PAPER}'/>\n{body}\n</svg>\n"
    )


def label(
    x: float, y: float, text: str, size: int, colour: str = INK, anchor: str = "start", weight: str = "400"
) -> str:
    return (
        f"<text x='{x:.1f}' y='{y:.1f}' {_FONT} font-size='{size}' fill='{colour}' "
        f"text-anchor='{anchor}' font-weight='{weight}'>{escape(text)}</text>"
    )
