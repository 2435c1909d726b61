"""Draws the picture of the dashboard: each of its queries, as a Prometheus evaluates it, where Grafana would draw it.

    PYTHONPATH=. python tools/draw_dashboard.py [SECONDS]

Of two minutes, unless told otherwise, of the scene of the dashboard's test, with a broker and a Prometheus of its own
(`make interop` fetches it). Grafana draws more nicely; the queries, titles and places are its own.
"""

import asyncio
import json
import sys
import tempfile
import time
from itertools import pairwise
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

from bench.chart import COLOURS, GREY, GRID, INK, PAPER, label
from tests.support.console.dashboard_scene import Scene
from tests.support.console.prometheus import Prometheus
from tests.support.processes.daemon import Daemon
from tools.dashboard import DASHBOARD

PICTURE = DASHBOARD.parent.parent / "images" / "dashboard.svg"
_CELL_WIDTH, _CELL_HEIGHT, _GAP = 46, 22, 6
_WIDTH = 24 * _CELL_WIDTH
_LEFT, _TOP, _LEGEND_ROW = 52, 26, 13
_MOST_NAMES = 4
_LONG_NAME = 28
"""Characters that half a panel has room for."""
_STEPS = 80
_SECONDS = 120.0
_SCALES = {
    "s": ((1, "s"), (1e-3, "ms"), (1e-6, "µs")),
    "bytes": ((1e6, "MB"), (1e3, "kB"), (1, "B")),
    "Bps": ((1e6, "MB/s"), (1e3, "kB/s"), (1, "B/s")),
    "ops": ((1, "/s"),),
    "reqps": ((1, "/s"),),
    "percentunit": ((0.01, "%"),),
    "short": ((1e3, "k"), (1, "")),
}


class Curve(NamedTuple):
    name: str
    points: list[tuple[float, float]]


def curves(prometheus: Prometheus, panel: dict[str, Any], start: float, end: float) -> list[Curve]:
    found = []
    for target in panel["targets"]:
        for each in prometheus.query_range(target["expr"], start, end, (end - start) / _STEPS):
            legend = target["legendFormat"]
            for name, value in each["metric"].items():
                legend = legend.replace(f"{{{{{name}}}}}", value)
            points = [(when, float(value)) for when, value in each["values"] if value not in ("NaN", "+Inf")]
            if points:
                found.append(Curve(legend, points))
    return found


def shown(value: float, unit: str) -> str:
    scales = _SCALES[unit]
    factor, suffix = next((each for each in scales if abs(value) >= each[0]), scales[-1])
    return f"{value / factor:.3g} {suffix}".strip() if value else "0"


def draw(panel: dict[str, Any], found: list[Curve], start: float, end: float) -> list[str]:
    place, unit = panel["gridPos"], panel["fieldConfig"]["defaults"]["unit"]
    x, y = place["x"] * _CELL_WIDTH + _GAP / 2, place["y"] * _CELL_HEIGHT + _GAP / 2
    width, height = place["w"] * _CELL_WIDTH - _GAP, place["h"] * _CELL_HEIGHT - _GAP
    parts = [f"<rect x='{x}' y='{y}' width='{width}' height='{height}' rx='3' fill='white' stroke='{GRID}'/>"]
    parts.append(label(x + 8, y + 17, panel["title"], 12, INK, weight="600"))
    if panel["type"] == "stat":
        newest = found[0].points[-1][1] if found else 0
        parts.append(label(x + width / 2, y + height / 2 + 18, shown(newest, unit), 28, COLOURS[1], "middle", "600"))
        return parts
    found.sort(key=lambda curve: -max(value for _, value in curve.points))
    highest = max((value for curve in found for _, value in curve.points), default=0) or 1
    named = found[:_MOST_NAMES]
    columns = 1 if any(len(curve.name) > _LONG_NAME for curve in named) else 2
    bottom = y + height - _LEGEND_ROW * ceil(len(named) / columns) - 12
    top, left, right = y + _TOP, x + _LEFT, x + width - 8
    for share in (0, 0.5, 1):
        at = bottom - share * (bottom - top)
        parts.append(f"<line x1='{left}' y1='{at:.0f}' x2='{right}' y2='{at:.0f}' stroke='{GRID}'/>")
        parts.append(label(left - 4, at + 4, shown(share * highest, unit), 9, GREY, "end"))
    for number, curve in enumerate(found):
        colour = COLOURS[number % len(COLOURS)]
        places = [
            (left + (when - start) / (end - start) * (right - left), bottom - value / highest * (bottom - top))
            for when, value in curve.points
        ]
        gap = 2.5 * (right - left) / _STEPS
        moves = ["M", *("L" if after[0] - before[0] < gap else "M" for before, after in pairwise(places))]
        path = "".join(f"{move}{px:.0f},{py:.1f}" for move, (px, py) in zip(moves, places, strict=True))
        parts.append(f"<path d='{path}' fill='none' stroke='{colour}' stroke-width='1.3'/>")
        if number < _MOST_NAMES:
            at_x = x + 10 + number % columns * (width / 2)
            parts.append(label(at_x, bottom + 15 + number // columns * _LEGEND_ROW, curve.name, 10, colour))
    return parts


def picture(prometheus: Prometheus, seconds: float) -> str:
    end = time.time()
    start = end - seconds
    panels = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    height = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in panels) * _CELL_HEIGHT
    parts = []
    for panel in panels:
        if panel["type"] == "row":
            parts.append(label(8, panel["gridPos"]["y"] * _CELL_HEIGHT + 16, panel["title"], 14, INK, weight="600"))
        else:
            parts += draw(panel, curves(prometheus, panel, start, end), start, end)
    head = [
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{_WIDTH}' height='{height}' viewBox='0 0 {_WIDTH} {height}'>",
        f"<rect width='{_WIDTH}' height='{height}' fill='{PAPER}'/>",
    ]
    return "\n".join([*head, *parts, "</svg>", ""])


async def main(seconds: float) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        daemon = Daemon(place / "data", "oncelog.metrics.listen=127.0.0.1:0")
        (ready,) = [line for line in daemon.stderr_path.read_text().splitlines() if "metrics.ready" in line]
        scene = Scene(daemon.bootstrap)
        await scene.start()
        with Prometheus(json.loads(ready)["address"], place) as prometheus:
            await scene.ends_within(seconds)
            PICTURE.write_text(await asyncio.to_thread(picture, prometheus, seconds), encoding="utf-8")
        await scene.stop()
        daemon.stop()


if __name__ == "__main__":
    asyncio.run(main(float(sys.argv[1]) if len(sys.argv) > 1 else _SECONDS))
