"""The PySpark job: committed purchases in, totals out, exactly once, restarted from its checkpoint as often as needed.

Owns: the query, the driver's life. The driver starts Spark, warms it up, and stands by for a line on
its standard input, an object as JSON: `max_offsets`, and `kill_after`: the driver dies, as by kill -9, after that
batch is committed in the broker and before Spark records that, the worst possible moment (null: it does not).
"""

import argparse
import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oncelog.client import Admin, Producer
from oncelog.pipeline.demo.events import emit
from oncelog.pipeline.demo.transform import totals_by_key
from oncelog.pipeline.java import QUICK_START, java_home, local_session
from oncelog.pipeline.sink import Outcome, Step, exactly_once


def start_session(work: Path) -> Any:
    return local_session(work, "oncelog-totals", {**QUICK_START, "spark.sql.execution.arrow.pyspark.enabled": "true"})


def records_of(totals: Any) -> Any:
    """Return a micro-batch of totals as records: the newest value of a key is its total."""
    return totals.selectExpr("total_key as key", "to_json(struct(cents, purchases)) as value")


async def make_topic(bootstrap: str, topic: str) -> None:
    """Create the topic. The sink creates none: a mistyped name would swallow its results."""
    async with Admin(bootstrap) as admin:
        await admin.create_topics(topic, exist_ok=True)


async def delete_topic(bootstrap: str, topic: str) -> None:
    async with Admin(bootstrap) as admin:
        await admin.delete_topics(topic)


@dataclass(frozen=True, slots=True)
class TotalsQuery:
    """The query with its input, its output and its reports."""

    bootstrap: str
    topic: str
    output: str
    checkpoint: Path
    max_offsets: int
    on_outcome: Callable[[int, Outcome], None] = lambda _, __: None
    on_committed: Callable[[int], None] = lambda _: None
    """Called with the batch number after EndTxn, before Spark's own commit."""

    def writer(self, session: Any) -> Any:
        """Return the query, which has not been started."""
        records = (
            session.readStream.format("oncelog")
            .option("kafka.bootstrap.servers", self.bootstrap)
            .option("subscribe", self.topic)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", str(self.max_offsets))
            .load()
        )
        totals = totals_by_key(records).writeStream.outputMode("update")
        return totals.option("checkpointLocation", str(self.checkpoint)).foreachBatch(self._publish)

    def _publish(self, totals: Any, batch_id: int) -> None:
        async def on_step(step: Step, moment: str) -> None:
            if (step, moment) == (Step.END, "after"):
                self.on_committed(batch_id)

        options = {"kafka.bootstrap.servers": self.bootstrap, "checkpointLocation": str(self.checkpoint)}
        with exactly_once(totals, batch_id, options, on_step=on_step) as once:
            once.to_topic(records_of(totals), self.output)
        if once.outcome is not None:
            self.on_outcome(batch_id, once.outcome)


def warm_up(session: Any, bootstrap: str, work: Path) -> None:
    """Run the whole query over one purchase, in a topic of its own: the first of anything in Spark takes seconds."""
    topic = f"warm-up-{os.getpid()}"
    asyncio.run(make_topic(bootstrap, topic))
    asyncio.run(_send_a_purchase(bootstrap, topic))
    query = TotalsQuery(bootstrap, topic, topic, work / topic, max_offsets=1)
    query.writer(session).trigger(availableNow=True).start().awaitTermination()
    asyncio.run(delete_topic(bootstrap, topic))


async def _send_a_purchase(bootstrap: str, topic: str) -> None:
    purchase = {"row": 0, "customer": "nobody", "date": "19970101", "cents": 0}
    async with Producer(bootstrap) as producer:
        await producer.send(topic, json.dumps(purchase).encode())


def run(arguments: argparse.Namespace) -> None:
    """Run one life of the driver, until everything stable at its start, and what arrives meanwhile, is processed."""
    session = start_session(arguments.work)
    emit("session", spark=session.version, java=java_home(arguments.work)[1])
    warm_up(session, arguments.bootstrap, arguments.work)
    orders = json.loads(sys.stdin.readline() or "null")
    if orders is None:
        return  # the parent process has no use for this driver

    def on_outcome(batch_id: int, outcome: Outcome) -> None:
        emit(
            "published" if outcome.published else "skipped",
            batch=batch_id,
            records=outcome.records if outcome.published else 0,
            producer_epoch=outcome.producer_epoch,
        )

    def on_committed(batch_id: int) -> None:
        if batch_id == orders["kill_after"]:
            emit("dying", batch=batch_id)
            os.killpg(os.getpgid(0), signal.SIGKILL)  # the JVM dies with its driver

    bootstrap, output, checkpoint = arguments.bootstrap, arguments.output, arguments.checkpoint
    asyncio.run(make_topic(bootstrap, output))
    totals = TotalsQuery(
        bootstrap, arguments.topic, output, checkpoint, orders["max_offsets"], on_outcome, on_committed
    )
    query = totals.writer(session).start()
    query.processAllAvailable()
    query.stop()
    emit("done")
    session.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description="Total committed purchases, exactly once.")
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    run(parser.parse_args())


if __name__ == "__main__":
    main()
