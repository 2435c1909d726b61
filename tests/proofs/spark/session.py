"""The seeds of the warm session: which fault and sink a seed is, and running it."""

import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

from tests.proofs.nemesis import Broker, broker_of
from tests.proofs.spark.faults import FAULTS
from tests.proofs.spark.page import Found, compare
from tests.proofs.spark.scene import FORMAT, OURS, SINKS, SPARK, Oncelog, Scene, outputs
from tests.spark.scenes import create, expected, make_input
from tests.support.processes.daemon import Daemon

OTHERS_EVERY = 3
"""The sinks that are there for comparison meet each fault in one of so many rounds: what they do never changes."""
BROKERS = {"oncelog": "oncelog", "kafka": "Apache Kafka 4.3"}


def seeds(first: int, count: int, broker: str = "oncelog") -> Iterator[tuple[int, str, str]]:
    """Yields so many seeds, beginning with `first`: number, fault, sink. A round is every fault with every sink."""
    seed = 0
    round_ = 0
    while seed < first + count:
        for fault, each in FAULTS.items():
            for sink in each.sinks if broker == "oncelog" else each.on_kafka:
                rounds = each.rounds * (1 if sink in (OURS, FORMAT) else OTHERS_EVERY)
                if round_ % rounds == 0:
                    if first <= seed < first + count:
                        yield seed, fault, sink
                    seed += 1
        round_ += 1


def run_seed(spark: Any, broker: Broker, seed: int, fault: str, sink: str) -> Found:
    """Raises what the fault does not explain."""
    began_s = time.monotonic()
    topic = f"proof-{seed}-{SINKS.index(sink)}-{os.urandom(3).hex()}"
    create(broker, topic)
    refused = 0
    with tempfile.TemporaryDirectory(prefix="oncelog-proof-") as directory:
        make_input(Path(directory, "in"))
        scene = Scene(spark, broker, Path(directory), sink, topic, Random(seed))
        try:
            FAULTS[fault].apply(scene)
        except Exception as error:
            if "MarkerMismatch" not in str(error):
                raise
            refused = 1
        lost, doubled = compare(outputs(broker, topic, Path(directory), sink), expected())
    name = "oncelog" if isinstance(broker, Oncelog) else BROKERS["kafka"]
    return Found("session", name, fault, sink, seed, lost, doubled, refused, round(time.monotonic() - began_s, 2))


@contextmanager
def session(work: Path, master: str = "local[2]", settings: Mapping[str, str] | None = None) -> Iterator[Any]:
    """A session with Spark's own connector, if its jars can be had."""
    from pyspark.sql import SparkSession

    from oncelog.pipeline.java import prepare_environment
    from tests.spark.conftest import SETTINGS
    from tools.interop import Unavailable
    from tools.spark_connector import connector_jars

    prepare_environment(work)
    builder = SparkSession.builder.master(master).config("spark.sql.warehouse.dir", str(work / "warehouse"))
    for name, value in {**SETTINGS, "spark.ui.showConsoleProgress": "false", **(settings or {})}.items():
        builder = builder.config(name, value)
    try:
        builder = builder.config("spark.jars", ",".join(map(str, connector_jars())))
    except Unavailable as missing:
        sys.stderr.write(f"without Spark's own sink: {missing}\n")
    running = builder.getOrCreate()
    running.sparkContext.setLogLevel("OFF")
    try:
        yield running
    finally:
        running.stop()


def has_connector(spark: Any) -> bool:
    return bool(spark.conf.get("spark.jars", ""))


@contextmanager
def broker_in(work: Path, name: str) -> Iterator[Broker]:
    """The broker of this name, with its data below `work`."""
    settings = () if name == "kafka" else ("oncelog.admin.listen=127.0.0.1:0",)
    with broker_of(name, work / "broker", *settings) as running:
        yield Oncelog(running) if isinstance(running, Daemon) else running


def run(work: Path, broker: Broker, first: int, count: int, sinks: tuple[str, ...] = SINKS) -> Iterator[Found]:
    """The seeds of these sinks."""
    name = "oncelog" if isinstance(broker, Oncelog) else "kafka"
    with session(work) as spark:
        for seed, fault, sink in seeds(first, count, name):
            if sink in sinks and (sink != SPARK or has_connector(spark)):
                yield run_seed(spark, broker, seed, fault, sink)
