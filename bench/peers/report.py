"""Tables of a run, and its block of docs/compare/performance.md.

Owns: which figures there are, wording. Does not own: measuring (`run`), medians, spreads and speeds (`harness`), which
are relative to Apache Kafka.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from bench.harness import picture
from bench.harness.figures import FAILED, Figure, number, rows_of, speeds_of, spread, table
from bench.page import IMAGES, aligned, write_block
from bench.peers.contestants import KAFKA, Contestant
from bench.peers.run import ALONE, Results
from bench.peers.workloads import Workload

IMAGE = "bench_peers.svg"
_CLIENT = "client"


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
                yield Figure(workload.title, workload.unit, True, values, KAFKA)
                continue
            yield Figure(f"{workload.title}, p50", workload.unit, False, values, KAFKA)
            slowest = {key: spread([sample.p99_ms or 0.0 for sample in each]) for key, each in samples.items()}
            yield Figure(f"{workload.title}, p99", workload.unit, False, slowest, KAFKA)

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
        for key, name in (self._names | {ALONE: ALONE.capitalize()}).items():
            for what, reason in self.results.failures.get(key, {}).items():
                title = next((workload.title for workload in self.workloads if workload.key == what), what)
                yield f"{name} failed in “{title}”: {reason}"

    @property
    def _names(self) -> dict[str, str]:
        """The titles of the contestants' columns."""
        return {each.key: each.name for each in self.contestants}

    def speed_table(self, more: Sequence[str] = (ALONE,)) -> str:
        rows = [(title, {ALONE: "–"} | cells) for title, cells in rows_of(self.figures())]
        return table("workload", rows, self._names | {name: name for name in more}, FAILED)

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
        rows.append(("all of them", _ticks(totals) | {_CLIENT: ""}))
        return table("workload", rows, self._names | {_CLIENT: _CLIENT})

    def sync_table(self) -> str:
        syncs = self.results.syncs
        rows = [(f"{each.title}: a {each.unit_of_work}", _numbers(syncs.get(each.key, {}))) for each in self.workloads]
        return table("workload", rows, self._names)

    def process_table(self) -> str:
        found = self.results
        rows = [
            ("start to first answer, ms", {key: str(spread(each)) for key, each in found.start_ms.items()}),
            ("resident when idle, MB", _numbers(found.idle_mb)),
            ("processor when idle, %", _numbers(found.idle_cpu_percent)),
            ("resident afterwards, MB", _numbers(found.final_mb)),
        ]
        return table("broker", rows, self._names)

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
        speeds = speeds_of(self.figures(), self._names)
        return picture.draw("Speed relative to Apache Kafka", "further right is faster; 1 is Kafka's median", speeds)

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
