"""A standalone Spark cluster on this machine: a master and workers, by `spark-class` from the pyspark package.

Owns: the processes, and what the master's page says as JSON. The workers get nothing of this process's environment but
where Java is: no Python of this checkout, so executors have only what a job brings along.
"""

import json
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from tests.support.kafka.server import free_ports
from tests.support.patience import PATIENCE_S
from tests.support.processes.processes import below, command, parents

_POLL_S = 0.1
_CLASSES = "org.apache.spark.deploy"
_EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"


class SparkCluster:
    """`master` is for `--master`; each worker offers one core."""

    def __init__(self, work: Path, java_home: Path, workers: int = 2) -> None:
        import pyspark

        self._spark_home = Path(pyspark.__file__).parent
        self._work = work
        self._environment = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "JAVA_HOME": str(java_home),
            "SPARK_HOME": str(self._spark_home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
        }
        port, self._page = free_ports(2)
        self.master = f"spark://127.0.0.1:{port}"
        self._master = self._start("master.Master", "127.0.0.1", "--port", str(port), "--webui-port", str(self._page))
        # Spark runs no second attempt beside the first on the same host: each worker has an address of its own.
        self._workers = {host: self._start_worker(host) for host in (f"127.0.0.{1 + each}" for each in range(workers))}
        try:
            self.wait_for(lambda: self._alive() == workers)
        except BaseException:
            self.stop()
            raise

    def _start_worker(self, host: str) -> "subprocess.Popen[bytes]":
        size = ("--cores", "1", "--memory", "1g", "--webui-port", "0", "--work-dir", str(self._work / f"worker-{host}"))
        return self._start("worker.Worker", host, *size, self.master)

    def _alive(self) -> int:
        return sum(each["state"] == "ALIVE" for each in self.state()["workers"])

    def restore(self) -> None:
        """Start each worker again that has ended, and wait until a job has an executor on each."""
        for host, process in self._workers.items():
            if process.poll() is not None:
                self._workers[host] = self._start_worker(host)
        count = len(self._workers)
        self.wait_for(lambda: self._alive() >= count and len(self.executors()) == count)

    def _start(self, name: str, host: str, *arguments: str) -> "subprocess.Popen[bytes]":
        words = [str(self._spark_home / "bin" / "spark-class"), f"{_CLASSES}.{name}", "--host", host]
        with (self._work / "cluster.log").open("ab") as log:
            return subprocess.Popen([*words, *arguments], env=self._environment, stdout=log, stderr=log)

    def state(self) -> dict[str, Any]:
        """The JSON of the master's page; no workers while it starts: for a moment it answers every path with HTML."""
        try:
            with urlopen(f"http://127.0.0.1:{self._page}/json/", timeout=5) as page:
                found: dict[str, Any] = json.load(page)
        except (OSError, json.JSONDecodeError):
            return {"workers": []}
        return found

    def wait_for(self, is_so: Callable[[], bool]) -> None:
        """Raises TimeoutError, or RuntimeError if the master has ended, with the end of the cluster's log."""
        until_s = time.monotonic() + PATIENCE_S
        while not is_so():
            if time.monotonic() > until_s:
                raise TimeoutError((self._work / "cluster.log").read_text()[-4000:])
            with suppress(subprocess.TimeoutExpired):
                self._master.wait(_POLL_S)
                raise RuntimeError((self._work / "cluster.log").read_text()[-4000:])

    def executors(self) -> list[int]:
        """Process ids of the executors: children of the workers, beside what `spark-class` has left."""
        workers = {process.pid for process in self._workers.values()}
        return [pid for pid, parent in parents().items() if parent in workers and _EXECUTOR in command(pid)]

    def python_executables(self) -> set[Path]:
        """The executables of all Python processes below the executors, by the paths that these were started with."""
        return {Path(word) for pid in below(set(self.executors())) if "python" in (word := command(pid)[0])}

    def stop(self) -> None:
        for process in (*self._workers.values(), self._master):
            process.send_signal(signal.SIGTERM)
            process.wait(30)


@contextmanager
def spark_cluster(work: Path, java_home: Path) -> Iterator[SparkCluster]:
    cluster = SparkCluster(work, java_home)
    try:
        yield cluster
    finally:
        cluster.stop()
