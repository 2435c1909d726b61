"""`make bench WHAT=spark`: Spark's own Kafka connector and `format("oncelog")`, one after the other in one session.

Owns: what is measured, how often, the tables and their block of docs/compare/performance.md. Both formats read and
write the same broker, this one. Each round runs each of them once, in an order that rotates, after a warm-up that is
not counted. Beside the time it measures the processor seconds of all processes: other work on the machine changes these
least.

ARGS='--rounds 5', ARGS=--quick (a twentieth of the records, one round: does it work here?), ARGS='--json FILE'.
"""

import json
import os
import shutil
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from statistics import median
from typing import Any, NamedTuple
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.harness.command import Arguments, progress_bar, save
from bench.harness.figures import number, spread
from bench.harness.rounds import keep, rotated
from bench.page import aligned, write_block
from oncelog.pipeline.java import local_session
from tests.support.processes.daemon import Daemon
from tests.support.processes.processes import below, command
from tools.interop import Unavailable
from tools.spark_connector import connector_jars

KAFKA, OURS, COUNTED = "kafka", "oncelog", "counted"
_TITLES = {KAFKA: "Spark's connector", OURS: "oncelog", COUNTED: "a Python writer that only counts"}
"""The third is what any writer in Python can reach in Spark: it is handed the rows, and drops them."""
_PARTITIONS = 4
_ROUNDS = 3
_QUICK = 20
_RECORDS = {100: 1_000_000, 1_000: 500_000}
"""By the size of a value in bytes. Written in one batch each: the largest is half of the driver's memory."""
_SMALL_BATCHES, _SMALL_BATCH = 20, 2_000
_COLD_BATCHES = 3
"""Of a query: the first ones take longer, and are not counted."""
_ARTICLES = ("apples", "pears", "bread, whole grain", "cheese", "olive oil 1 l", "soap", "coffee", "tea, green")
_TUNED = {"kafka.batch.size": "1000000", "kafka.linger.ms": "20", "kafka.compression.type": "lz4"}
"""Both sinks, as people tune them: larger batches, and a little time for them to fill (which ours has no use for)."""


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table. `run(format)` measures it once: a rate, or milliseconds."""

    title: str
    unit: str
    more_is_better: bool
    run: Callable[[str], float]
    formats: tuple[str, ...] = (KAFKA, OURS)


class Cpu(NamedTuple):
    """Processor seconds."""

    jvm: float = 0.0
    python: float = 0.0
    broker: float = 0.0

    @property
    def all(self) -> float:
        return sum(self)


class Value(NamedTuple):
    """What one run has measured."""

    value: float
    cpu: Cpu


class Scene:
    """A session, a broker, and topics with records."""

    def __init__(self, session: Any, bootstrap: str, scratch: Path, scale: int) -> None:
        self._session = session
        self._bootstrap = bootstrap
        self._admin = AdminClient({"bootstrap.servers": bootstrap})
        self._scratch = scratch
        self.counts = {size: count // scale for size, count in _RECORDS.items()}
        for size, count in self.counts.items():
            self._fill(f"filled-{size}", size, count)
        self._fill("small", 100, _SMALL_BATCHES * _SMALL_BATCH)

    def rows(self) -> Iterator[Row]:
        for size in self.counts:
            yield Row(f"read {size:,} B", "k records/s", True, partial(self._read, size))
        for size in self.counts:
            run = partial(self._write, size, self._same)
            yield Row(f"write {size:,} B, alike", "k records/s", True, run, (KAFKA, OURS, COUNTED))
        size = max(self.counts)
        for title, text in (("random text", _random_text), ("JSON", _json_text)):
            run = partial(self._write, size, partial(self._stored, title, text))
            yield Row(f"write {size:,} B, {title}", "k records/s", True, run, (KAFKA, OURS, COUNTED))
        yield Row(f"micro-batch of {_SMALL_BATCH:,} records from topic to topic, warm", "ms", False, self._micro_batch)

    # -- what must be there before

    def _create(self, topic: str) -> None:
        self._admin.create_topics([NewTopic(topic, _PARTITIONS, 1)])[topic].result()

    def _fill(self, topic: str, size: int, count: int) -> None:
        self._create(topic)
        producer = Producer({"bootstrap.servers": self._bootstrap, "linger.ms": 20})
        text = os.urandom(size // 2 + 1).hex().encode()[: size - 8]
        for index in range(count):
            try:
                producer.produce(topic, b"%08d" % index + text, b"%d" % index, partition=index % _PARTITIONS)
            except BufferError:
                producer.flush()
                producer.produce(topic, b"%08d" % index + text, b"%d" % index, partition=index % _PARTITIONS)
        producer.flush()

    @contextmanager
    def _new_topic(self) -> Iterator[str]:
        """Deleted afterwards: what the system keeps of its files in memory would slow down what comes next."""
        topic = f"out-{uuid.uuid4().hex[:8]}"
        self._create(topic)
        yield topic
        self._admin.delete_topics([topic])[topic].result()

    # -- what is measured

    def _source(self, reader: Any, name: str, topic: str) -> Any:
        return (
            reader.format(name)
            .option("kafka.bootstrap.servers", self._bootstrap)
            .option("kafka.isolation.level", "read_committed")
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
        )

    def _read(self, size: int, name: str) -> float:
        records = self._source(self._session.read, name, f"filled-{size}").load()
        seconds = _timed(records.write.format("noop").mode("overwrite").save)
        return self.counts[size] / seconds / 1_000

    def _same(self, size: int) -> Any:
        """Rows that Spark makes out of a number; compressed they are nothing."""
        text = "v" * (size - 8)
        return self._session.range(0, self.counts[size], 1, _PARTITIONS).selectExpr(
            "cast(id as string) as key", f"concat(lpad(cast(id as string), 8, '0'), '{text}') as value"
        )

    def _stored(self, title: str, text: Callable[[Random, int], str], size: int) -> Any:
        """Rows of a Parquet file for each partition."""
        directory = self._scratch / title
        if not directory.exists():
            directory.mkdir(parents=True)
            count = self.counts[size] // _PARTITIONS
            random = Random(1)
            for partition in range(_PARTITIONS):
                values = [text(random, size) for _ in range(count)]
                columns = {"key": [str(index) for index in range(count)], "value": values}
                pq.write_table(pa.table(columns), directory / f"{partition}.parquet", compression="none")
        return self._session.read.parquet(str(directory))

    def _write(self, size: int, rows: Callable[[int], Any], name: str) -> float:
        records, count = rows(size), self.counts[size]
        if name == COUNTED:
            return count / _timed(records.write.format(name).mode("append").save) / 1_000
        writer = records.write.format(name).option("kafka.bootstrap.servers", self._bootstrap).options(**_TUNED)
        with self._new_topic() as topic:
            return count / _timed(writer.option("topic", topic).mode("append").save) / 1_000

    def _micro_batch(self, name: str) -> float:
        """The median of one query's batches: planned, read, written, committed."""
        checkpoint = self._scratch / uuid.uuid4().hex
        stream = self._source(self._session.readStream, name, "small").option("maxOffsetsPerTrigger", _SMALL_BATCH)
        writer = stream.load().select("key", "value").writeStream.format(name)
        writer = writer.option("kafka.bootstrap.servers", self._bootstrap).option("checkpointLocation", str(checkpoint))
        with self._new_topic() as topic:
            query = writer.option("topic", topic).trigger(availableNow=True).start()
            query.awaitTermination()
        took_ms = [each["durationMs"]["triggerExecution"] for each in query.recentProgress if each["numInputRows"]]
        return float(median(took_ms[_COLD_BATCHES:]))


