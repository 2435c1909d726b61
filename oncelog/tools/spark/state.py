"""The marker of a query's sink beside its checkpoint, and what follows for its next start; changing the marker.

Owns: the comparison, and the transaction that writes another marker. Does not own: the decision, which is the sink's
(`pipeline.sink.marker`).
"""

from dataclasses import dataclass, replace
from typing import Any

from oncelog.client import AdminOptions, Producer, SecurityOptions
from oncelog.pipeline.options import NO_SECURITY
from oncelog.pipeline.sink.checkpoint import Checkpoint
from oncelog.pipeline.sink.marker import Marker, MarkerMismatch, decide, ensure_topic, read_markers
from oncelog.pipeline.sink.plan import sink_id_of, wanted_marker
from oncelog.pipeline.source.waiting import Waiting
from oncelog.tools.profiles import DEFAULT_TIMEOUT_S
from oncelog.tools.spark.behind import waiting_behind

REPAIRED = "repaired"
"""The output in a marker that a person has set: what the batch really published is not known."""


@dataclass(frozen=True, slots=True)
class State:
    """A sink and its query: batch numbers are None where there is none."""

    sink_id: str
    query_id: str
    last_planned: int | None
    """The newest batch whose offsets Spark has written."""
    last_done: int | None
    """The newest batch that Spark noted as done."""
    marker: Marker | None
    next_start: str
    """The step that the next start of the query takes, as a sentence."""
    is_consistent: bool
    """False if the next start is refused."""
    waiting: tuple[Waiting, ...] | None
    """The records behind open transactions in the topics that the query reads; None where they are unknown."""


def asking(security: SecurityOptions) -> AdminOptions:
    """Return the options with which a command asks first, which waits for no longer than other commands do."""
    found: Any = {**security, "default_api_timeout_ms": DEFAULT_TIMEOUT_S * 1000}
    options: AdminOptions = found
    return options


async def state_of(
    checkpoint: Checkpoint, bootstrap: str, topic: str, sink_id: str | None, security: SecurityOptions = NO_SECURITY
) -> State:
    """Raises CheckpointError, MarkerMismatch for a marker that cannot be read, and KafkaError.

    A query that is running may publish meanwhile.
    """
    query_id = checkpoint.query_id()
    sink_id = sink_id or sink_id_of(query_id)
    await ensure_topic(bootstrap, topic, asking(security))
    marker = (await read_markers(bootstrap, topic, asking(security))).get(sink_id)
    planned, done = checkpoint.batches("offsets"), checkpoint.batches("commits")
    last_planned, last_done = max(planned, default=None), max(done, default=None)
    sentence, is_consistent = _next_start(checkpoint, marker, last_planned, last_done)
    waiting = await waiting_behind(checkpoint, last_planned, bootstrap, asking(security))
    return State(sink_id, query_id, last_planned, last_done, marker, sentence, is_consistent, waiting)


def _next_start(
    checkpoint: Checkpoint, marker: Marker | None, last_planned: int | None, last_done: int | None
) -> tuple[str, bool]:
    """Return a sentence, and whether the sink will accept the next batch."""
    if last_planned is None or last_planned == last_done:
        wanted = Marker(0 if last_planned is None else last_planned + 1, checkpoint.query_id())
        doing = f"batch {wanted.batch_id} is planned and published"
    else:
        wanted = wanted_marker(checkpoint, last_planned)
        doing = f"batch {wanted.batch_id} is run again and published"
    try:
        if decide(wanted, marker):
            return doing, True
    except MarkerMismatch as error:
        return f"refused: {error}", False
    return f"batch {wanted.batch_id} is run again and skipped: it is applied", True


async def write_marker(
    bootstrap: str, topic: str, sink_id: str, marker: Marker | None, security: SecurityOptions = NO_SECURITY
) -> None:
    """Fence the sink's driver, if one is running, and set its marker; None removes it. Raises KafkaError."""
    await ensure_topic(bootstrap, topic, asking(security))
    producer = Producer(bootstrap, transactional_id=sink_id, **security)
    async with producer, producer.transaction() as transaction:
        value = None if marker is None else marker.encode()
        await transaction.send(topic, value, key=sink_id.encode(), partition=0)


def applied(checkpoint: Checkpoint, batch_id: int) -> Marker:
    """Return the marker that says that this batch of the checkpoint is applied. Raises CheckpointError."""
    if batch_id in checkpoint.batches("offsets"):
        return replace(wanted_marker(checkpoint, batch_id), outputs={REPAIRED: 0})
    # Spark deletes old plans; a batch of that number will not run again, so its fingerprint is never compared.
    return Marker(batch_id, checkpoint.query_id(), outputs={REPAIRED: 0})
