"""The ways into the format by Spark's own methods and by SQL: what works, and what Spark or the format refuses."""

import re
from pathlib import Path
from typing import Any

import pytest

from oncelog.client.blocking.clients import Producer
from oncelog.pipeline.options import OptionError
from oncelog.pipeline.sink import publisher
from tests.spark.conftest import NOT_HERE
from tests.spark.scenes import BATCHES, ROWS, create, make_input, read, run_to_end, stream, values
from tests.support.processes.daemon import Daemon

pytestmark = pytest.mark.spark
PAGE = Path(__file__).parents[2] / "docs" / "spark" / "spark.md"


def write(daemon: Daemon, topic: str, *texts: str) -> None:
    with Producer(daemon.bootstrap) as producer:
        for text in texts:
            producer.send_soon(topic, text.encode(), key=b"k")
        producer.flush()


def test_the_first_examples_of_the_page_run_as_they_stand(spark: Any, daemon: Daemon, tmp_path: Path) -> None:
    create(daemon, "purchases", "purchases-in-capitals", "totals")
    write(daemon, "purchases", "one", "two")
    known: dict[str, Any] = {"spark": spark}
    text = PAGE.read_text(encoding="utf-8")
    for heading, count in (("Reading", 1), ("Writing", 2)):
        part = text.partition(f"\n## {heading}\n")[2]
        for code in re.findall(r"^```python\n(.*?)^```", part, re.DOTALL | re.MULTILINE)[:count]:
            exec(code.replace("localhost:9092", daemon.bootstrap).replace("/data", str(tmp_path)), known)
            if "query" in known:
                query = known.pop("query")
                query.processAllAvailable()
                query.stop()
    assert values(daemon, "purchases-in-capitals") == {"ONE": 1, "TWO": 1}
    assert values(daemon, "totals") == {"2": 1}


def test_update_mode_is_for_the_publisher_which_has_each_batch_once(spark: Any, daemon: Daemon, tmp_path: Path) -> None:
    create(daemon, "counts")
    source = make_input(tmp_path / "in")
    checkpoint = tmp_path / "checkpoint"
    options = {"kafka.bootstrap.servers": daemon.bootstrap, "checkpointLocation": str(checkpoint)}

    def counts() -> Any:
        rows = stream(spark, source).groupBy("key").count().selectExpr("key", "cast(count as string) as value")
        return rows.writeStream.outputMode("update")

    with pytest.raises(Exception, match="oncelog does not support Update mode"):
        run_to_end(counts().format("oncelog").options(**{**options, "checkpointLocation": str(tmp_path / "other")}))

    def publish() -> None:
        run_to_end(
            counts().option("checkpointLocation", str(checkpoint)).foreachBatch(publisher(options, topic="counts"))
        )

    publish()
    found = values(daemon, "counts")
    (checkpoint / "commits" / str(BATCHES - 1)).unlink()
    (checkpoint / "commits" / f".{BATCHES - 1}.crc").unlink()
    publish()
    assert values(daemon, "counts") == found
    last = {record.key: int(record.value or b"") for record in read(daemon, "counts")}
    assert sum(last.values()) == BATCHES * ROWS
    with pytest.raises(OptionError, match="checkpointLocation is missing"):
        publisher({"kafka.bootstrap.servers": daemon.bootstrap}, topic="counts")


def test_a_spark_without_admission_control_is_refused_to_read_a_stream(
    spark: Any, daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    """4.1, as the tests for it (`make test-spark-versions`) rely on."""
    from oncelog.pipeline.datasource import OncelogDataSource

    options = {"kafka.bootstrap.servers": daemon.bootstrap, "subscribe": "any"}
    schema = spark.read.format("oncelog").options(**options).load().schema
    monkeypatch.setattr("oncelog.pipeline.datasource.find_spec", lambda _: None)
    with pytest.raises(OptionError, match=NOT_HERE):
        OncelogDataSource(options).streamReader(schema)


def test_a_batch_is_written_in_append_mode_only(spark: Any, daemon: Daemon) -> None:
    create(daemon, "modes")
    rows = spark.createDataFrame([("k", "v")], "key string, value string")
    writer = rows.write.format("oncelog").option("kafka.bootstrap.servers", daemon.bootstrap).option("topic", "modes")
    for mode in ("errorifexists", "ignore"):
        with pytest.raises(Exception, match="UNSUPPORTED_DATA_SOURCE_SAVE_MODE"):
            writer.mode(mode).save()
    with pytest.raises(Exception, match="a topic cannot be overwritten"):
        writer.mode("overwrite").save()
    writer.mode("append").save()
    assert values(daemon, "modes") == {"v": 1}


def test_a_view_reads_by_sql_and_a_table_is_refused(spark: Any, daemon: Daemon) -> None:
    create(daemon, "by-sql")
    write(daemon, "by-sql", "one")
    options = f"USING oncelog OPTIONS (`kafka.bootstrap.servers` '{daemon.bootstrap}', subscribe 'by-sql')"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW by_sql {options}")
    assert [row.text for row in spark.sql("SELECT cast(value AS string) AS text FROM by_sql").collect()] == ["one"]
    with pytest.raises(Exception, match="write CREATE TEMPORARY VIEW"):
        spark.sql(f"CREATE TABLE refused_by_sql {options}")
    spark.sql(f"CREATE TABLE created_by_sql (key STRING, value STRING) {options}")
    try:
        for statement in ("SELECT * FROM created_by_sql", "INSERT INTO created_by_sql VALUES ('k', 'v')"):
            with pytest.raises(Exception, match="write CREATE TEMPORARY VIEW"):
                spark.sql(statement).collect()
    finally:
        spark.sql("DROP TABLE created_by_sql")


def test_continuous_and_real_time_triggers_are_refused(spark: Any, daemon: Daemon, tmp_path: Path) -> None:
    create(daemon, "triggers")
    options = {"kafka.bootstrap.servers": daemon.bootstrap}
    rows = spark.readStream.format("oncelog").options(**options, subscribe="triggers").load()
    writer = rows.select("value").writeStream.format("oncelog").options(**options, topic="triggers")
    with pytest.raises(Exception, match="does not support continuous processing"):
        writer.option("checkpointLocation", str(tmp_path / "a")).trigger(continuous="1 second").start()
    with pytest.raises(Exception, match=r"STREAMING_REAL_TIME_MODE|unexpected keyword argument 'realTime'"):  # 4.1
        writer.option("checkpointLocation", str(tmp_path / "b")).outputMode("update").trigger(
            realTime="5 minutes"
        ).start()


def test_the_secret_of_a_client_that_asks_for_tokens_is_in_no_plan_and_no_error(spark: Any) -> None:
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
    common = {
        "kafka.bootstrap.servers": "127.0.0.1:1",
        "kafka.default.api.timeout.ms": "1000",
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "OAUTHBEARER",
        "kafka.sasl.oauthbearer.token.endpoint.url": "http://127.0.0.1:1/token",
    }
    client = "kafka.sasl.oauthbearer.client.credentials.client"
    for secret in (
        {"kafka.sasl.jaas.config": f'{module} required clientId="job" clientSecret="hunter2";'},
        {f"{client}.id": "job", f"{client}.secret": "hunter2"},
    ):
        rows = spark.read.format("oncelog").options(**common, **secret, subscribe="any").load()
        assert "hunter2" not in rows._jdf.queryExecution().toString()
        with pytest.raises(Exception, match="1:1/token cannot be asked") as raised:
            rows.collect()
        assert "hunter2" not in str(raised.value)