def _random_text(random: Random, size: int) -> str:
    """Hexadecimal digits, which hardly compress."""
    return random.randbytes(size // 2).hex()


def _json_text(random: Random, size: int) -> str:
    """An order as a service would send it: lz4 leaves some 30 % of it."""
    order: dict[str, Any] = {"id": str(UUID(int=random.getrandbits(128))), "customer": random.randrange(10**6)}
    order["items"] = []
    while len(text := json.dumps(order)) < size - 40:
        sku, name = f"{random.randrange(10**8):08d}", random.choice(_ARTICLES)
        order["items"].append({"sku": sku, "name": name, "price": random.randrange(9_999) / 100})
    return text.ljust(size)


def _counting_source() -> Any:
    """Made here, so that it travels to the tasks by its code: they need not import this module."""
    from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage

    from oncelog.pipeline.imported import set_imported_aside

    class CountingWriter(DataSourceArrowWriter):  # type: ignore[misc]  # pyspark is not typed for us
        def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
            sum(batch.num_rows for batch in iterator)
            set_imported_aside("encode")
            return WriterCommitMessage()

    class CountingSource(DataSource):  # type: ignore[misc]
        @classmethod
        def name(cls) -> str:
            return COUNTED

        def writer(self, schema: Any, overwrite: bool) -> DataSourceArrowWriter:
            return CountingWriter()

    return CountingSource


def _timed(run: Callable[[], object]) -> float:
    started_s = time.perf_counter()
    run()
    return time.perf_counter() - started_s


def _ticks() -> dict[int, int]:
    """Of the processor, by process below this one."""
    found = {}
    for pid in below({os.getpid()}):
        with suppress(OSError):  # it has ended meanwhile
            fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            found[pid] = int(fields[11]) + int(fields[12])
    return found


def _cpu_since(before: dict[int, int], broker: int) -> Cpu:
    jvm = python = broker_ticks = 0
    for pid, ticks in _ticks().items():
        spent = ticks - before.get(pid, 0)
        if pid == broker:
            broker_ticks += spent
        elif command(pid)[0].endswith("java"):
            jvm += spent
        else:
            python += spent
    return Cpu(*(ticks / os.sysconf("SC_CLK_TCK") for ticks in (jvm, python, broker_ticks)))


Found = dict[str, dict[str, list[Value]]]
"""By title, then by format."""


def measure(rows: Sequence[Row], rounds: int, broker: int, progress: Callable[[str], None]) -> Found:
    """`broker` is its process."""
    found: Found = {}
    for number_of_round in range(rounds + 1):
        for place, row in enumerate(rows):
            for name in rotated(row.formats, number_of_round + place):
                progress(f"round {number_of_round or 'warm-up'}: {row.title}: {_TITLES[name]}")
                before = _ticks()
                value = row.run(name)
                if number_of_round:
                    keep(found, row.title, name, Value(value, _cpu_since(before, broker)))
    return found


def report(rows: Sequence[Row], found: Found) -> str:
    lines = [["", _TITLES[KAFKA], _TITLES[OURS], "speed", _TITLES[COUNTED]]]
    cpu_lines = [["processor seconds", _TITLES[KAFKA], _TITLES[OURS], "times as many", _TITLES[COUNTED]]]
    for row in rows:
        values = {name: spread([each.value for each in found[row.title][name]]) for name in row.formats}
        kafkas, ours = values[KAFKA], values[OURS]
        ratio = ours.median / kafkas.median if row.more_is_better else kafkas.median / ours.median
        counted = str(values.get(COUNTED, "–"))
        lines.append([f"{row.title}, {row.unit}", str(kafkas), str(ours), f"{number(ratio)} ×", counted])
        cpu = {name: _median_cpu(found[row.title][name]) for name in row.formats}
        cells = {
            name: f"{each.all:.2f} ({each.jvm:.2f} {each.python:.2f} {each.broker:.2f})" for name, each in cpu.items()
        }
        ratio = cpu[OURS].all / cpu[KAFKA].all if cpu[KAFKA].all else 0.0
        cpu_lines.append([row.title, cells[KAFKA], cells[OURS], f"{number(ratio)} ×", cells.get(COUNTED, "–")])
    return f"{aligned(lines)}\n\nIn brackets: the JVM, Python's processes, the broker.\n\n{aligned(cpu_lines)}"


def _median_cpu(values: Sequence[Value]) -> Cpu:
    return sorted((each.cpu for each in values), key=lambda cpu: cpu.all)[len(values) // 2]


def main(arguments: Sequence[str] | None = None) -> int:
    options = Arguments("make bench WHAT=spark", __doc__, rounds=_ROUNDS).parse(arguments)
    rounds, scale = options.rounds, _QUICK if options.quick else 1
    try:
        jars = connector_jars()
    except Unavailable as error:
        print(f"make bench WHAT=spark needs Spark's Kafka connector: {error}", file=sys.stderr)
        return 1
    work = Path(tempfile.mkdtemp(prefix="oncelog-bench-spark-"))
    daemon = Daemon(work / "data")
    try:
        with progress_bar() as bar:
            bar.show("starting Spark, filling topics")
            settings = {
                "spark.sql.streaming.numRecentProgressUpdates": "1000",
                "spark.jars": ",".join(map(str, jars)),
                "spark.python.unix.domain.socket.enabled": "true",
            }
            session = local_session(work, "oncelog-bench", settings)
            session.dataSource.register(_counting_source())
            scene = Scene(session, daemon.bootstrap, work / "checkpoints", scale)
            rows = list(scene.rows())
            found = measure(rows, rounds, daemon.process.pid, bar.show)
            version = session.version
            session.stop()
    finally:
        daemon.kill()
        shutil.rmtree(work, ignore_errors=True)
    counts = ", ".join(f"{count:,} records of {size:,} B" for size, count in scene.counts.items())
    text = "\n".join(
        (
            f"- Spark {version}, local[2], 1 GB for the driver; {counts} in {_PARTITIONS} partitions; {rounds} rounds",
            "- Both sinks are tuned alike (batch.size 1 MB, linger.ms 20, lz4, acks all). Spark's may write a record",
            "  twice after a kill; this one writes each batch in one transaction, and sends as it is what lz4 does not",
            "  make smaller. Both read read_committed. Written by `make bench WHAT=spark`",
            "- Spark reaches its Python processes by Unix sockets, with 512 kB of rows at once (docs/spark/spark.md)",
            "- The last column is handed the rows by Spark and drops them: no writer in Python can be faster",
            "",
            report(rows, found),
            "",
        )
    )
    print(text)
    save(options.json, found)
    if options.is_whole:
        write_block("make bench WHAT=spark", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
