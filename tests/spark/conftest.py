"""One Spark session for all tests of a run: its start is 5 to 10 seconds."""

from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from oncelog.pipeline.java import LOCAL_SETTINGS, QUICK_START, local_session
from tools.interop import Unavailable
from tools.spark_connector import connector_jars

# What a test reads is compared in UTC, wherever it runs.
SETTINGS = {**LOCAL_SETTINGS, **QUICK_START, "spark.sql.session.timeZone": "UTC"}

NOT_HERE = "readStream needs pyspark 4.2 or later"
"""A part of the format's error on Spark 4.1 (`make test-spark-versions`)."""
_CORE_SITE = """<configuration>
<property><name>fs.viewfs.mounttable.tests.link./run</name><value>{}</value></property>
</configuration>"""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, Any, Any]:
    """Skip tests that fail with the format's error on an older Spark."""
    try:
        return (yield)
    except Exception as error:
        if NOT_HERE in str(error):
            pytest.skip(NOT_HERE)
        raise


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
    settings = SETTINGS
    with suppress(Unavailable):  # the tests that need it skip with the reason
        settings = {**SETTINGS, "spark.jars": ",".join(map(str, connector_jars()))}
    session = local_session(tmp_path_factory.mktemp("spark"), "oncelog-tests", settings)
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
