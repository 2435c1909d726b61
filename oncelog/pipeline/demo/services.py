"""The main job as services of docker-compose.yml: what `make demo` does in one terminal, in a container for each part.

    load ──> broker <── total (driver) <── master, worker (Spark standalone)
               ^
               └────── verify

Owns: what each service runs, and where it finds the others: by their names in the compose file. Does not own: loading
(`load`), the query (`job`), the comparison (`verify`). Faults are not planted here: the one who runs it may kill any
container and start it again, and `verify` must find the same.

Each service may be started again at any time: the loader's progress is in its transactions, the query's in its
checkpoint. None relies on the order in which they are started, which not every program for compose files keeps: the
query waits until the broker has the loader's last commit, and `verify` until the totals count every purchase.
"""

import argparse
import asyncio
import os
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from oncelog.client import Admin, KafkaError, NewTopic
from oncelog.pipeline.demo.data import read_purchases, totals_of
from oncelog.pipeline.demo.job import TotalsQuery, make_topic
from oncelog.pipeline.demo.load import Loader, share_of
from oncelog.pipeline.demo.verify import Unreadable, differences, read_purchases_back, read_totals_back
from oncelog.pipeline.java import QUICK_START, java_home, prepare_environment

TOPIC, OUTPUT, PARTITIONS = "purchases", "totals", 4
DATA = "cdnow"
MASTER = "spark://spark-master:7077"
_BATCH = 500
_BATCHES = 6
_PAUSE_S = 1.0
_PATIENCE_S = 600
"""How long to wait for the other services: ten times what they take on two cores."""
_DAEMONS = {
    "master": ("master.Master", "--port", "7077", "--webui-port", "8080"),
    "worker": ("worker.Worker", "--cores", "2", "--memory", "1g", "--work-dir", "{work}/worker", MASTER),
}


def load(bootstrap: str) -> int:
    """Load every purchase once, in transactions, some of which are aborted and sent again."""

    async def run() -> None:
        async with Admin(bootstrap) as admin:
            await admin.create_topics(NewTopic(TOPIC, PARTITIONS), exist_ok=True)
        await _loader(bootstrap).run()

    asyncio.run(run())
    return 0


def _loader(bootstrap: str) -> Loader:
    _, purchases = read_purchases(DATA, None)
    share = [(0, purchases[0]), *share_of(purchases, 0, 1, PARTITIONS)]
    plan = argparse.Namespace(
        bootstrap=bootstrap, topic=TOPIC, partitions=PARTITIONS, loader=0, loaders=1, batch=_BATCH, abort_every=10
    )
    return Loader(plan, share)


def total(bootstrap: str, work: Path) -> int:
    """Compute the totals of all that is committed, on the cluster, in several micro-batches."""
    count = len(read_purchases(DATA, None)[1])
    loader = _loader(bootstrap)
    _wait_until(lambda: asyncio.run(loader.position()) == count, "the loader has committed every purchase")
    asyncio.run(make_topic(bootstrap, OUTPUT))
    session = _session(work)
    query = TotalsQuery(
        bootstrap,
        TOPIC,
        OUTPUT,
        work / "checkpoint",
        count // _BATCHES,
        on_outcome=lambda batch, outcome: print(
            f"batch {batch}: {'published' if outcome.published else 'skipped, it was published before'}", flush=True
        ),
    )
    query.writer(session).trigger(availableNow=True).start().awaitTermination()
    session.stop()
    return 0


def _session(work: Path) -> Any:
    prepare_environment(work)
    del os.environ["SPARK_LOCAL_IP"]  # executors in other containers connect to this driver
    from pyspark.sql import SparkSession

    settings = {
        **QUICK_START,
        "spark.driver.host": socket.gethostname(),
        "spark.driver.bindAddress": "0.0.0.0",
        "spark.executor.memory": "1g",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(work / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master(MASTER).appName("oncelog-totals")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def verify(bootstrap: str) -> int:
    """Compare what a third-party client reads with the file: exit code 0 if every total is equal to the cent."""
    path, purchases = read_purchases(DATA, None)
    expected = totals_of(purchases)
    _wait_until(
        lambda: read_totals_back(bootstrap, OUTPUT).purchases >= expected.count, "the totals count every purchase"
    )
    committed = read_purchases_back(bootstrap, TOPIC, "read_committed")
    found = differences(expected, committed, read_totals_back(bootstrap, OUTPUT))
    for each in found:
        print(f"DIFFERENT {each}")
    if not found:
        print(
            f"{expected.count:,} purchases, {expected.cents:,} cents: every total is equal to {path.name}, to the cent"
        )
    return int(bool(found))


def _wait_until(is_so: Callable[[], bool], what: str) -> None:
    """Wait until `is_so()`, and for a broker and a topic to exist. After a timeout what is there is used: the
    comparison shows it."""
    deadline = time.monotonic() + _PATIENCE_S
    print(f"waiting until {what}", flush=True)
    while time.monotonic() < deadline:
        with suppress(KafkaError, Unreadable):
            if is_so():
                return
        time.sleep(_PAUSE_S)
    print(f"timed out after {_PATIENCE_S} s waiting until {what}", flush=True)


def spark_daemon(name: str, work: Path) -> int:
    """Become Spark's master or worker, which find Java as the driver does."""
    import pyspark

    home = Path(pyspark.__file__).parent
    class_name, *arguments = _DAEMONS[name]
    os.environ.update(JAVA_HOME=str(java_home(Path.home())[0]), SPARK_HOME=str(home), SPARK_DAEMON_MEMORY="256m")
    command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{class_name}"]
    placed = [each.format(work=work) for each in arguments]
    os.execv(command[0], [*command, "--host", socket.gethostname(), *placed])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m oncelog.pipeline.demo.services")
    parser.add_argument("service", choices=("load", "total", "verify", *_DAEMONS))
    parser.add_argument("--bootstrap", default="broker:9092")
    parser.add_argument("--work", type=Path, default=Path("/work"), help="what driver and worker share")
    chosen = parser.parse_args()
    match chosen.service:
        case "load":
            return load(chosen.bootstrap)
        case "total":
            return total(chosen.bootstrap, chosen.work)
        case "verify":
            return verify(chosen.bootstrap)
        case name:
            return spark_daemon(name, chosen.work)


if __name__ == "__main__":
    sys.exit(main())
