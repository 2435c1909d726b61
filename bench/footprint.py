"""Memory per item, and how long a start takes to load all of them again.

Owns: these two numbers. Each is measured in a separate process (`python -m bench.footprint KIND COUNT`), so that
earlier measurements do not count: memory as the system sees it, time from nothing to a log that serves.
"""

import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.batches import NOW_MS, BatchMaker
from bench.coordinator_world import Coordinator, broker_on
from bench.log_worlds import TOPIC_ID, AbortedTransactions, LogWorld, OpenTransactions, ProducerIds, Segments
from oncelog.broker.turns.slices import at_once
from oncelog.protocol.generated.create_topics_request import CreatableTopic, CreateTopicsRequest
from tests.fakes.logs import files_of

LOG_KINDS: dict[str, type[LogWorld]] = {
    kind.axis: kind for kind in (Segments, OpenTransactions, ProducerIds, AbortedTransactions)
}
PARTITIONS = "partitions with a batch"
_ROOT = Path(__file__).parent.parent


@dataclass(frozen=True, slots=True)
class Footprint:
    kind: str
    count: int
    bytes_each: float
    clean_start_ms: float | None = None
    """Processor time of opening the log after a clean stop."""
    killed_start_ms: float | None = None
    """The same after kill -9, without a snapshot and an index of the active segment."""


def measure_apart(kind: str, count: int) -> Footprint:
    """In a separate process."""
    command = [sys.executable, "-m", "bench.footprint", kind, str(count)]
    ended = subprocess.run(command, cwd=_ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return Footprint(**json.loads(ended.stdout))


def footprint(kind: str, count: int, path: Path) -> Footprint:
    if kind in LOG_KINDS:
        return _of_log(LOG_KINDS[kind], count, path)
    if kind == Coordinator.axis:
        return _of_coordinator(count, path)
    if kind == PARTITIONS:
        return _of_partitions(count, path)
    raise ValueError(f"unknown kind {kind!r}")


def _of_log(kind: type[LogWorld], count: int, path: Path) -> Footprint:
    kind(path / "warm-up", 10).filled(_ignore)
    before = _resident_bytes()
    world = kind(path / "log", count).filled(_ignore)
    world.batches.forget()
    bytes_each = (_resident_bytes() - before) / count
    files_of(world.log).close()
    killed_ms = _start_ms(world)
    manager = world.started()
    at_once(manager.open("topic", 0, TOPIC_ID, world.config))
    problem = manager.close()
    if problem is not None:
        raise problem
    return Footprint(kind.axis, count, bytes_each, _start_ms(world), killed_ms)


def _start_ms(world: LogWorld) -> float:
    started_ns = time.process_time_ns()
    log = at_once(world.started().open("topic", 0, TOPIC_ID, world.config))
    duration_ms = (time.process_time_ns() - started_ns) / 1e6
    if log.offline_error is not None or log.log_end_offset != world.log.log_end_offset:
        raise RuntimeError(f"the start has lost something: {log.offline_error}")
    files_of(log).close()
    return duration_ms


def _of_coordinator(count: int, path: Path) -> Footprint:
    Coordinator(path / "warm-up", 10).filled(_ignore)
    before = _resident_bytes()
    world = Coordinator(path / "broker", count).filled(_ignore)
    bytes_each = (_resident_bytes() - before) / count
    if world.broker.broker.transactions.open_count != count:
        raise RuntimeError("not every transaction is open")
    return Footprint(Coordinator.axis, count, bytes_each)


def _of_partitions(count: int, path: Path) -> Footprint:
    broker = broker_on(path)
    before = _resident_bytes()
    topic = CreatableTopic(name="many", num_partitions=count, replication_factor=1)
    broker.ask(CreateTopicsRequest(topics=[topic]), 4)
    for partition in range(count):
        log = broker.broker.topics.partition("many", partition)
        log.append(BatchMaker().next(), wall_ms=NOW_MS)
    broker.time.settle()
    return Footprint(PARTITIONS, count, (_resident_bytes() - before) / count)


def _resident_bytes() -> int:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _ignore(_: int) -> None:
    return


def main() -> None:
    kind, count = sys.argv[1], int(sys.argv[2])
    with tempfile.TemporaryDirectory() as directory:
        print(json.dumps(asdict(footprint(kind, count, Path(directory)))))


if __name__ == "__main__":
    main()
