"""What became of the rows: one line of JSON for each seed, and the page that is written from these lines."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from tests.proofs.spark.scene import FORMAT, OURS, SINKS
from tests.proofs.table import Kept, table


@dataclass(frozen=True, slots=True)
class Found:
    """The result of one seed, or the sum over all seeds of one cell."""

    part: str
    """session, kills or cluster."""
    broker: str
    fault: str
    sink: str
    seed: int
    lost: int
    """Rows, of all outputs together."""
    doubled: int
    refused: int
    """1: the sink refused to continue, with a sentence."""
    seconds: float = 0.0

    @property
    def is_bad(self) -> bool:
        """A sink of ours lost or doubled something."""
        return self.sink in (OURS, FORMAT) and bool(self.lost or self.doubled)


def compare(
    found: Iterable[Mapping[str, int]], expected: Mapping[str, int], noted: Mapping[str, int] | None = None
) -> tuple[int, int]:
    """Rows lost and doubled in all outputs; those that are not `noted` as done may be still to come."""
    outputs = [Counter(each) for each in found]
    wanted = Counter(expected if noted is None else noted)
    return sum((wanted - each).total() for each in outputs), sum((each - Counter(expected)).total() for each in outputs)


KEPT = Kept(
    lambda line: Found(**line), key=lambda found: (found.part, found.broker, found.fault, found.sink, found.seed)
)
_PARTS = {
    ("session", "oncelog"): "In one warm session: a driver that dies is dropped as kill -9 drops it, without a last "
    "word and with its connections broken.",
    ("session", "Apache Kafka 4.3"): "The same with Apache Kafka 4.3 as the broker (`BROKER=kafka`), without the "
    "faults that need a broker whose requests and clock can be held.",
    ("kills", "oncelog"): "Real kills (SIGKILL) of a driver of its own, one after the other on one query: each next "
    "driver continues from the checkpoint, until it is killed too.",
    ("cluster", "oncelog"): "On a master and two workers, speculation switched on.",
}


def page(results: Iterable[Found]) -> str:
    """Return the text of docs/spark/spark-proof.md below its title."""
    found = list(results)
    ours = [each for each in found if each.sink in (OURS, FORMAT)]
    bad = sum(each.is_bad for each in ours)
    lines = [
        "Written by `make proof WHAT=spark` from the run's results. A seed is one query, one sink and one fault; "
        "afterwards the topic is read at read_committed and compared row by row with what went in. `exactly_once` "
        "writes each batch to a Delta table as well, which is compared as the topic is.",
        "",
        f"**{len(ours)} seeds on the two sinks of oncelog: {sum(each.lost for each in ours)} rows lost, "
        f"{sum(each.doubled for each in ours)} doubled**, in {bad} seeds; {sum(each.refused for each in ours)} refused "
        f"with a sentence that says why. {len(found) - len(ours)} seeds on the two others, for comparison.",
        "",
        "A cell: seeds, rows lost, rows doubled, refusals.",
    ]
    for (part, broker), sentence in _PARTS.items():
        chosen = [each for each in found if (each.part, each.broker) == (part, broker)]
        if chosen:
            lines += ["", f"## {_title(part, broker)}", "", sentence, "", *_table(chosen)]
    return "\n".join(lines) + "\n"


def _title(part: str, broker: str) -> str:
    return {"session": f"A warm session, {broker}", "kills": "Processes killed", "cluster": "A cluster"}[part]


def _table(found: list[Found]) -> list[str]:
    cells: dict[tuple[str, str], Found] = {}
    counts: Counter[tuple[str, str]] = Counter()
    for each in found:
        key = each.fault, each.sink
        counts[key] += 1
        sum_ = cells.get(key)
        cells[key] = each if sum_ is None else _add(sum_, each)
    rows = (
        (fault, *(_cell(cells.get((fault, sink)), counts[fault, sink]) for sink in SINKS))
        for fault in dict.fromkeys(each.fault for each in found)
    )
    return [*table(("fault", *(f"`{sink}`" for sink in SINKS)), rows)]


def _add(one: Found, other: Found) -> Found:
    return replace(
        one, lost=one.lost + other.lost, doubled=one.doubled + other.doubled, refused=one.refused + other.refused
    )


def _cell(found: Found | None, seeds: int) -> str:
    if found is None:
        return "–"
    refused = f", {found.refused} refused" if found.refused else ""
    return f"{seeds}: {found.lost} lost, {found.doubled} doubled{refused}"
