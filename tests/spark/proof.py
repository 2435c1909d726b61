"""`make spark-proof`: seeded faults on four sinks in one warm session; what each lost, doubled and refused, as a table.

    python -m tests.spark.proof --seeds 500 [--first 0] [--write docs/spark-proof.md]

One seed is one query of three micro-batches and one fault: it is run until the fault ends it, run again from its
checkpoint until it has processed everything, and then the topic is read at read_committed and compared row by row. A
driver that dies is dropped as kill -9 drops it (`tests.support.driver_death`). The same fault meets Spark's own Kafka
sink, a plain foreachBatch with an idempotent producer, and both doors of ours.
"""

import argparse
import asyncio
import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from oncelog.client import Producer
from oncelog.pipeline.sink import Step, exactly_once
from oncelog.pipeline.sink.checkpoint import Checkpoint
from oncelog.pipeline.sink.plan import sink_id_of, wanted_marker
from oncelog.pipeline.sink.publish import Moment, SinkSettings, publish
from oncelog.pipeline.sink.spool import SpoolWriter
from oncelog.protocol.records.batch import encode_batch
from oncelog.protocol.records.record import Record
from tests.spark.scenes import BATCHES, ROWS, create, expected, make_input, run_to_end, stream, values
from tests.support.daemon import Daemon
from tests.support.driver_death import deaths
from tests.support.faults import faults_of

MONTH_MS = 30 * 86_400_000
HIT = 1
"""The batch that a fault meets."""
OURS, FORMAT, NAIVE, SPARK = "exactly_once", 'format("oncelog")', "plain foreachBatch", 'format("kafka")'
SINKS = (OURS, FORMAT, NAIVE, SPARK)


class Interrupted(Exception):
    """The plain foreachBatch dies here."""


