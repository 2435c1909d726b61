"""The PySpark job as a whole: run it, let it die once at the worst moment, run it again from its checkpoint.

Owns: the lives of the driver and what they reported. Does not own: the job (`job`), the output (`demo`). To start Spark
takes longer than the work itself, so two drivers are started ahead: the first while the purchases are still being
loaded, its successor while the first one works. A driver that dies unplanned is started again: on a busy machine Spark
gives up on a Python worker that was slow to connect.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from oncelog.pipeline.demo.processes import Child, ProcessFailed

KILL_AFTER_BATCH = 2
_LIFE_TIMEOUT_S = 900
_UNPLANNED_DEATHS = 3
"""How many unplanned deaths of drivers are accepted."""
_JOB = "oncelog.pipeline.demo.job"


@dataclass(slots=True)
class Totalling:
    """The outcome of the micro-batches."""

    published: list[int] = field(default_factory=list)
    skipped: list[int] = field(default_factory=list)
    died_after: int | None = None
    records: int = 0
    java: str = ""
    spark: str = ""
    unplanned_deaths: int = 0

    @property
    def batch_count(self) -> int:
        return len(set(self.published) | set(self.skipped) | ({self.died_after} - {None}))


class Drivers:
    """The job's drivers, one after the other. As a context it lets none outlive it."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        output: str,
        work: Path,
        on_batch: Callable[[Totalling], None] = lambda _: None,
        on_report: Callable[[str], None] = lambda _: None,
        module: str = _JOB,
    ) -> None:
        """Starts the first driver, which stands by."""
        self._module = module
        self._arguments = ["--bootstrap", bootstrap, "--topic", topic, "--output", output]
        self._arguments += ["--checkpoint", str(work / "checkpoint"), "--work", str(work)]
        self._log = work / "job.log"
        self._on_batch = on_batch
        self._on_report = on_report
        self._result = Totalling()
        self._is_done = False
        self._drivers: list[Child] = []
        self._standing_by: Child | None = self._driver()

    def __enter__(self) -> "Drivers":
        return self

    def __exit__(self, *_: object) -> None:
        for driver in self._drivers:
            driver.end()

    def run(self, max_offsets: int) -> Totalling:
        """Run the first driver, which is killed after a commit, and the next one, which continues. Raises
        ProcessFailed."""
        result = self._result
        while not self._is_done:
            driver = self._standing_by or self._driver()
            kill_after = max([KILL_AFTER_BATCH, *result.published]) if result.died_after is None else None
            driver.wake(json.dumps({"max_offsets": max_offsets, "kill_after": kill_after}))
            self._standing_by = self._driver() if kill_after is not None else None
            driver.wait(_LIFE_TIMEOUT_S)
            self._judge(is_planned=kill_after is not None and result.died_after is not None)
        return result

    def _judge(self, *, is_planned: bool) -> None:
        """Raise ProcessFailed unless the driver ended as it may."""
        if self._is_done and self._result.died_after is None:
            raise ProcessFailed(f"the driver did not die as planned: {self._end_of_log()}")
        if self._is_done or is_planned:
            return
        self._result.unplanned_deaths += 1
        if self._result.unplanned_deaths > _UNPLANNED_DEATHS:
            raise ProcessFailed(f"the driver died {self._result.unplanned_deaths} times: {self._end_of_log()}")
        self._on_report("the driver died by itself and is started again from its checkpoint")

    def _driver(self) -> Child:
        driver = Child(self._module, self._arguments, self._log, self._on_event)
        self._drivers.append(driver)
        return driver

    def _end_of_log(self) -> str:
        return self._log.read_text()[-3000:]

    def _on_event(self, event: dict[str, Any]) -> None:
        result = self._result
        match event["event"]:
            case "session":
                result.java, result.spark = event["java"], event["spark"]
            case "published":
                result.published.append(event["batch"])
                result.records += event["records"]
            case "dying":
                result.died_after = event["batch"]
                self._on_report(f"driver killed (-9) after EndTxn of batch {event['batch']}, before Spark's own commit")
            case "skipped":
                result.skipped.append(event["batch"])
                self._on_report(f"driver restarted: batch {event['batch']} is run again and skipped by its marker")
            case "done":
                self._is_done = True
        self._on_batch(result)
