"""One query with one sink, and the broker below it: what a fault acts on."""

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Protocol

from oncelog.client import Producer
from oncelog.faults import FaultClient, Rule
from oncelog.pipeline.sink import exactly_once
from tests.proofs.nemesis import Broker
from tests.spark.scenes import BATCHES, run_to_end, stream, values
from tests.support.kafka.server import Kafka
from tests.support.patience import PATIENCE_S
from tests.support.processes.daemon import Daemon
from tests.support.processes.faults import faults_of

HIT = 1
"""The batch that a fault meets, where it can choose."""
OURS, FORMAT, NAIVE, SPARK = "exactly_once", 'format("oncelog")', "plain foreachBatch", 'format("kafka")'
SINKS = (OURS, FORMAT, NAIVE, SPARK)


def table_in(directory: Path) -> Path:
    """The Delta table of a scene in this directory."""
    return directory / "table"


def outputs(address: "Address", topic: str, directory: Path, sink: str) -> list[Counter[str]]:
    """The rows of all that the sink writes: its topic, and `exactly_once` a table."""
    from deltalake import DeltaTable

    found = [values(address, topic)]
    if sink == OURS:
        table = str(table_in(directory))
        rows = DeltaTable(table).to_pyarrow_table()["value"].to_pylist() if DeltaTable.is_deltatable(table) else []
        found.append(Counter(rows))
    return found


class Interrupted(Exception):
    """The plain foreachBatch dies here."""


class Address(Protocol):
    """A broker, as a query sees it."""

    @property
    def bootstrap(self) -> str: ...


@dataclass
class Oncelog:
    """Ours, whose faults and clock can be set."""

    daemon: Daemon

    @property
    def bootstrap(self) -> str:
        return self.daemon.bootstrap

    @property
    def faults(self) -> FaultClient:
        return faults_of(self.daemon)

    def kill(self) -> None:
        self.daemon.kill()

    def start(self) -> None:
        self.daemon.start()

    @contextmanager
    def crashing(self, rule: Rule, away_s: float) -> Iterator[None]:
        """The rule ends the broker in this block, which then stays away so long."""
        self.faults.plant(rule)
        back: list[bool] = []

        def bring_back() -> None:
            self.daemon.process.wait(PATIENCE_S)
            threading.Event().wait(away_s)
            self.daemon.start()
            back.append(True)

        bringing = threading.Thread(target=bring_back)
        bringing.start()
        yield
        bringing.join()
        assert back, "the broker did not crash"


@dataclass
class Scene:
    """One query of one sink."""

    spark: Any
    address: Address
    directory: Path
    sink: str
    topic: str
    random: Random
    tasks: int = 2
    harness: dict[str, Any] = field(default_factory=dict)
    """Options of `exactly_once` for the batch that the fault meets."""
    hit: int | None = HIT
    """The batch that the fault meets; None: every one."""
    interrupts: bool = False
    """The batch that the fault meets is ended when half of it is written."""
    in_task: Any = None
    """The function that mapInArrow runs in each task, before the sink."""

    @property
    def checkpoint(self) -> Path:
        return self.directory / "checkpoint"

    @property
    def broker(self) -> Broker:
        """The broker, for faults that kill it."""
        assert isinstance(self.address, Oncelog | Kafka)
        return self.address

    @property
    def oncelog(self) -> Oncelog:
        """The broker, for faults that only ours has."""
        assert isinstance(self.address, Oncelog)
        return self.address

    def writer(self) -> Any:
        """The query, before its start."""
        rows = stream(self.spark, self.directory / "in").repartition(self.tasks)
        if self.in_task is not None:
            rows = rows.mapInArrow(self.in_task, "key string, value string")
        if self.interrupts and self.sink in (FORMAT, SPARK):
            rows = rows.selectExpr("key", f"if(value = '{HIT}:0', raise_error('interrupted'), value) as value")
        writer = rows.writeStream.option("checkpointLocation", str(self.checkpoint))
        if self.sink in (FORMAT, SPARK):
            writer = writer.format("oncelog" if self.sink == FORMAT else "kafka").option("topic", self.topic)
            return writer.option("kafka.bootstrap.servers", self.address.bootstrap)
        return writer.foreachBatch(self.ours if self.sink == OURS else self.naive)

    def run(self) -> None:
        """Runs the query from the checkpoint to the end. Raises its error."""
        run_to_end(self.writer())

    def start(self) -> Any:
        """Starts the query in the background, and returns it."""
        return self.writer().trigger(availableNow=True).start()

    def run_expecting_the_end(self, *words: str) -> None:
        """The fault ends the query with one of these words; after that, nothing is wrong any more."""
        try:
            self.run()
        except Exception as error:
            if not any(word in str(error) for word in words):
                raise
        else:
            raise AssertionError("the fault ended nothing")
        self.harness, self.interrupts = {}, False

    def ours(self, batch: Any, batch_id: int) -> None:
        options = {"kafka.bootstrap.servers": self.address.bootstrap, "checkpointLocation": str(self.checkpoint)}
        with exactly_once(batch, batch_id, options, **(self.harness if self.hit in (batch_id, None) else {})) as once:
            once.to_topic(batch, self.topic).to_delta(batch, str(table_in(self.directory)))

    def naive(self, batch: Any, batch_id: int) -> None:
        rows = batch.toArrow().to_pylist()
        if self.interrupts and batch_id == HIT:
            asyncio.run(self._send(rows[: len(rows) // 2]))
            raise Interrupted
        asyncio.run(self._send(rows))

    async def _send(self, rows: list[dict[str, str]]) -> None:
        async with Producer(self.address.bootstrap, enable_idempotence=True) as producer:
            for row in rows:
                await producer.send_soon(self.topic, row["value"].encode(), key=row["key"].encode())
            await producer.flush()

    def forget_last_commit(self) -> None:
        """The driver died after the sink had committed and before Spark noted that."""
        for name in (str(BATCHES - 1), f".{BATCHES - 1}.crc"):
            (self.checkpoint / "commits" / name).unlink()
