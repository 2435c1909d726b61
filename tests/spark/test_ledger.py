"""The ledger on a broker: whatever happens to its queries, each topic and the table hold what was computed without Spark."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from oncelog.pipeline.demo.data import InputError, Purchase, packaged_file, read_cdnow
from tests.support import ledger
from tests.support.daemon import Daemon

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def ledger_spark(spark: Any) -> Iterator[Any]:
    """The shared session, with the ledger's settings for as long as this module needs them."""
    pytest.importorskip("pandas")
    pytest.importorskip("google.protobuf")
    from oncelog.pipeline.ledger.job import SETTINGS

    before = {name: spark.conf.get(name, None) for name in SETTINGS}
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)
    yield spark
    for name, value in before.items():
        spark.conf.unset(name) if value is None else spark.conf.set(name, value)


def cdnow(count: int | None = None) -> list[Purchase]:
    try:
        return read_cdnow(packaged_file("Lifetimes", "CDNOW_master.txt"))[:count]
    except InputError as missing:
        pytest.skip(str(missing))


def months_of(spark: Any, table: Path) -> Mapping[str, tuple[int, int]]:
    rows = spark.read.parquet(str(table)).selectExpr("date_format(at, 'yyyy-MM') month", "cents").collect()
    months: dict[str, tuple[int, int]] = {}
    for row in rows:
        cents, count = months.get(row.month, (0, 0))
        months[row.month] = (cents + row.cents, count + 1)
    return months


def dropped(queries: list[Any]) -> int:
    operators = [each for query in queries for progress in query.recentProgress for each in progress["stateOperators"]]
    return sum(int(each["numRowsDroppedByWatermark"]) for each in operators)
