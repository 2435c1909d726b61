"""`make bench WHAT=log`: the cost of append, read and the like as a log grows, in tables, pictures and
docs/compare/performance.md.

Owns: the sizes, the order, and the output. `--json FILE` writes every number, `--quick` uses a hundredth of each size.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from bench import chart
from bench.coordinator_world import Coordinator
from bench.footprint import PARTITIONS, Footprint, measure_apart
from bench.log_worlds import (
    AbortedInsideOne,
    AbortedTransactions,
    LogWorld,
    OpenTransactions,
    ProducerIds,
    Segments,
)
from bench.measure import Point, measure
from bench.page import IMAGES, PAGE, ROOT, aligned, write_block

_SMALLEST = 1
World = type[LogWorld] | type[Coordinator]
_WORLDS: tuple[tuple[World, int, str], ...] = (
    (Segments, 10_000, "bench_segments"),
    (OpenTransactions, 10_000, "bench_open_transactions"),
    (ProducerIds, 100_000, "bench_producer_ids"),
    (AbortedTransactions, 1_000_000, "bench_aborted_transactions"),
    (AbortedInsideOne, 100_000, "bench_aborted_inside_one"),
    (Coordinator, 10_000, "bench_coordinator"),
)
_FOOTPRINTS = (
    (Segments.axis, 10_000),
    (OpenTransactions.axis, 10_000),
    (ProducerIds.axis, 100_000),
    (AbortedTransactions.axis, 1_000_000),
    (Coordinator.axis, 10_000),
    (PARTITIONS, 1_000),
)


@dataclass(slots=True)
class Family:
    """The curves of one way to grow."""

    axis: str
    image: str
    curves: dict[str, list[Point]] = field(default_factory=dict)


def sizes(largest: int) -> list[int]:
    found = [_SMALLEST]
    while found[-1] < largest:
        found.append(found[-1] * 10)
    return found


def measure_all(scale: int, progress: Progress) -> Iterator[Family]:
    for world, largest, image in _WORLDS:
        family = Family(world.axis, image)
        for size in sizes(largest // scale):
            task = progress.add_task(f"{world.axis}: {size:,}", total=size)
            with tempfile.TemporaryDirectory() as directory:
                _measure_world(world, size, Path(directory), family, _advance(progress, task))
            progress.remove_task(task)
        yield family


def _measure_world(world: World, size: int, path: Path, family: Family, advance: Callable[[int], None]) -> None:
    grown = world(path, size).filled(advance)
    # Reads first: appends, however few, are growth too.
    for operation in sorted(grown.operations(), key=lambda operation: not operation.is_read):
        family.curves.setdefault(operation.name, []).append(measure(operation, size))
    grown.close()


def _advance(progress: Progress, task: object) -> Callable[[int], None]:
    return lambda done: progress.update(task, completed=done)  # type: ignore[arg-type]


def measure_footprints(scale: int, progress: Progress) -> list[Footprint]:
    found = []
    for kind, count in _FOOTPRINTS:
        task = progress.add_task(f"memory and start: {count // scale:,} {kind}", total=None)
        found.append(measure_apart(kind, count // scale))
        progress.remove_task(task)
    return found


# -- output


def table(family: Family) -> str:
    """Processor time and, after the slash, wall time, in microseconds."""
    first = next(iter(family.curves.values()))
    rows = [[family.axis, *(f"{point.size:,}" for point in first), "last : first", "lines of Python"]]
    for name, points in family.curves.items():
        costs = [f"{_number(point.cpu_us)} / {_number(point.wall_us)}" for point in points]
        growth = f"{points[-1].cpu_us / points[0].cpu_us:.2f}"
        rows.append([name, *costs, growth, f"{points[0].lines:,} … {points[-1].lines:,}"])
    return aligned(rows)


def footprint_table(footprints: Sequence[Footprint]) -> str:
    rows = [["what", "how many", "bytes of memory each", "clean start, ms", "start after a kill, ms"]]
    for found in footprints:
        starts = ["" if value is None else f"{value:,.0f}" for value in (found.clean_start_ms, found.killed_start_ms)]
        rows.append([found.kind, f"{found.count:,}", f"{found.bytes_each:,.0f}", *starts])
    return aligned(rows)


def _number(value: float) -> str:
    return f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def picture(family: Family) -> str:
    curves = [
        chart.Curve(name, [(point.size, point.cpu_us) for point in points]) for name, points in family.curves.items()
    ]
    return chart.draw(f"Cost against {family.axis}", "processor time of one operation", family.axis, curves)


def write_page(families: Sequence[Family], footprints: Sequence[Footprint]) -> None:
    """Put tables and pictures into the page."""
    parts = []
    for family in families:
        (IMAGES / f"{family.image}.svg").write_text(picture(family), encoding="utf-8")
        title = family.axis[0].upper() + family.axis[1:]
        parts.append(
            f"### {title}\n\n![Cost against {family.axis}](../images/{family.image}.svg)\n\n{table(family)}\n\n"
        )
    parts.append(f"### Memory and starts\n\n{footprint_table(footprints)}\n")
    write_block("make bench WHAT=log", "".join(parts))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.log_curves", description=__doc__)
    parser.add_argument("--json", type=Path, help="write every number to this file")
    parser.add_argument("--quick", action="store_true", help="a hundredth of each size; changes no page")
    options = parser.parse_args()
    scale = 100 if options.quick else 1
    families = []
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        for family in measure_all(scale, progress):
            families.append(family)
            progress.console.print()
            print(table(family), flush=True)
        footprints = measure_footprints(scale, progress)
    print("\n" + footprint_table(footprints))
    if options.json is not None:
        everything = {
            "curves": [asdict(family) for family in families],
            "footprints": [asdict(found) for found in footprints],
        }
        options.json.write_text(json.dumps(everything, indent=1), encoding="utf-8")
    if not options.quick:
        write_page(families, footprints)
        print(f"\nwritten to {PAGE.relative_to(ROOT)} and docs/images", file=sys.stderr)


if __name__ == "__main__":
    main()
