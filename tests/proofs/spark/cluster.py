"""Faults of a cluster: a task of one batch kills its Python process, its executor or its worker, or is slow.

The task itself does it, at the first attempt to run one partition of one batch, before its rows go to the sink or when
all of them have gone there. A slow task is run a second time beside the first (speculation): the two race.
"""

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

from tests.proofs.spark.page import Found, compare
from tests.proofs.spark.scene import FORMAT, OURS, SINKS, SPARK, Address, Scene, outputs
from tests.proofs.spark.session import OTHERS_EVERY, has_connector, session
from tests.spark.scenes import BATCHES, create, expected, make_input
from tests.support.spark.cluster import SparkCluster, spark_cluster

SLOW_S = 20.0
FAULTS = {
    "a Python worker is killed": "python",
    "an executor is killed": "executor",
    "a worker is killed, with its executor": "worker",
    "a slow task runs a second time (speculation)": "slow",
}
SETTINGS = {
    "spark.executor.memory": "512m",
    # A row at a time, and not kept in a buffer: what a task has yielded has gone to the sink when the fault comes.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1",
    "spark.buffer.size": "128",
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.minTaskRuntime": "500ms",
}


# Its inner functions are sent to the executors whole, so none can be taken out.
def faulty_task(kind: str, partition: int, nth: int, is_late: bool, notes: str) -> Callable[[Any], Iterator[Any]]:  # noqa: C901
    """Returns a function for mapInArrow. The `nth` attempt at the partition has the fault; attempts leave a note."""
    slow_s = SLOW_S

    # A function inside another one is sent to the executors whole: they have no tests to import.
    def visit() -> int:
        import os

        number = 0
        while True:
            number += 1
            try:
                os.close(os.open(f"{notes}/{number}", os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                continue
            return number

    def parent(pid: int) -> int:
        from pathlib import Path

        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])

    def strike() -> None:
        import os
        import signal
        import threading

        executor = parent(os.getppid())  # between them is the process from which Python workers are forked
        if kind == "slow":
            threading.Event().wait(slow_s)
        elif kind == "python":
            os.kill(os.getpid(), signal.SIGKILL)
        else:
            victims = [executor] if kind == "executor" else [parent(executor), executor]
            for pid in victims:
                os.kill(pid, signal.SIGKILL)

    def in_task(batches: Any) -> Iterator[Any]:
        from pyspark import TaskContext

        context = TaskContext.get()
        strikes = context is not None and context.partitionId() == partition and visit() == nth
        if strikes and not is_late:
            strike()
        yield from batches
        if strikes and is_late:
            strike()

    return in_task


def run_seed(cluster: SparkCluster, spark: Any, broker: Address, seed: int, fault: str, sink: str) -> Found:
    began_s = time.monotonic()
    random = Random(seed)
    nth = random.randrange(1, BATCHES + 1)
    topic = f"cluster-{seed}-{os.urandom(3).hex()}"
    create(broker, topic)
    with tempfile.TemporaryDirectory(prefix="oncelog-proof-") as directory:
        make_input(Path(directory, "in"))
        notes = Path(directory, "notes")
        notes.mkdir()
        scene = Scene(spark, broker, Path(directory), sink, topic, random)
        scene.in_task = faulty_task(FAULTS[fault], random.randrange(2), nth, random.random() < 0.5, str(notes))
        scene.run()
        attempts = len(list(notes.iterdir()))
        assert attempts > BATCHES, f"{fault}: only {attempts} attempts, so nothing ran a second time"
        lost, doubled = compare(outputs(broker, topic, Path(directory), sink), expected())
    cluster.restore()
    return Found("cluster", "oncelog", fault, sink, seed, lost, doubled, 0, round(time.monotonic() - began_s, 2))


def seeds(first: int, count: int) -> Iterator[tuple[int, str, str]]:
    """Number, fault, sink: the sinks of ours in every round, the others in some."""
    seed = round_ = 0
    while seed < first + count:
        for fault in FAULTS:
            for sink in SINKS:
                if sink in (OURS, FORMAT) or round_ % OTHERS_EVERY == 0:
                    if first <= seed < first + count:
                        yield seed, fault, sink
                    seed += 1
        round_ += 1


def run(work: Path, broker: Address, first: int, count: int, sinks: tuple[str, ...]) -> Iterator[Found]:
    from oncelog.pipeline.java import java_home

    with spark_cluster(work, java_home(work)[0]) as cluster, session(work, cluster.master, SETTINGS) as spark:
        cluster.restore()
        for seed, fault, sink in seeds(first, count):
            if sink in sinks and (sink != SPARK or has_connector(spark)):
                yield run_seed(cluster, spark, broker, seed, fault, sink)
