"""The ledger on a broker: each topic and the table hold what was computed without Spark, to the cent."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from oncelog.pipeline.demo.data import InputError, Purchase, packaged_file, read_cdnow
from tests.support.processes.daemon import Daemon
from tests.support.spark import ledger

pytestmark = pytest.mark.spark


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


@pytest.mark.slow
def test_every_output_is_right_to_the_cent_in_many_batches(ledger_spark: Any, daemon: Daemon, tmp_path: Path) -> None:
    """All of CDNOW, with late and broken records among them; a run with nothing new adds nothing."""
    from oncelog.pipeline.ledger.job import Ledger, run_once

    arrivals = ledger.arrivals_of(cdnow())
    expected = ledger.expected_of(arrivals)
    assert sum(cents for cents, *_ in expected.balances.values()) == 250_031_563
    ledger.create_topics(daemon.bootstrap, "all.")
    ledger.send(daemon.bootstrap, "all.", arrivals)
    table = tmp_path / "table"
    job = Ledger(daemon.bootstrap, str(tmp_path / "checkpoint"), str(table), "all.", rows_per_batch=25_000)
    for _ in range(2):
        assert dropped(run_once(ledger_spark, job)) == 0
        ledger.check(daemon.bootstrap, "all.", expected)
        assert months_of(ledger_spark, table) == expected.months


def test_a_batch_that_spark_runs_again_counts_once(ledger_spark: Any, daemon: Daemon, tmp_path: Path) -> None:
    """A driver that dies between the broker's commit and Spark's own leaves the last batch unrecorded; it runs
    again.
    """
    from oncelog.pipeline.ledger.job import Ledger, run_once

    arrivals = ledger.arrivals_of(cdnow(2_000))
    ledger.create_topics(daemon.bootstrap, "again.")
    checkpoint = tmp_path / "checkpoint"
    job = Ledger(daemon.bootstrap, str(checkpoint), str(tmp_path / "table"), "again.", rows_per_batch=900)
    sent = 0
    for until in (1_000, len(arrivals)):
        ledger.send(daemon.bootstrap, "again.", arrivals[sent:until])
        sent = until
        run_once(ledger_spark, job)
        for query in ("intake", "balances", "sessions", "table"):
            forget_last_commit(checkpoint / query)
        run_once(ledger_spark, job)
        expected = ledger.expected_of(arrivals[:until])
        ledger.check(daemon.bootstrap, "again.", expected)
        assert months_of(ledger_spark, tmp_path / "table") == expected.months


def forget_last_commit(checkpoint: Path) -> None:
    batches = sorted(int(each.name) for each in (checkpoint / "commits").iterdir() if each.name.isdecimal())
    for name in (f"{batches[-1]}", f".{batches[-1]}.crc"):
        (checkpoint / "commits" / name).unlink(missing_ok=True)
