"""One Spark session for all tests of a run: its start is 5 to 10 seconds."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tools.interop import Unavailable
from tools.spark_connector import connector_jars

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    # What a test reads is compared in UTC, wherever it runs.
    "spark.sql.session.timeZone": "UTC",
}

_CORE_SITE = """<configuration>
<property><name>fs.viewfs.mounttable.tests.link./run</name><value>{}</value></property>
</configuration>"""


@pytest.fixture(scope="session")
def viewfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A file system of Hadoop's that only Java knows, as a URI: it shows this run's temporary files.

    It is in the settings of the session and of every process below it.
    """
    settings = tmp_path_factory.mktemp("hadoop")
    (settings / "core-site.xml").write_text(_CORE_SITE.format(tmp_path_factory.getbasetemp().as_uri()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HADOOP_CONF_DIR", str(settings))
        yield "viewfs://tests/run"


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, viewfs: str) -> Iterator[Any]:
    """A local session on two cores; with Spark's Kafka connector, if that can be had."""
    pytest.importorskip("pyspark")
    from pyspark.sql import SparkSession

    from oncelog.pipeline.java import prepare_environment

    work = tmp_path_factory.mktemp("spark")
    prepare_environment(work)
    builder = SparkSession.builder.master("local[2]").config("spark.sql.warehouse.dir", str(work / "warehouse"))
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    with suppress(Unavailable):  # the tests that need it skip with the reason
        builder = builder.config("spark.jars", ",".join(map(str, connector_jars())))
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def kafka_connector(spark: Any) -> str:
    """The name of Spark's own format; skips where its jars cannot be had."""
    try:
        connector_jars()
    except Unavailable as missing:
        pytest.skip(str(missing))
    return "kafka"


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    return str(tmp_path / "checkpoint")
