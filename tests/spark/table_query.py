"""A query whose batches go to one topic and to tables, and two faults that it outlasts whatever the tables are."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from oncelog.pipeline.sink import Outcome, exactly_once
from oncelog.pipeline.sink.outputs import ExactlyOnce
from tests.spark.scenes import BATCHES, create, expected, make_input, run_to_end, stream, values
from tests.support.processes.daemon import Daemon
from tests.support.spark.driver_death import Death

HIT = 1
"""The batch that a fault meets."""


class TableQuery:
    """A query as a program that can be started again."""

    def __init__(
        self,
        spark: Any,
        daemon: Daemon,
        work: Path,
        topic: str,
        write: Callable[[ExactlyOnce, Any], object],
        tables: Callable[[], Sequence[Counter[str]]],
    ) -> None:
        """`write` gives a batch to the topic and the tables; `tables` returns the values that each has."""
        create(daemon, topic)
        self.spark = spark
        self._daemon = daemon
        self._source = make_input(work / "in")
        self._topic = topic
        self._write = write
        self._tables = tables
        self.checkpoint = work / "checkpoint"
        self.tasks = 2
        self.harness: dict[str, Any] = {}
        """Arguments of `exactly_once` for the batch that the fault meets."""
        self.outcome: Outcome | None = None
        """The outcome of the last batch."""

    def publish(self, batch: Any, batch_id: int, **harness: Any) -> None:
        options = {"kafka.bootstrap.servers": self._daemon.bootstrap, "checkpointLocation": str(self.checkpoint)}
        with exactly_once(batch, batch_id, options, **harness) as once:
            self._write(once, batch)
        self.outcome = once.outcome

    def run(self) -> None:
        def publish(batch: Any, batch_id: int) -> None:
            self.publish(batch.repartition(self.tasks), batch_id, **(self.harness if batch_id == HIT else {}))

        writer = stream(self.spark, self._source).writeStream.foreachBatch(publish)
        run_to_end(writer.option("checkpointLocation", str(self.checkpoint)))

    def forget_last_commit(self) -> None:
        for name in (str(BATCHES - 1), f".{BATCHES - 1}.crc"):
            (self.checkpoint / "commits" / name).unlink()

    def check(self) -> None:
        found = [values(self._daemon, self._topic), *self._tables()]
        assert found == [expected()] * len(found)


def outlast_a_death(query: TableQuery, death: Death) -> None:
    """The next driver splits the batch differently."""
    query.harness = {"on_step": death.on_step, "run": death.run}
    with pytest.raises(Exception, match="DriverDied"):
        query.run()
    query.harness, query.tasks = {}, 3
    query.run()
    query.check()


def outlast_a_second_driver(query: TableQuery, point: Death) -> None:
    """A second driver does the whole batch while the first is between two steps. The first then does what it can."""
    seen = 0

    async def on_step(step: Any, moment: str) -> None:
        nonlocal seen
        seen += (step, moment) == (point.step, point.moment)
        if seen == point.nth and (step, moment) == (point.step, point.moment):
            texts = [each for each in expected() if each.startswith(f"{HIT}:")]
            pairs = [(f"key-{n % 3}", each) for n, each in enumerate(texts)]
            rows = query.spark.createDataFrame(pairs, "key string, value string")
            await asyncio.to_thread(query.publish, rows, HIT)

    query.harness = {"on_step": on_step}
    try:
        query.run()
    except Exception as error:
        if not any(word in str(error) for word in ("FENCED", "INVALID_PRODUCER_EPOCH")):
            raise
    query.harness = {}
    query.run()
    assert seen
    query.check()
