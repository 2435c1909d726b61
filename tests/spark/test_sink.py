"""`format("oncelog")` and `foreachBatch` in Spark, against a daemon: each micro-batch once and whole."""

import asyncio
import json
import shutil
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from oncelog.client import Admin
from oncelog.pipeline.progress import written
from oncelog.pipeline.sink import Outcome, Step, exactly_once
from oncelog.protocol.partitioning import partition_for_key
from tests.spark.scenes import BATCHES, ROWS, create, expected, make_input, read, run_to_end, stream, values
from tests.support.processes.daemon import Daemon
from tests.support.spark.driver_death import Death, deaths

pytestmark = pytest.mark.spark


def options(daemon: Daemon, checkpoint: Path, **more: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": daemon.bootstrap, "checkpointLocation": str(checkpoint), **more}


def test_a_stream_is_written_and_a_replayed_batch_is_skipped(spark: Any, daemon: Daemon, tmp_path: Path) -> None:
    """Spark forgets the last commit, and runs the batch again with another number of tasks: nothing is doubled."""
    create(daemon, "stream")
    source = make_input(tmp_path / "in")
    checkpoint = tmp_path / "checkpoint"

    def write(rows: Any) -> None:
        run_to_end(rows.writeStream.format("oncelog").options(**options(daemon, checkpoint, topic="stream")))

    write(stream(spark, source))
    assert values(daemon, "stream") == expected()
    assert all(record.partition == partition_for_key(record.key or b"", 3) for record in read(daemon, "stream"))
    (checkpoint / "commits" / str(BATCHES - 1)).unlink()
    (checkpoint / "commits" / f".{BATCHES - 1}.crc").unlink()
    write(stream(spark, source).repartition(5))
    assert values(daemon, "stream") == expected()


def test_a_batch_that_runs_again_to_another_topic_is_refused(spark: Any, daemon: Daemon, tmp_path: Path) -> None:
    """Skipped, its records would be missing in the topic that the query writes to now."""
    create(daemon, "before", "after")
    source = make_input(tmp_path / "in")
    checkpoint = tmp_path / "checkpoint"

    def write(topic: str) -> None:
        writer = stream(spark, source).writeStream.format("oncelog")
        run_to_end(writer.options(**options(daemon, checkpoint, topic=topic)))

    write("before")
    (checkpoint / "commits" / str(BATCHES - 1)).unlink()
    (checkpoint / "commits" / f".{BATCHES - 1}.crc").unlink()
    with pytest.raises(Exception, match="rows to before then, rows to after now"):
        write("after")
    write("before")
    assert values(daemon, "before") == expected()


def test_queries_start_at_once_in_threads_that_know_the_session(spark: Any, daemon: Daemon, tmp_path: Path) -> None:
    """Spark looks for a Python sink in the session of the thread, which a thread of the program's own has not."""
    source = make_input(tmp_path / "in")

    def start(topic: str, knows_session: bool) -> None:
        if knows_session:
            spark.createDataFrame([(0,)], "n int")
        writer = stream(spark, source).writeStream.format("oncelog")
        run_to_end(writer.options(**options(daemon, tmp_path / topic, topic=topic)))

    topics = [f"thread-{number}" for number in range(3)]
    create(daemon, *topics)
    with ThreadPoolExecutor(len(topics)) as threads:  # each call in a thread of its own
        started = threads.map(start, topics, [True] * len(topics))
        assert [*started] == [None] * len(topics)
    assert [values(daemon, topic) for topic in topics] == [expected()] * len(topics)
    with ThreadPoolExecutor(1) as thread, pytest.raises(Exception, match="DATA_SOURCE_NOT_FOUND"):
        thread.submit(start, "thread-0", False).result()


def test_an_old_copy_of_the_checkpoint_is_refused(spark: Any, daemon: Daemon, tmp_path: Path) -> None:
    create(daemon, "restored")
    source = make_input(tmp_path / "in")
    checkpoint, old = tmp_path / "checkpoint", tmp_path / "old"

    def write() -> None:
        rows = stream(spark, source)
        run_to_end(rows.writeStream.format("oncelog").options(**options(daemon, checkpoint, topic="restored")))

    write()
    shutil.copytree(checkpoint, old)
    for batch in range(BATCHES, BATCHES + 2):
        (source / f"{batch}.json").write_text(json.dumps({"k": "key", "v": f"late:{batch}"}))
    write()
    shutil.rmtree(checkpoint)
    old.rename(checkpoint)
    with pytest.raises(Exception, match="old copy of the checkpoint"):
        write()
    assert sum(values(daemon, "restored").values()) == ROWS * BATCHES + 2


def test_an_abort_after_the_commit_undoes_nothing_and_the_batch_is_skipped(daemon: Daemon, tmp_path: Path) -> None:
    """Spark calls abort after any error in commit, also when the transaction is committed; no session is needed."""
    pytest.importorskip("pyspark")
    import pyarrow
    from pyspark.sql.types import BinaryType, StructField, StructType

    from oncelog.pipeline.options import parse
    from oncelog.pipeline.sink.writers import stream_writer

    create(daemon, "aborted")
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").write_text("v1")
    (tmp_path / "metadata").write_text(json.dumps({"id": "aborted"}))
    schema = StructType([StructField("value", BinaryType())])
    parsed = parse(options(daemon, tmp_path, topic="aborted"), "writeStream")
    rows = pyarrow.RecordBatch.from_pydict({"value": [bytes(100_000)] * 3})
    for _ in range(2):
        messages = [stream_writer(parsed, schema).write(iter([rows]))]
        stream_writer(parsed, schema).commit(messages, 0)
        stream_writer(parsed, schema).abort([*messages, None], 0)
    assert len(read(daemon, "aborted")) == 3


def publisher(
    daemon: Daemon, checkpoint: Path, prefix: str, death: Death, dies_in: int, outcomes: list[Outcome]
) -> Callable[[Any, int], None]:
    def publish(batch: Any, batch_id: int) -> None:
        harness = {"on_step": death.on_step, "run": death.run} if batch_id == dies_in else {}
        with exactly_once(batch, batch_id, options(daemon, checkpoint), **harness) as once:
            once.to_topic(batch, f"{prefix}a").to_topic(batch.where("key = 'key-1'"), f"{prefix}b")
            once.to_topic(batch, f"{prefix}a", name="again")
        if once.outcome is not None:
            outcomes.append(once.outcome)

    return publish


@pytest.mark.parametrize("death", deaths(3), ids=repr)
def test_three_outputs_in_foreach_batch_survive_a_death_at_any_step(
    spark: Any, daemon: Daemon, tmp_path: Path, death: Death
) -> None:
    """Two of the outputs go to one topic: by name, in one transaction."""
    prefix = f"each-{repr(death).replace(' ', '-')}-"
    create(daemon, f"{prefix}a", f"{prefix}b")
    source = make_input(tmp_path / "in")
    checkpoint = tmp_path / "checkpoint"
    outcomes: list[Outcome] = []

    def write(death: Death) -> None:
        publish = publisher(daemon, checkpoint, prefix, death, 1, outcomes)
        writer = stream(spark, source).writeStream.foreachBatch(publish)
        run_to_end(writer.option("checkpointLocation", str(checkpoint)))

    with pytest.raises(Exception, match="DriverDied"):
        write(death)
    write(Death(None))
    assert values(daemon, f"{prefix}a") == expected() + expected()
    assert values(daemon, f"{prefix}b") == Counter(each for each in expected() if int(each[2:]) % 3 == 1)
    assert [each.batch_id for each in outcomes] == [0, 1, 2]
    assert outcomes[1].published is not (death.step is Step.END and death.moment == "after")


def test_a_second_block_for_one_batch_and_a_second_output_of_one_name_are_refused(
    spark: Any, daemon: Daemon, tmp_path: Path
) -> None:
    """Skipping the second as applied lost its rows."""
    create(daemon, "twice")
    source = make_input(tmp_path / "in")
    checkpoint = tmp_path / "checkpoint"

    def two_blocks(batch: Any, batch_id: int) -> None:
        for _ in range(2):
            with exactly_once(batch, batch_id, options(daemon, checkpoint)) as once:
                once.to_topic(batch, "twice")

    def one_name(batch: Any, batch_id: int) -> None:
        with exactly_once(batch, batch_id, options(daemon, checkpoint)) as once:
            once.to_topic(batch, "twice").to_topic(batch, "twice")

    for publish, sentence in ((one_name, "has an output 'twice' already"), (two_blocks, "belong into one")):
        writer = stream(spark, source).writeStream.foreachBatch(publish)
        with pytest.raises(Exception, match=sentence):
            run_to_end(writer.option("checkpointLocation", str(checkpoint)))
    assert values(daemon, "twice") == expected(1)


@pytest.mark.parametrize("death", [Death(None), Death(Step.END, "before"), Death(Step.END, "after")], ids=repr)
def test_topic_and_delta_table_have_each_batch_once(spark: Any, daemon: Daemon, tmp_path: Path, death: Death) -> None:
    deltalake = pytest.importorskip("deltalake")
    topic = f"delta-{repr(death).replace(' ', '-')}"
    create(daemon, topic)
    source = make_input(tmp_path / "in")
    checkpoint, table = tmp_path / "checkpoint", tmp_path / "table"

    def write(death: Death) -> None:
        def publish(batch: Any, batch_id: int) -> None:
            harness = {"on_step": death.on_step, "run": death.run} if batch_id == 1 else {}
            with exactly_once(batch, batch_id, options(daemon, checkpoint), **harness) as once:
                once.to_topic(batch, topic).to_delta(batch, str(table)).to_delta(batch, str(table), name="copy")

        writer = stream(spark, source).writeStream.foreachBatch(publish)
        run_to_end(writer.option("checkpointLocation", str(checkpoint)))

    if death.step is not None:
        with pytest.raises(Exception, match="DriverDied"):
            write(death)
    write(Death(None))
    assert values(daemon, topic) == expected()
    rows = deltalake.DeltaTable(str(table)).to_pyarrow_table().column("value").to_pylist()
    assert Counter(rows) == expected() + expected()


def test_a_batch_write_happens_once_for_its_run_id(spark: Any, daemon: Daemon) -> None:
    """The write has a topic in each row, headers, wanted partitions, no key, bytes that are not UTF-8, and no value."""
    create(daemon, "job-a", "job-b")
    rows = spark.sql(
        """select cast(null as binary) as key, unhex('ff00fe') as value, 'job-a' as topic, 2 as partition,
                  array(struct('name' as key, unhex('80') as value)) as headers, 7 as ignored
           union all select unhex('fe'), cast(null as binary), 'job-b', null, null, 7
           union all select null, unhex('31'), 'job-b', null, array(), 7"""
    )
    for _ in range(2):
        writer = rows.write.format("oncelog").option("kafka.bootstrap.servers", daemon.bootstrap)
        writer.option("runId", "nightly").option("kafka.compression.type", "zstd").mode("append").save()
    first = [(each.partition, each.key, each.value, list(each.headers)) for each in read(daemon, "job-a")]
    assert first == [(2, None, b"\xff\x00\xfe", [("name", b"\x80")])]
    second = Counter((each.key, each.value) for each in read(daemon, "job-b"))
    assert second == Counter({(b"\xfe", None): 1, (None, b"1"): 1})


def test_two_writes_of_one_run_id_are_two_topics_and_other_rows_are_refused(spark: Any, daemon: Daemon) -> None:
    """Split differently and in another order they are the same; the driver can ask what became of the last one."""
    create(daemon, "run-totals", "run-alerts")
    totals = spark.range(10).selectExpr("cast(id % 3 as string) as key", "cast(id as string) as value")

    def write(rows: Any, topic: str) -> None:
        writer = rows.write.format("oncelog").option("kafka.bootstrap.servers", daemon.bootstrap)
        writer.option("topic", topic).option("runId", "2026-11-22").mode("append").save()

    write(totals, "run-totals")
    write(totals.limit(7), "run-alerts")
    first = written("2026-11-22", "run-totals")
    write(totals.orderBy("value", ascending=False).repartition(5), "run-totals")
    second = written("2026-11-22", "run-totals")
    assert first is not None
    assert second is not None
    assert (first.published, second.published) == (True, False)
    assert second.outputs == {"run-totals": 10}
    with pytest.raises(Exception, match="10 records then, 9 now"):
        write(totals.where("id < 9"), "run-totals")
    assert (sum(values(daemon, "run-totals").values()), sum(values(daemon, "run-alerts").values())) == (10, 7)


@pytest.mark.parametrize(
    ("column", "more", "sentence"),
    [
        ("id as value", {"topic": "refused"}, "`value` is of type bigint"),
        ("'x' as value", {}, "no topic"),
        ("'x' as value", {"topic": "mistyped"}, "'mistyped' does not exist"),
        ("'x' as value", {"topic": "refused", "runID": "1", "colour": "red"}, "unknown option 'colour'"),
        ("'x' as value", {"topic": "refused", "kafka.acks": "1"}, "acks"),
        ("'x' as value, 9 as partition", {"topic": "refused"}, "partition 9; the topic has 3"),
    ],
)
def test_what_cannot_be_written_is_a_sentence(
    spark: Any, daemon: Daemon, column: str, more: dict[str, str], sentence: str
) -> None:
    if more.get("topic") == "refused" and not read_topics(daemon) & {"refused"}:
        create(daemon, "refused")
    writer = spark.range(1).selectExpr(*column.split(", ")).write.format("oncelog").options(**more)
    with pytest.raises(Exception, match=sentence):
        writer.option("kafka.bootstrap.servers", daemon.bootstrap).mode("append").save()
    assert "mistyped" not in read_topics(daemon)


def read_topics(daemon: Daemon) -> set[str]:
    async def work() -> set[str]:
        async with Admin(daemon.bootstrap) as admin:
            return set(await admin.list_topics())

    return asyncio.run(work())


def test_overwrite_is_refused(spark: Any, daemon: Daemon) -> None:
    create(daemon, "overwritten")
    writer = spark.range(1).selectExpr("'x' as value").write.format("oncelog").option("topic", "overwritten")
    with pytest.raises(Exception, match="a topic cannot be overwritten"):
        writer.option("kafka.bootstrap.servers", daemon.bootstrap).mode("overwrite").save()
