"""The PySpark job as a whole: run it, let it die once at the worst moment, run it again from its checkpoint.

Owns: the lives of the driver and what they reported. Does not own: the job (`job`), the output (`demo`).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from oncelog.pipeline.demo.processes import Child, ProcessFailed

KILL_AFTER_BATCH = 2
_LIFE_TIMEOUT_S = 900


@dataclass(slots=True)
class Totalling:
    """What happened to the micro-batches."""

    published: list[int] = field(default_factory=list)
    skipped: list[int] = field(default_factory=list)
    died_after: int | None = None
    records: int = 0
    java: str = ""
    spark: str = ""

    @property
    def batch_count(self) -> int:
        return len(set(self.published) | set(self.skipped) | ({self.died_after} - {None}))


def run_job(
    bootstrap: str,
    topic: str,
    output: str,
    max_offsets: int,
    work: Path,
    on_batch: Callable[[Totalling], None],
    on_report: Callable[[str], None],
) -> Totalling:
    """Two lives of the driver: the first is killed after a commit, the second continues. Raises ProcessFailed."""
    result = Totalling()

    def on_event(event: dict[str, Any]) -> None:
        match event["event"]:
            case "session":
                result.java, result.spark = event["java"], event["spark"]
            case "published":
                result.published.append(event["batch"])
                result.records += event["records"]
            case "dying":
                result.died_after = event["batch"]
                on_report(f"driver killed (-9) after EndTxn of batch {event['batch']}, before Spark's own commit")
            case "skipped":
                result.skipped.append(event["batch"])
                on_report(f"driver restarted: batch {event['batch']} is run again and skipped by its marker")
        on_batch(result)

    arguments = ["--bootstrap", bootstrap, "--topic", topic, "--output", output]
    arguments += ["--checkpoint", str(work / "checkpoint"), "--work", str(work)]
    arguments += ["--max-offsets", str(max_offsets)]
    first = Child(
        "oncelog.pipeline.demo.job", [*arguments, "--kill-after", str(KILL_AFTER_BATCH)], work / "job.log", on_event
    )
    try:
        first.wait(_LIFE_TIMEOUT_S)
    finally:
        first.end()
    if result.died_after is None:
        raise ProcessFailed(f"the driver did not die as planned: {(work / 'job.log').read_text()[-3000:]}")
    second = Child("oncelog.pipeline.demo.job", arguments, work / "job.log", on_event)
    try:
        second.check(_LIFE_TIMEOUT_S)
    finally:
        second.end()
    return result
