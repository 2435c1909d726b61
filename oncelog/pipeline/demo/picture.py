"""The result as an SVG picture.

Owns: the drawing; plain text, no library. It shows the money as each reader sees it, what was done to the load, the
resulting partitions, and the micro-batches with the one that was run twice.
"""

from collections.abc import Sequence
from html import escape
from pathlib import Path

from oncelog.pipeline.demo.loading import Troubles
from oncelog.pipeline.demo.survey import Span, Strip
from oncelog.pipeline.demo.totalling import Totalling

WIDTH = 920
_INK, _GREY, _GREEN, _RED, _BLUE, _PAPER = "#1f2933", "#7b8794", "#2f9e6e", "#d64545", "#3b7dd8", "#fbfbf9"
_YELLOW = "#e9b44c"
_LEFT = 230
_BAR_WIDTH = 480
_STRIP_LEFT, _STRIP_WIDTH = 130, 680
_FONT = "font-family='ui-sans-serif, system-ui, Helvetica, Arial, sans-serif'"


def money(cents: int) -> str:
    return f"{cents // 100:,}.{cents % 100:02d}"


def _text(
    x: float, y: float, text: str, size: int = 14, colour: str = _INK, anchor: str = "start", weight: str = "400"
) -> str:
    return (
        f"<text x='{x:.1f}' y='{y:.1f}' {_FONT} font-size='{size}' fill='{colour}' "
        f"text-anchor='{anchor}' font-weight='{weight}'>{escape(text)}</text>"
    )


def _bar(y: float, label: str, cents: int, expected: int, largest: int) -> list[str]:
    right = cents == expected
    sound = min(cents, expected) / largest * _BAR_WIDTH
    parts = [_text(_LEFT - 14, y + 17, label, 14, anchor="end")]
    parts.append(f"<rect x='{_LEFT}' y='{y}' width='{sound:.1f}' height='24' rx='3' fill='{_GREEN}'/>")
    if cents > expected:
        extra = (cents - expected) / largest * _BAR_WIDTH
        parts.append(
            f"<rect x='{_LEFT + sound:.1f}' y='{y}' width='{max(extra, 3):.1f}' height='24' fill='url(#aborted)' "
            f"stroke='{_RED}'/>"
        )
    verdict = "right to the cent" if right else f"{'+' if cents > expected else '-'}{money(abs(cents - expected))}"
    end = _LEFT + max(cents, expected) / largest * _BAR_WIDTH + 12
    parts.append(_text(end, y + 11, money(cents), 13, weight="600"))
    parts.append(_text(end, y + 25, verdict, 11, _GREEN if right else _RED))
    return parts


def draw(
    title: str,
    expected: int,
    committed: int,
    uncommitted: int,
    published: int,
    troubles: Troubles,
    strips: Sequence[Strip],
    totalling: Totalling,
) -> str:
    largest = max(expected, committed, uncommitted, published)
    parts = [
        _text(40, 48, title, 22, weight="600"),
        _text(40, 72, "What each reader adds up, in dollars, against the file", 14, _GREY),
    ]
    rows = (
        ("from the file", expected),
        ("read_committed", committed),
        ("read_uncommitted", uncommitted),
        ("after the pipeline", published),
    )
    y = 96.0
    for label, cents in rows:
        parts += _bar(y, label, cents, expected, largest)
        y += 42
    timeline, y = _timeline(y + 20, troubles)
    partitions, y = _partitions(y + 48, strips)
    parts += timeline + partitions
    y += 48
    parts.append(_text(40, y, "Micro-batches of the Spark job", 16, weight="600"))
    y += 16
    parts += _batches(y, totalling)
    y += 78
    return _page(parts, y)


