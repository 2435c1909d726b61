"""Tables of a run, for its block of docs/compare/performance.md.

Owns: which figures there are, wording. Does not own: measuring (`run`), medians, spreads and speeds (`harness`), which
are relative to files.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import median

from bench.harness.figures import FAILED, Figure, number, rows_of, spread, table
from bench.page import aligned
from bench.peers.workloads import Workload
from bench.postgres.run import FILES, NAMES, POSTGRES, Sample

Samples = Mapping[str, Mapping[str, Sequence[Sample]]]
"""By workload, then by broker, both by key."""
_PRODUCED = {"produce-wait": 100, "sixteen": 100, "produce-1k": 1_000}
"""Bytes of the value of a record, where records are written."""


def figures(samples: Samples, workloads: Sequence[Workload]) -> Iterator[Figure]:
    for workload in workloads:
        found = samples.get(workload.key, {})
        values = {key: spread([each.value for each in of]) for key, of in found.items()}
        if workload.rate is not None:
            yield Figure(workload.title, workload.unit, True, values, FILES)
            continue
        yield Figure(f"{workload.title}, p50", "ms", False, values, FILES)
        slowest = {key: spread([each.p99_ms or 0.0 for each in of]) for key, of in found.items()}
        yield Figure(f"{workload.title}, p99", "ms", False, slowest, FILES)


def text(samples: Samples, workloads: Sequence[Workload], scale: int, facts: Sequence[str]) -> str:
    parts = [
        *(f"- {line}" for line in facts),
        "",
        "Median (lowest–highest) of the rounds, and the speed relative to files: above 1 × is faster.",
        "",
        table("workload", rows_of(figures(samples, workloads)), NAMES, FAILED),
        "",
        "Processor seconds of one run of each workload, until what it has written is in chunks and memory is at rest:",
        "some twelve seconds, of which an idle broker and an idle PostgreSQL take their share.",
        "",
        _cpu_table(samples, workloads, scale),
        "",
        "What a run has PostgreSQL write for each byte of a value that was produced: to its write-ahead log, and by",
        "how much its tables have grown once the journal is in chunks.",
        "",
        _bytes_table(samples, workloads, scale),
        "",
    ]
    return "\n".join(parts)


def _cpu_table(samples: Samples, workloads: Sequence[Workload], scale: int) -> str:
    lines = [["workload", "broker over files", "broker over PostgreSQL", "PostgreSQL"]]
    for workload in workloads:
        count = workload.scaled(scale)
        found = samples.get(workload.key, {})
        files = _median(found.get(FILES, ()), lambda each: each.broker_cpu_s)
        broker = _median(found.get(POSTGRES, ()), lambda each: each.broker_cpu_s)
        database = _median(found.get(POSTGRES, ()), lambda each: each.database_cpu_s)
        lines.append([f"{workload.title}: {count:,} {workload.unit_of_work}s", files, broker, database])
    return aligned(lines)


def _bytes_table(samples: Samples, workloads: Sequence[Workload], scale: int) -> str:
    lines = [["workload", "write-ahead log", "tables"]]
    for workload in workloads:
        size = _PRODUCED.get(workload.key)
        if size is not None:
            produced = workload.scaled(scale) * size
            found = samples.get(workload.key, {}).get(POSTGRES, ())
            lines.append([workload.title, *(_median(found, _part(name, produced)) for name in ("wal", "table"))])
    return aligned(lines)


def _part(name: str, produced: int) -> Callable[[Sample], float]:
    return lambda each: (each.wal_bytes if name == "wal" else each.table_bytes) / produced


def _median(found: Sequence[Sample], value_of: Callable[[Sample], float]) -> str:
    return number(median(map(value_of, found))) if found else FAILED
