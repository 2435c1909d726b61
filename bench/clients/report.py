"""Tables of a run, and its block of docs/compare/performance.md.

Owns: which figures there are, wording. Does not own: measuring (`__main__`), medians, spreads and speeds (`harness`),
which are relative to aiokafka: above 1 × is faster, or less processor time.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Protocol

from bench.clients.parts import CONSUMING, PRODUCING
from bench.clients.workers import AIOKAFKA, Client
from bench.harness import picture
from bench.harness.figures import FAILED, Figure, Spread, number, rows_of, speeds_of, spread, table
from bench.page import IMAGES, aligned, write_block

IMAGE = "bench_clients.svg"
_REST = "event loop, requests, sockets, the benchmark's own loop"


class Measured(Protocol):
    """What the report needs to know of a workload."""

    @property
    def key(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def method(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def count(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Report:
    workloads: Sequence[Measured]
    clients: Sequence[Client]
    samples: Mapping[str, Mapping[str, Sequence[Mapping[str, Any]]]]
    """By workload, then by client."""
    scale: int
    parts: Mapping[str, Mapping[str, Mapping[str, float]]]
    """Microseconds by client, size and step."""
    facts: Sequence[str]

    def cpu_us(self, workload: Measured, client: str) -> Spread | None:
        """Of the client's process, an operation."""
        return self.cpu(workload).spreads.get(client)

    def cpu(self, workload: Measured) -> Figure:
        """Microseconds of the clients' processes, an operation."""
        count = workload.count // self.scale
        spreads = self._spreads(workload, lambda sample: sample["cpu_s"] / count * 1e6)
        return Figure(workload.title, "", False, spreads, AIOKAFKA)

    def rate(self, workload: Measured) -> Figure:
        """Thousands of records a second; milliseconds of one that is waited for."""
        if workload.method == "produce_and_wait":
            spreads = self._spreads(workload, lambda sample: median(sample["durations_s"]) * 1e3)
            return Figure(workload.title, "p50, ms", False, spreads, AIOKAFKA)
        count = workload.count // self.scale
        spreads = self._spreads(workload, lambda sample: count / sample["wall_s"] / 1e3)
        return Figure(workload.title, "k records/s", True, spreads, AIOKAFKA)

    def _spreads(self, workload: Measured, value_of: Callable[[Mapping[str, Any]], float]) -> dict[str, Spread]:
        samples = self.samples.get(workload.key, {})
        return {client: spread([value_of(sample) for sample in each]) for client, each in samples.items() if each}

    @property
    def _names(self) -> dict[str, str]:
        return {each.key: each.name for each in self.clients}

    def text(self) -> str:
        return "\n".join(
            [
                *(f"- {line}" for line in self.facts),
                "",
                "Processor time of the client's process in microseconds a record, all its threads and its share of the",
                "kernel: median (lowest–highest) of the rounds, and how much less that is than aiokafka's.",
                "",
                self._cpu_table(),
                "",
                "What passed on the clock. The broker works meanwhile: where the client is quick, it is what limits.",
                "",
                self._rate_table(),
                "",
                "Where the processor time of this client goes, microseconds a record: its steps measured without event",
                "loop and sockets (`bench/clients/parts.py`), and what is left of the whole.",
                "",
                self._parts_table(),
                "",
            ]
        )

    def _cpu_table(self) -> str:
        rows = rows_of(map(self.cpu, self.workloads))
        return table("processor time, µs a record", rows, self._names, FAILED)

    def _rate_table(self) -> str:
        return table("", rows_of(map(self.rate, self.workloads)), self._names, FAILED)

    def _parts_table(self) -> str:
        lines = [["", *(self._names[key] for key in self.parts)]]
        for workload in self.workloads:
            steps = {"produce": PRODUCING, "consume_batches": CONSUMING}.get(workload.method, ())
            own = {step: [by_size[str(workload.size)][step] for by_size in self.parts.values()] for step in steps}
            lines += [[f"{workload.title}: {step}", *map(number, values)] for step, values in own.items()]
            if steps:
                wholes = [self.cpu_us(workload, key) for key in self.parts]
                sums = map(sum, zip(*own.values(), strict=True))
                rests = [whole.median - done if whole else 0.0 for whole, done in zip(wholes, sums, strict=True)]
                lines.append([f"{workload.title}: {_REST}", *map(number, rests)])
        return aligned(lines)

    def picture(self) -> str:
        speeds = speeds_of(map(self.cpu, self.workloads), self._names)
        subtitle = "further right needs less processor time for a record; 1 is aiokafka's median"
        return picture.draw("Clients relative to aiokafka", subtitle, speeds)

    def write(self) -> None:
        """Into docs/compare/performance.md and docs/images."""
        (IMAGES / IMAGE).write_text(self.picture(), encoding="utf-8")
        write_block("make bench WHAT=clients", f"![Clients relative to aiokafka](../images/{IMAGE})\n\n{self.text()}")
