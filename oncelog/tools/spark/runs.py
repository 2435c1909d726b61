"""The markers of batch writes with a `runId`: which there are, and forgetting those that no job will repeat.

Owns: which markers belong to batch writes. A stream's marker is not among them: `repair` has its rules.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from oncelog.client import Record, SecurityOptions
from oncelog.pipeline.options import NO_SECURITY
from oncelog.pipeline.sink.marker import Marker, ensure_topic, read_records
from oncelog.pipeline.sink.plan import RUN_PREFIX
from oncelog.tools.spark.state import asking, write_marker


@dataclass(frozen=True, slots=True)
class Run:
    """A batch write that happened."""

    run_id: str
    output: str
    """The name of the output; empty if an earlier version wrote the marker."""
    sink_id: str
    """The key of the marker."""
    written_ms: int
    """The timestamp of its marker."""
    outputs: dict[str, int]
    """The number of records by output."""


async def runs_of(bootstrap: str, topic: str, security: SecurityOptions = NO_SECURITY) -> list[Run]:
    """Return every batch write that is remembered, the oldest first. Raises ConfigError, MarkerMismatch, KafkaError."""
    await ensure_topic(bootstrap, topic, asking(security))
    found = [
        _run(name, record)
        for name, record in (await read_records(bootstrap, topic, asking(security))).items()
        if name.startswith(RUN_PREFIX)
    ]
    return sorted(found, key=lambda run: (run.written_ms, run.run_id))


def _run(sink_id: str, record: Record) -> Run:
    marker = Marker.decode(record.value or b"")
    output = "" if marker.topics is None else next(iter(marker.topics), "")
    run_id = sink_id.removeprefix(RUN_PREFIX).removesuffix(f"/{output}" if output else "")
    return Run(run_id, output, sink_id, record.timestamp_ms, marker.outputs)


async def forget(bootstrap: str, topic: str, runs: Sequence[Run], security: SecurityOptions = NO_SECURITY) -> None:
    """Forget these writes: one with such an id writes again, and one that is running now is fenced. Raises
    KafkaError."""
    for run in runs:
        await write_marker(bootstrap, topic, run.sink_id, None, security)
