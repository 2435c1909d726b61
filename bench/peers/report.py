"""Tables of a run, and its block of docs/compare/performance.md.

Owns: medians, spreads, ratios, wording. Does not own: measuring (`run`), drawing (`picture`). A ratio is a speed: twice
as many records a second, or half the time, is 2 ×, and Kafka's median of the same run is 1.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from bench.page import IMAGES, aligned, write_block
from bench.peers import picture
from bench.peers.contestants import KAFKA, Contestant
from bench.peers.run import ALONE, Results
from bench.peers.workloads import Workload

IMAGE = "bench_peers.svg"
_CLIENT = "client"
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

    def cells(self) -> dict[str, str]:
        speeds = {key: None if key == KAFKA else self.speed(key) for key in self.spreads}
        return {
            key: f"{found}, {number(speed)} ×" if (speed := speeds[key]) is not None else str(found)
            for key, found in self.spreads.items()
        }


@dataclass(frozen=True, slots=True)
class Report:
    workloads: Sequence[Workload]
    contestants: Sequence[Contestant]
    versions: Mapping[str, str]
    left_out: Mapping[str, str]
    """Contestants that could not be prepared, by name, and why."""
    results: Results
    scale: int
    """As the plan's."""
    circumstances: Sequence[str]
    """Machine, disk, command: a line each."""
    in_process: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Microseconds without sockets and disk, by column and operation (`in_process`)."""

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
            "Median (lowest–highest) of the rounds, and the speed relative to Apache Kafka: above 1 × is faster. The",
            "client alone is librdkafka with its own mock of a broker, in the same process, which sleeps between",
            "requests: only a broker that does not can be faster with this client.",
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
            *self._in_process(),
        ]
        return "\n".join(parts)

    def tls_text(self) -> str:
        """Where each workload runs with TLS and without."""
        parts = [
            *(f"- {line}" for line in self._facts()),
            "",
            "Median (lowest–highest) of the rounds, and the speed relative to Apache Kafka: above 1 × is faster.",
            "",
            self.speed_table(()),
            "",
            "Processor seconds of the broker for one run of each workload. The last column is how much of one",
            "processor the client took, at most, which decrypts and encrypts as much as the broker.",
            "",
            self.cpu_table(),
            "",
        ]
        return "\n".join(parts)

    def _facts(self) -> Iterator[str]:
        yield from self.circumstances
        yield "; ".join(f"{each.name}: {self.versions[each.key]}" for each in self.contestants)
        for name, reason in self.left_out.items():
            yield f"{name} is left out: {reason}"
        for key, name in {**{each.key: each.name for each in self.contestants}, ALONE: ALONE.capitalize()}.items():
            for what, reason in self.results.failures.get(key, {}).items():
                title = next((workload.title for workload in self.workloads if workload.key == what), what)
                yield f"{name} failed in “{title}”: {reason}"

    def _table(self, first: str, rows: Rows, missing: str = "–", *more: str) -> str:
        """A column for each contestant, then one for each of `more`."""
        columns = {each.key: each.name for each in self.contestants} | {name: name for name in more}
        lines = [[title, *(cells.get(key, missing) for key in columns)] for title, cells in rows]
        return aligned([[first, *columns.values()], *lines])

    def speed_table(self, more: Sequence[str] = (ALONE,)) -> str:
        rows = [(f"{each.title}, {each.unit}", {ALONE: "–"} | each.cells()) for each in self.figures()]
        return self._table("workload", rows, "failed", *more)

    def cpu_table(self) -> str:
        """The last line adds up only for those that ran every workload: sums that can be compared."""
        rows: list[tuple[str, dict[str, str]]] = []
        totals = {each.key: 0.0 for each in self.contestants}
        for workload in self.workloads:
            samples = self.results.samples.get(workload.key, {})
            spent_s = {key: median([sample.broker_cpu_s for sample in each]) for key, each in samples.items()}
            totals = {key: total + spent_s[key] for key, total in totals.items() if key in spent_s}
            loads = [each for key, each in samples.items() if key != ALONE]
            shares = [median([sample.client_cpu_s / sample.wall_s for sample in each]) for each in loads]
            title = f"{workload.title}: {workload.scaled(self.scale):,} {workload.unit_of_work}s"
            rows.append((title, _ticks(spent_s) | {_CLIENT: f"{max(shares, default=0.0):.0%}"}))
        return self._table("workload", [*rows, ("all of them", _ticks(totals) | {_CLIENT: ""})], "–", _CLIENT)

    def sync_table(self) -> str:
        syncs = self.results.syncs
        rows = [(f"{each.title}: a {each.unit_of_work}", _numbers(syncs.get(each.key, {}))) for each in self.workloads]
        return self._table("workload", rows)

    def process_table(self) -> str:
        found = self.results
        rows = [
            ("start to first answer, ms", {key: str(spread(each)) for key, each in found.start_ms.items()}),
            ("resident when idle, MB", _numbers(found.idle_mb)),
            ("processor when idle, %", _numbers(found.idle_cpu_percent)),
            ("resident afterwards, MB", _numbers(found.final_mb)),
        ]
        return self._table("broker", rows)

    def _in_process(self) -> Iterator[str]:
        if not self.in_process:
            return
        yield "Processor time of this broker in microseconds, from the bytes of the request to those of the response,"
        yield "with all that follows in the same moment, without sockets and disk: the least of many times"
        yield "(`bench/hot_paths.py`)."
        yield ""
        titles = next(iter(self.in_process.values()))
        rows = [[title, *(number(column[title]) for column in self.in_process.values())] for title in titles]
        yield aligned([["operation", *self.in_process], *rows])
        yield ""

    def picture(self) -> str:
        rows = []
        for figure in self.figures():
            speeds = {each.name: figure.speed(each.key) for each in self.contestants if each.key != KAFKA}
            rows.append(picture.Row(figure.title, {name: speed for name, speed in speeds.items() if speed}))
        return picture.draw("Speed relative to Apache Kafka", "further right is faster; 1 is Kafka's median", rows)

    def write_tls(self) -> str:
        """Returns where."""
        write_block("make bench ARGS=--tls", self.tls_text())
        return "docs/compare/performance.md"

    def write(self) -> str:
        """Returns where."""
        (IMAGES / IMAGE).write_text(self.picture(), encoding="utf-8")
        write_block("make bench", f"![Speed relative to Apache Kafka](../images/{IMAGE})\n\n{self.text()}")
        return "docs/compare/performance.md and docs/images"


def _ticks(values: Mapping[str, float]) -> dict[str, str]:
    """The system counts processor time in steps of 0.01 s."""
    return {key: f"{value:.2f}" for key, value in values.items()}


def _numbers(values: Mapping[str, float]) -> dict[str, str]:
    return {key: number(value) for key, value in values.items()}


def number(value: float) -> str:
    """Three digits, as many as such measurements have, and no more than five behind the point."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    if 0 < abs(value) < 0.001:
        return f"{value:.5f}"
    return f"{value:#.3g}".rstrip(".") if value else "0"
