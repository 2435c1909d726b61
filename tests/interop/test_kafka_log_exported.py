"""Apache Kafka's own log tool finds nothing wrong with what `oncelog log export` writes, and reads all of it."""

import os
from pathlib import Path

import pytest

from tests.interop.test_kafka_log_tools import complaints, dump
from tests.support.logs.damage import TOPIC
from tests.support.logs.data_directories import store
from tests.support.postgres.exported import exported
from tests.support.postgres.poured import LOG_END, filled_database

pytestmark = pytest.mark.kafka


def test_kafka_reads_every_file_without_a_complaint(tmp_path: Path) -> None:
    """It checks each index entry against the log, and prints what does not fit in lines of its own."""
    store(exported(filled_database()), tmp_path)
    directory = tmp_path / f"{TOPIC}-0"
    files = sorted(name for name in os.listdir(directory) if name[0] == "0" and not name.endswith(".batches"))
    lines = dump(directory, files)
    aborted = [line for line in lines if line.startswith("version: 0 producerId: ")]
    assert len(aborted) == 1
    assert complaints(lines) == aborted
    assert sum(line.startswith("baseOffset:") for line in lines) == LOG_END
