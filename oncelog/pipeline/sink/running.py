"""Which start of a query runs a batch in `foreachBatch`, and that the checkpoint is its own.

Owns: what Spark says of that. In a session with a JVM the driver's thread has the ids of query and run as properties.
Over Spark Connect the function runs in a process that the server starts for each start of the query, and its session
knows neither id: there the process stands for the run, and the checkpoint must be one that waits for this very batch.
"""

from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from oncelog.pipeline.sink.checkpoint import Checkpoint

_QUERY = "sql.streaming.queryId"
_RUN = "spark.jobGroup.id"
"""The property with the group of a job: Spark runs the jobs of a streaming query in one with the name of its run."""
_THIS_PROCESS = uuid4().hex


@dataclass(frozen=True, slots=True)
class Running:
    """A start of a query."""

    run_id: str
    query_name: str | None


def has_jvm(session: Any) -> bool:
    """Whether this process has the JVM of the session, which is not so over Spark Connect."""
    return getattr(session, "sparkContext", None) is not None


def running(session: Any, checkpoint: Checkpoint, batch_id: int) -> Running:
    """Return the start of the query that runs this batch. Raises ValueError if the checkpoint is of another one, and
    CheckpointError."""
    if not has_jvm(session):
        _check_waits_for(checkpoint, batch_id)
        return Running(_THIS_PROCESS, None)
    context = session.sparkContext
    query_id = context.getLocalProperty(_QUERY)
    if query_id and query_id != checkpoint.query_id():
        raise ValueError(
            f"checkpointLocation={checkpoint.location!r} is of query {checkpoint.query_id()}, and this batch is of "
            f"query {query_id}: {_PASS}"
        )
    name = next((each.name for each in session.streams.active if each.id == query_id), None)
    return Running(context.getLocalProperty(_RUN) or "", name)


_PASS = "pass the location that the query was started with"


def _check_waits_for(checkpoint: Checkpoint, batch_id: int) -> None:
    """Raise ValueError unless this batch is the newest that is planned, and is not done."""
    planned, done = (max(checkpoint.batches(kind), default=-1) for kind in ("offsets", "commits"))
    if planned != batch_id or done >= batch_id:
        raise ValueError(
            f"checkpointLocation={checkpoint.location!r} is of another query: batch {planned} was planned there last, "
            f"batch {done} was done last, and this is batch {batch_id}: {_PASS}"
        )
