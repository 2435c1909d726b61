"""Tables of a run, and its block of docs/performance.md.

Owns: medians, spreads, ratios, wording. Does not own: measuring (`run`), drawing (`picture`). A ratio is a speed: twice
as many records a second, or half the time, is 2 ×, and Kafka's median of the same run is 1.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from bench.page import IMAGES, aligned, write_block
from bench.peers import picture
from bench.peers.contestants import KAFKA, Contestant
from bench.peers.run import Results, Sample
from bench.peers.workloads import Workload

IMAGE = "bench_peers.svg"
_NONE = "–"


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
    """A line of the first table: a rate, or a percentile of times."""

    title: str
    unit: str
    more_is_better: bool
    spreads: Mapping[str, Spread]
    """By contestant; it lacks those that failed."""

    def speed(self, contestant: str) -> float | None:
        """Relative to Apache Kafka's; None without either of both."""
        own, kafkas = self.spreads.get(contestant), self.spreads.get(KAFKA)
        if own is None or kafkas is None:
            return None
        ratio = own.median / kafkas.median
        return ratio if self.more_is_better else 1 / ratio


@dataclass(frozen=True, slots=True)
class Report:
    workloads: Sequence[Workload]
    contestants: Sequence[Contestant]
    versions: Mapping[str, str]
    left_out: Mapping[str, str]
    """Contestants that could not be prepared, by name, and why."""
    results: Results
    circumstances: Sequence[str]
    """Machine, disk, command: a line each."""

    def figures(self) -> Iterator[Figure]:
        for workload in self.workloads:
            samples = self.results.samples.get(workload.key, {})
            values = {key: spread([sample.value for sample in each]) for key, each in samples.items()}
            if workload.rate is not None:
                yield Figure(workload.title, workload.unit, True, values)
                continue
            yield Figure(f"{workload.title}, p50", workload.unit, False, values)
            slowest = {key: spread([sample.p99_ms or 0.0 for sample in each]) for key, each in samples.items()}
            yield Figure(f"{workload.title}, p99", workload.unit, False, slowest)

    def text(self) -> str:
        parts = [
            *(f"- {line}" for line in self._facts()),
            "",
            f"![Speed relative to Apache Kafka](images/{IMAGE})",
            "",
            "Median (lowest–highest) of the rounds, and the speed relative to Apache Kafka: above 1 × is faster.",
            "",
            self.speed_table(),
            "",
            "Processor seconds of the broker for one run of each workload. The last column is how much of one",
            "processor the client took, at most; near 100 % the client limits what is measured.",
            "",
            self.cpu_table(),
            "",
            "Calls that make files durable (fsync, fdatasync and the like) for each operation, counted by strace in a",
            "run of its own.",
            "",
            self.sync_table(),
            "",
            "Start, memory and idle processor time.",
            "",
            self.process_table(),
            "",
        ]
        return "\n".join(parts)

    def _facts(self) -> Iterator[str]:
        yield from self.circumstances
        yield "; ".join(f"{each.name}: {self.versions[each.key]}" for each in self.contestants)
        for name, reason in self.left_out.items():
            yield f"{name} is left out: {reason}"
        for each in self.contestants:
            for what, reason in self.results.failures.get(each.key, {}).items():
                title = next((workload.title for workload in self.workloads if workload.key == what), what)
                yield f"{each.name} failed in “{title}”: {reason}"

    def _rows(self, first: str, rows: Sequence[tuple[str, Callable[[str], str]]]) -> list[list[str]]:
        head = [first, *(each.name for each in self.contestants)]
        return [head, *([title, *(cell(each.key) for each in self.contestants)] for title, cell in rows)]

    def speed_table(self) -> str:
        def cell(figure: Figure) -> Callable[[str], str]:
            return lambda key: _with_speed(figure.spreads.get(key), None if key == KAFKA else figure.speed(key))

        return aligned(self._rows("workload", [(f"{each.title}, {each.unit}", cell(each)) for each in self.figures()]))

    def cpu_table(self) -> str:
        """Of those alone that ran every workload, the last line is a sum that can be compared."""

        def cell(workload: Workload) -> Callable[[str], str]:
            return lambda key: _text(self._cpu_s(workload, key))

        def total(key: str) -> str:
            each = [self._cpu_s(workload, key) for workload in self.workloads]
            return _text(None if None in each else sum(value or 0.0 for value in each))

        rows = [(f"{each.title}: {each.unit_of_work}s", cell(each)) for each in self.workloads]
        table = self._rows("workload", [*rows, ("all of them", total)])
        shares = [f"{self._client_share(each):.0%}" for each in self.workloads]
        return aligned([[*row, last] for row, last in zip(table, ["client", *shares, ""], strict=True)])

    def _samples(self, workload: Workload, key: str) -> list[Sample]:
        return self.results.samples.get(workload.key, {}).get(key, [])

    def _cpu_s(self, workload: Workload, key: str) -> float | None:
        samples = self._samples(workload, key)
        return median([sample.broker_cpu_s for sample in samples]) if samples else None

    def _client_share(self, workload: Workload) -> float:
        return max(
            (
                median([sample.client_cpu_s / sample.wall_s for sample in self._samples(workload, each.key)])
                for each in self.contestants
                if self._samples(workload, each.key)
            ),
            default=0.0,
        )

    def sync_table(self) -> str:
        def cell(workload: Workload) -> Callable[[str], str]:
            return lambda key: _text(self.results.syncs.get(workload.key, {}).get(key))

        return aligned(
            self._rows("syncs", [(f"{each.title}, a {each.unit_of_work}", cell(each)) for each in self.workloads])
        )

    def process_table(self) -> str:
        found = self.results

        def start(key: str) -> str:
            return str(spread(found.start_ms[key])) if key in found.start_ms else _NONE

        rows: list[tuple[str, Callable[[str], str]]] = [
            ("start to first answer, ms", start),
            ("resident when idle, MB", lambda key: _text(found.idle_mb.get(key))),
            ("processor when idle, %", lambda key: _text(found.idle_cpu_percent.get(key))),
            ("resident afterwards, MB", lambda key: _text(found.final_mb.get(key))),
        ]
        return aligned(self._rows("process", rows))

    def picture(self) -> str:
        rows = []
        for figure in self.figures():
            speeds = {each.name: figure.speed(each.key) for each in self.contestants if each.key != KAFKA}
            rows.append(picture.Row(figure.title, {name: speed for name, speed in speeds.items() if speed}))
        return picture.draw("Speed relative to Apache Kafka", "further right is faster; 1 is Kafka's median", rows)

    def write(self) -> None:
        """Into docs/performance.md and docs/images."""
        (IMAGES / IMAGE).write_text(self.picture(), encoding="utf-8")
        write_block("make bench", self.text())


def _with_speed(found: Spread | None, speed: float | None) -> str:
    if found is None:
        return "failed"
    return str(found) if speed is None else f"{found}, {number(speed)} ×"


def _text(value: float | None) -> str:
    return _NONE if value is None else number(value)


def number(value: float) -> str:
    """Three digits, as many as such measurements have; none behind the point of what is larger."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:#.3g}".rstrip(".") if value else "0"
