"""A streaming query through ten take-overs between two nodes over one PostgreSQL: its source and its sink wait alone.

Transactions are written to a topic meanwhile, in part aborted ones; the query copies what is committed to another, and
moves the offsets of a group with its micro-batches. The leader is killed five times, and stopped or asked to step down
in between.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from oncelog.client.blocking.clients import Producer
from tests.proofs.postgres import takeovers
from tests.proofs.postgres.world import World
from tests.spark.scenes import create, group_offsets, read
from tests.support.patience import SLOW_TIMEOUT_S, until
from tests.support.postgres.server import Postgres

pytest.importorskip("asyncpg", reason="asyncpg is not installed")
pytest.importorskip("psycopg", reason="the tables are asked with psycopg: pip install 'oncelog[postgres]'")
pytestmark = [pytest.mark.spark, pytest.mark.timeout(SLOW_TIMEOUT_S)]

SOURCE, COPIES, GROUP = "source", "copies", "lag"
PARTITIONS = 3
ABORTS_EVERY = 5
PAUSE_S = 0.02


def test_a_query_continues_through_ten_take_overs(
    spark: Any, postgres: Postgres, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """It never ends, each partition's copy has what was committed, once and in order, and nothing else, and the group's
    offsets are where the query is."""
    with World([postgres], tmp_path, 1, "takeovers_spark", (), count=2).open() as world:
        create(world, SOURCE, COPIES)
        with copying(spark, world, tmp_path / "checkpoint") as query:

            def goes_on() -> None:
                before = world.committed(COPIES)
                until(lambda: not query.isActive or world.committed(COPIES) > before)
                assert query.exception() is None

            stopped = Event()
            with ThreadPoolExecutor(1) as thread:
                written = thread.submit(write_until, stopped, world.bootstrap)
                try:
                    waits = takeovers.in_turn(world, goes_on)
                finally:
                    stopped.set()
            query.processAllAvailable()
            assert query.exception() is None
        names = written.result()
        assert len(names) > takeovers.IN_TURN
        found = read(world, COPIES)
        assert sum(group_offsets(world, GROUP).values()) == world.committed(SOURCE)
    record_property("longest_ms", round(max(waits) * 1000))
    print(f"Spark: {len(names)} transactions, at the longest {max(waits) * 1000:.0f} ms without a micro-batch")
    copies = {
        partition: [each.value for each in found if each.partition == partition] for partition in range(PARTITIONS)
    }
    assert copies == dict.fromkeys(range(PARTITIONS), names)


@contextmanager
def copying(spark: Any, world: World, checkpoint: Path) -> Iterator[Any]:
    options = {"kafka.bootstrap.servers": world.bootstrap}
    rows = spark.readStream.format("oncelog").options(**options, subscribe=SOURCE, startingOffsets="earliest").load()
    writer = rows.select("value", "partition").writeStream.format("oncelog").options(**options)
    writer = writer.options(topic=COPIES, commitGroup=GROUP)
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    try:
        yield query
    finally:
        query.stop()


def write_until(stopped: Event, bootstrap: str) -> list[bytes]:
    """The names of the transactions that were committed. Each has a record in each partition; a take-over that is more
    than a wait for their producer raises."""
    committed = []
    with Producer(bootstrap, transactional_id="writer") as producer:
        for number in count():
            if stopped.wait(PAUSE_S):
                break
            name = b"%d" % number
            with producer.transaction() as transaction:
                for partition in range(PARTITIONS):
                    transaction.send_soon(SOURCE, name, partition=partition)
                if number % ABORTS_EVERY == 0:
                    transaction.abort()
            if number % ABORTS_EVERY:
                committed.append(name)
    return committed
