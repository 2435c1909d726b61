"""How fast `oncelog copy` is between two brokers of this machine. Written to docs/operate/beyond-one-node.md.

Owns: the logs that are copied, what is timed: the command, as a user starts it, from its start to its end. Does not
own: the copy. The brokers sync what they acknowledge; each round copies each log once, from a new broker to a new one.
"""

import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench.page import ROOT, aligned, write_block
from oncelog.client import Admin, NewTopic, Producer
from oncelog.testing import Broker

PAGE = ROOT / "docs" / "operate" / "beyond-one-node.md"
COMMAND = "make bench WHAT=copy"
_ROUNDS = 3
_PARTITIONS = 3


@dataclass(frozen=True, slots=True)
class Log:
    """`record_count` records of `record_bytes`, in batches of at most `batch_bytes`; 0: one record a batch."""

    name: str
    record_bytes: int
    record_count: int
    batch_bytes: int


_LOGS = (
    Log("1 kB, batches of 16 kB", 1_000, 100_000, 16 << 10),
    Log("1 kB, batches of 256 kB", 1_000, 100_000, 256 << 10),
    Log("100 B, batches of 16 kB", 100, 500_000, 16 << 10),
    Log("100 B, a batch for each record", 100, 40_000, 0),
)


async def _fill(bootstrap: str, log: Log) -> None:
    async with Admin(bootstrap) as admin:
        await admin.create_topics(NewTopic("copied", _PARTITIONS))
    async with Producer(bootstrap, batch_size=log.batch_bytes, linger_ms=20 if log.batch_bytes else 0) as producer:
        for number in range(log.record_count):
            await producer.send_soon("copied", os.urandom(log.record_bytes), partition=number % _PARTITIONS)


def _measure(log: Log) -> tuple[float, float]:
    """Seconds from the start of the command to its end, and its processor seconds."""
    with tempfile.TemporaryDirectory() as place:
        ours, theirs = (Broker(storage=Path(place) / name, process=True) for name in ("source", "target"))
        with ours as source, theirs as target:
            asyncio.run(_fill(source.bootstrap_servers, log))
            addresses = source.bootstrap_servers, target.bootstrap_servers
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            command = [sys.executable, "-m", "oncelog", "copy", *addresses, "--once", "--json"]
            shown = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = json.loads(shown.splitlines()[-1])
    if done["records"] != log.record_count:
        raise RuntimeError(f"{log.name}: {done['records']} records were copied")
    return done["seconds"], after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> int:
    """Measure in turns, and write the page."""
    measured: dict[Log, list[tuple[float, float]]] = {log: [] for log in _LOGS}
    for _ in range(_ROUNDS):
        for log in _LOGS:
            measured[log].append(_measure(log))
    rows = [("records", "MB/s", "records/s", "processor time of the copy")]
    for log, runs in measured.items():
        seconds, processor = median(each for each, _ in runs), median(each for _, each in runs)
        size = log.record_bytes * log.record_count
        fields = f"{size / 1e6 / seconds:.0f}", f"{log.record_count / seconds:,.0f}"
        rows.append((log.name, *fields, f"{processor / size * 1e9:.1f} s a GB"))
    load = os.getloadavg()[0]
    text = (
        f"- {os.cpu_count()} cores, load {load:.1f} at the end; the median of {_ROUNDS} rounds. Written by `{COMMAND}`"
    )
    write_block(COMMAND, f"{text}\n\n{aligned(rows)}", PAGE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
