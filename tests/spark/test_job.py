"""The Spark job against a daemon: what was aborted is not counted, what died is not published twice."""

import asyncio
import json
from pathlib import Path

import pytest

from oncelog.client import Producer
from oncelog.pipeline.demo.data import Purchase, totals_of
from oncelog.pipeline.demo.load import encode
from oncelog.pipeline.demo.totalling import KILL_AFTER_BATCH, Drivers
from oncelog.pipeline.demo.verify import read_topic, read_totals_back
from tests.support.processes.daemon import Daemon

pytestmark = pytest.mark.spark
PURCHASES = [Purchase(f"customer-{row % 7}", f"1997{row % 12 + 1:02d}01", 100 + row) for row in range(60)]
BATCH = 5


class Unwanted(Exception):
    """Makes a transaction abort."""


async def load(bootstrap: str) -> None:
    """One partition; every other transaction is aborted first."""
    async with Producer(bootstrap, transactional_id="load") as producer:
        for start in range(0, len(PURCHASES), BATCH):
            if start % 2:
                with pytest.raises(Unwanted):
                    await write(producer, start, abort=True)
            await write(producer, start, abort=False)


async def write(producer: Producer, start: int, *, abort: bool) -> None:
    async with producer.transaction() as transaction:
        for row in range(start, start + BATCH):
            await transaction.send_soon("purchases", encode(row, PURCHASES[row]), partition=0)
        if abort:
            await producer.flush()
            raise Unwanted


def test_a_driver_that_dies_after_its_commit_publishes_each_batch_once(daemon: Daemon, tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    asyncio.run(load(daemon.bootstrap))
    news: list[str] = []
    with Drivers(daemon.bootstrap, "purchases", "totals", tmp_path, on_report=news.append) as drivers:
        totalling = drivers.run(max_offsets=20)
    assert (totalling.died_after, totalling.skipped) == (KILL_AFTER_BATCH, [KILL_AFTER_BATCH])
    expected = totals_of(PURCHASES)
    published = read_totals_back(daemon.bootstrap, "totals")
    assert (published.by_customer, published.by_month) == (expected.by_customer, expected.by_month)
    # A running total is published once a batch that changes it: never the same count twice.
    steps = [
        (key, json.loads(value or b"{}")["purchases"])
        for key, value in read_topic(daemon.bootstrap, "totals", "read_committed")
    ]
    assert len(steps) == len(set(steps))