@dataclass
class Scene:
    """One query of one sink."""

    spark: Any
    daemon: Daemon
    directory: Path
    sink: str
    topic: str
    random: Random
    tasks: int = 2
    harness: dict[str, Any] = field(default_factory=dict)
    """Of `exactly_once`, for the batch that the fault meets."""
    interrupts: bool = False
    """The batch that the fault meets is ended when half of it is written."""

    @property
    def checkpoint(self) -> Path:
        return self.directory / "checkpoint"

    def run(self) -> None:
        """From the checkpoint to the end. Raises what ends the query."""
        rows = stream(self.spark, self.directory / "in").repartition(self.tasks)
        if self.interrupts and self.sink in (FORMAT, SPARK):
            rows = rows.selectExpr("key", f"if(value = '{HIT}:0', raise_error('interrupted'), value) as value")
        writer = rows.writeStream.option("checkpointLocation", str(self.checkpoint))
        if self.sink in (FORMAT, SPARK):
            writer = writer.format("oncelog" if self.sink == FORMAT else "kafka").option("topic", self.topic)
            writer = writer.option("kafka.bootstrap.servers", self.daemon.bootstrap)
        else:
            writer = writer.foreachBatch(self.ours if self.sink == OURS else self.naive)
        run_to_end(writer)

    def ours(self, batch: Any, batch_id: int) -> None:
        options = {"kafka.bootstrap.servers": self.daemon.bootstrap, "checkpointLocation": str(self.checkpoint)}
        with exactly_once(batch, batch_id, options, **(self.harness if batch_id == HIT else {})) as once:
            once.to_topic(batch, self.topic)

    def naive(self, batch: Any, batch_id: int) -> None:
        rows = batch.toArrow().to_pylist()
        if self.interrupts and batch_id == HIT:
            asyncio.run(self._send(rows[: len(rows) // 2]))
            raise Interrupted
        asyncio.run(self._send(rows))

    async def _send(self, rows: list[dict[str, str]]) -> None:
        async with Producer(self.daemon.bootstrap, enable_idempotence=True) as producer:
            for row in rows:
                await producer.send_soon(self.topic, row["value"].encode(), key=row["key"].encode())
            await producer.flush()

    def forget_last_commit(self) -> None:
        """The driver died after the sink had committed and before Spark noted that."""
        for name in (str(BATCHES - 1), f".{BATCHES - 1}.crc"):
            (self.checkpoint / "commits" / name).unlink()

    def run_expecting_the_end(self) -> None:
        try:
            self.run()
        except Exception as error:
            if not any(word in str(error) for word in ("DriverDied", "Interrupted", "interrupted")):
                raise
        else:
            raise AssertionError("the fault ended nothing")
        self.harness, self.interrupts = {}, False


# --- faults: each runs the query to its end ---------------------------------------------------------------------------


def dies_before_spark_notes_the_batch(scene: Scene) -> None:
    scene.run()
    scene.forget_last_commit()
    scene.run()


def dies_and_the_batch_is_split_differently(scene: Scene) -> None:
    scene.run()
    scene.forget_last_commit()
    scene.tasks = scene.random.choice((1, 3, 5))
    scene.run()


def dies_inside_the_batch(scene: Scene) -> None:
    if scene.sink == OURS:
        death = scene.random.choice(deaths(1))
        scene.harness = {"on_step": death.on_step, "run": death.run}
    scene.interrupts = True
    scene.run_expecting_the_end()
    scene.tasks = scene.random.choice((1, 2, 3))
    scene.run()


def an_old_checkpoint_is_restored(scene: Scene) -> None:
    first = scene.random.randrange(1, BATCHES)
    source, old = scene.directory / "in", scene.directory / "old"
    later = [source / f"{batch}.json" for batch in range(first, BATCHES)]
    for path in later:
        path.rename(scene.directory / path.name)
    scene.run()
    shutil.copytree(scene.checkpoint, old)
    for path in later:
        (scene.directory / path.name).rename(path)
    scene.run()
    shutil.rmtree(scene.checkpoint)
    old.rename(scene.checkpoint)
    scene.run()


def a_second_driver_publishes_the_batch_meanwhile(scene: Scene) -> None:
    point = scene.random.choice(deaths(1))
    seen = 0

    async def on_step(step: Step, moment: Moment) -> None:
        nonlocal seen
        if (step, moment) == (point.step, point.moment) and not seen:
            seen += 1
            checkpoint = Checkpoint(str(scene.checkpoint))
            writer = SpoolWriter(None)
            for row in range(ROWS):
                writer.add(scene.topic, 0, encode_batch([Record(0, 1, None, f"{HIT}:{row}".encode())]), 1)
            settings = SinkSettings(scene.daemon.bootstrap, sink_id_of(checkpoint.query_id()))
            await publish(settings, wanted_marker(checkpoint, HIT), [writer.finish(scene.topic)])

    scene.harness = {"on_step": on_step}
    try:
        scene.run()
    except Exception as error:
        if not any(word in str(error) for word in ("FENCED", "INVALID_PRODUCER_EPOCH")):
            raise
    scene.harness = {}
    scene.run()


def the_broker_is_killed(scene: Scene) -> None:
    point = scene.random.choice([each for each in deaths(1) if (each.step, each.moment) != (Step.END, "after")])

    async def on_step(step: Step, moment: Moment) -> None:
        if (step, moment) == (point.step, point.moment):
            scene.daemon.kill()
            await asyncio.to_thread(scene.daemon.start)

    scene.harness = {"on_step": on_step}
    scene.run()


def a_month_passes(scene: Scene) -> None:
    scene.run()
    faults_of(scene.daemon).advance_time(MONTH_MS)
    scene.forget_last_commit()
    scene.run()


FAULTS: dict[str, tuple[Callable[[Scene], None], tuple[str, ...]]] = {
    "the driver dies before Spark notes the batch": (dies_before_spark_notes_the_batch, SINKS),
    "the same, and the batch is split differently": (dies_and_the_batch_is_split_differently, SINKS),
    "the driver dies inside the batch": (dies_inside_the_batch, SINKS),
    "an old copy of the checkpoint is restored": (an_old_checkpoint_is_restored, SINKS),
    "the same after a month in which nothing ran": (a_month_passes, (OURS, FORMAT)),
    "the broker is killed during a step": (the_broker_is_killed, (OURS,)),
    "a second driver publishes the batch meanwhile": (a_second_driver_publishes_the_batch_meanwhile, (OURS,)),
}


# --- the run ----------------------------------------------------------------------------------------------------------


@dataclass
class Tally:
    """Of one fault and one sink."""

    seeds: int = 0
    lost: int = 0
    doubled: int = 0
    refused: int = 0

    def __str__(self) -> str:
        if not self.seeds:
            return "–"
        refused = f", {self.refused} refused" if self.refused else ""
        return f"{self.seeds}: {self.lost} lost, {self.doubled} doubled{refused}"


def run_seed(spark: Any, daemon: Daemon, seed: int, sinks: tuple[str, ...] = SINKS) -> Iterator[tuple[str, str, Tally]]:
    """The fault, the sink, and what became of the rows of one seed: for each sink that the fault can meet."""
    fault = list(FAULTS)[seed % len(FAULTS)]
    apply, meets = FAULTS[fault]
    for sink in sinks:
        if sink in meets:
            yield fault, sink, _run_scene(spark, daemon, seed, sink, apply)


def _run_scene(spark: Any, daemon: Daemon, seed: int, sink: str, apply: Callable[[Scene], None]) -> Tally:
    topic = f"proof-{seed}-{SINKS.index(sink)}-{os.urandom(3).hex()}"
    create(daemon, topic)
    tally = Tally(seeds=1)
    with tempfile.TemporaryDirectory(prefix="oncelog-proof-") as directory:
        make_input(Path(directory, "in"))
        scene = Scene(spark, daemon, Path(directory), sink, topic, Random(seed))
        try:
            apply(scene)
        except Exception as error:
            if "MarkerMismatch" not in str(error):
                raise
            tally.refused = 1
    found = values(daemon, topic)
    tally.lost = (expected() - found).total()
    tally.doubled = (found - expected()).total()
    return tally


def table(tallies: dict[tuple[str, str], Tally], first: int, count: int) -> str:
    lines = [
        f"Seeds {first} to {first + count - 1}, each a query of {BATCHES * ROWS} rows in {BATCHES} batches and one "
        "fault. A cell: seeds, rows lost, rows doubled, seeds that the sink refused with a sentence.",
        "",
        f"| fault | {' | '.join(f'`{sink}`' for sink in SINKS)} |",
        f"|---|{'---|' * len(SINKS)}",
    ]
    for fault in FAULTS:
        lines.append(f"| {fault} | {' | '.join(str(tallies.get((fault, sink), Tally())) for sink in SINKS)} |")
    return "\n".join(lines)


@contextmanager
def _session(work: Path) -> Iterator[tuple[Any, tuple[str, ...]]]:
    """A session with Spark's own connector, if its jars can be had, and the sinks that it has."""
    from pyspark.sql import SparkSession

    from oncelog.pipeline.java import prepare_environment
    from tests.spark.conftest import SETTINGS
    from tools.interop import Unavailable
    from tools.spark_connector import connector_jars

    prepare_environment(work)
    builder = SparkSession.builder.master("local[2]").config("spark.sql.warehouse.dir", str(work / "warehouse"))
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    sinks = SINKS
    try:
        builder = builder.config("spark.jars", ",".join(map(str, connector_jars())))
    except Unavailable as missing:
        sys.stderr.write(f"without Spark's own sink: {missing}\n")
        sinks = (OURS, FORMAT, NAIVE)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session, sinks
    session.stop()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=70)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--write", type=Path, help="a Markdown file for the table")
    arguments = parser.parse_args()
    tallies: dict[tuple[str, str], Tally] = {}
    bad: Counter[int] = Counter()
    with tempfile.TemporaryDirectory(prefix="oncelog-proof-") as directory, _session(Path(directory)) as (spark, sinks):
        daemon = Daemon(Path(directory, "data"), "oncelog.admin.listen=127.0.0.1:0")
        for seed in range(arguments.first, arguments.first + arguments.seeds):
            for fault, sink, found in run_seed(spark, daemon, seed, sinks):
                sum_ = tallies.setdefault((fault, sink), Tally())
                for name in ("seeds", "lost", "doubled", "refused"):
                    setattr(sum_, name, getattr(sum_, name) + getattr(found, name))
                if sink in (OURS, FORMAT) and (found.lost or found.doubled):
                    bad[seed] += 1
                    sys.stderr.write(f"seed {seed}, {sink}: {fault}: {found}\n")
        daemon.stop()
    text = table(tallies, arguments.first, arguments.seeds)
    sys.stdout.write(text + "\n")
    if arguments.write is not None:
        arguments.write.write_text(f"# Faults on four sinks\n\nWritten by `make spark-proof`.\n\n{text}\n")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