def _timeline(y: float, troubles: Troubles) -> tuple[list[str], float]:
    parts = [_text(40, y, "What was done to the load", 16, weight="600")]
    for at_s, text in troubles.timeline:
        y += 26
        parts.append(f"<circle cx='52' cy='{y - 5:.1f}' r='4' fill='{_BLUE}'/>")
        parts.append(_text(70, y, f"{at_s:5.1f} s", 12, _GREY))
        parts.append(_text(130, y, text, 13))
    y += 26
    parts.append(f"<circle cx='52' cy='{y - 5:.1f}' r='4' fill='{_RED}'/>")
    aborted = (
        f"{troubles.aborted_transactions} transactions with {troubles.aborted_records:,} records aborted, sent again"
    )
    parts.append(_text(130, y, aborted, 13))
    return parts, y


def _partitions(y: float, strips: Sequence[Strip]) -> tuple[list[str], float]:
    """Draw each partition from its first offset to its end, on one scale."""
    parts = [_text(40, y, "What lies in the partitions, offset by offset", 16, weight="600")]
    parts += _legend(WIDTH - 40, y)
    scale = _STRIP_WIDTH / max([1, *(strip.next_offset for strip in strips)])
    y += 18
    for strip in strips:
        parts.append(_text(_STRIP_LEFT - 14, y + 15, f"partition {strip.partition}", 13, anchor="end"))
        parts += [part for span in strip.spans for part in _span(y, scale, span)]
        end = _STRIP_LEFT + strip.next_offset * scale + 8
        parts.append(_text(end, y + 15, f"{strip.next_offset:,}", 12, _GREY))
        y += 30
    return parts, y - 10


def _span(y: float, scale: float, span: Span) -> list[str]:
    x, width = _STRIP_LEFT + span.first_offset * scale, (span.next_offset - span.first_offset) * scale
    if span.fate == "marker":
        return [f"<rect x='{x:.2f}' y='{y}' width='{max(width, 0.8):.2f}' height='20' fill='{_PAPER}'/>"]
    fill = {"aborted": "url(#aborted)", "open": _YELLOW, "plain": _BLUE}.get(span.fate, _GREEN)
    return [f"<rect x='{x:.2f}' y='{y}' width='{width:.2f}' height='20' fill='{fill}'/>"]


def _legend(right: float, y: float) -> list[str]:
    parts = []
    for text, fill in (("aborted", "url(#aborted)"), ("committed", _GREEN)):
        parts.append(_text(right, y, text, 12, _GREY, "end"))
        right -= 7 * len(text) + 20
        parts.append(f"<rect x='{right:.1f}' y='{y - 10}' width='14' height='11' fill='{fill}'/>")
        right -= 16
    return parts


def _batches(y: float, totalling: Totalling) -> list[str]:
    parts = []
    last = max([*totalling.published, *totalling.skipped, totalling.died_after or 0])
    step = min(60.0, (WIDTH - 80) / (last + 1))
    for batch in range(last + 1):
        x = 40 + batch * step
        twice = batch in totalling.skipped
        fill = _BLUE if not twice else _GREEN
        parts.append(f"<rect x='{x:.1f}' y='{y}' width='{step - 6:.1f}' height='30' rx='3' fill='{fill}'/>")
        parts.append(_text(x + (step - 6) / 2, y + 20, str(batch), 13, "#ffffff", "middle", "600"))
        if twice:
            parts.append(_text(x, y + 48, "published, driver killed, came again, skipped by its marker", 12, _GREEN))
    return parts


def _page(parts: list[str], height: float) -> str:
    pattern = (
        "<defs><pattern id='aborted' width='6' height='6' patternUnits='userSpaceOnUse' patternTransform='rotate(45)'>"
        f"<rect width='6' height='6' fill='#fde8e8'/><line x1='0' y1='0' x2='0' y2='6' stroke='{_RED}' "
        "stroke-width='3'/></pattern></defs>"
    )
    body = "\n".join(parts)
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{WIDTH}' height='{height:.0f}' "
        f"viewBox='0 0 {WIDTH} {height:.0f}'>\n{pattern}\n"
        f"<rect width='{WIDTH}' height='{height:.0f}' fill='{_PAPER}'/>\n{body}\n</svg>\n"
    )


def write(path: Path, svg: str) -> None:
    path.write_text(svg, encoding="utf-8")
