"""Tables of a run, and its block of docs/compare/performance.md.

Owns: medians, spreads, ratios, wording. Does not own: measuring (`__main__`). A ratio is a speed relative to aiokafka's
median of the same run: above 1 × is faster, or less processor time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Protocol

from bench.clients.parts import CONSUMING, PRODUCING
from bench.clients.workers import AIOKAFKA, Client
from bench.page import IMAGES, aligned, write_block
from bench.peers import picture
from bench.peers.report import Spread, number, spread

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
        found = self.samples.get(workload.key, {}).get(client)
        count = workload.count // self.scale
        return spread([each["cpu_s"] / count * 1e6 for each in found]) if found else None

    def rate(self, workload: Measured, client: str) -> Spread | None:
        """Thousands of records a second; milliseconds of one that is waited for."""
        found = self.samples.get(workload.key, {}).get(client)
        if not found:
            return None
        if workload.method == "produce_and_wait":
            return spread([median(each["durations_s"]) * 1e3 for each in found])
        return spread([workload.count // self.scale / each["wall_s"] / 1e3 for each in found])

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
        lines = [["processor time, µs a record", *(each.name for each in self.clients)]]
        for workload in self.workloads:
            aiokafkas = self.cpu_us(workload, AIOKAFKA)
            cells = []
            for client in self.clients:
                own = self.cpu_us(workload, client.key)
                ratio = aiokafkas.median / own.median if own and aiokafkas else None
                cells.append(_cell(own, ratio, client.key))
            lines.append([workload.title, *cells])
        return aligned(lines)

    def _rate_table(self) -> str:
        lines = [["", *(each.name for each in self.clients)]]
        for workload in self.workloads:
            waits = workload.method == "produce_and_wait"
            aiokafkas = self.rate(workload, AIOKAFKA)
            cells = []
            for client in self.clients:
                own = self.rate(workload, client.key)
                ratio = own.median / aiokafkas.median if own and aiokafkas else None
                cells.append(_cell(own, 1 / ratio if ratio and waits else ratio, client.key))
            lines.append([f"{workload.title}, {'p50, ms' if waits else 'k records/s'}", *cells])
        return aligned(lines)

    def _parts_table(self) -> str:
        names = {each.key: each.name for each in self.clients}
        lines = [["", *(names[key] for key in self.parts)]]
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
        rows = []
        for workload in self.workloads:
            aiokafkas = self.cpu_us(workload, AIOKAFKA)
            found = {each.name: self.cpu_us(workload, each.key) for each in self.clients if each.key != AIOKAFKA}
            speeds = {name: aiokafkas.median / own.median for name, own in found.items() if own and aiokafkas}
            rows.append(picture.Row(workload.title, speeds))
        subtitle = "further right needs less processor time for a record; 1 is aiokafka's median"
        return picture.draw("Clients relative to aiokafka", subtitle, rows)

    def write(self) -> None:
        """Into docs/compare/performance.md and docs/images."""
        (IMAGES / IMAGE).write_text(self.picture(), encoding="utf-8")
        write_block("make bench-clients", f"![Clients relative to aiokafka](../images/{IMAGE})\n\n{self.text()}")


def _cell(found: Spread | None, ratio: float | None, client: str) -> str:
    if found is None:
        return "failed"
    return str(found) if ratio is None or client == AIOKAFKA else f"{found}, {number(ratio)} ×"
