"""Publishes a micro-batch to a topic exactly once: one transaction in the driver, with the batch number inside it.

Owns: the decision whether a batch is new. Spark re-executes instead of remembering, so the decision has to be stored
with the data: the number of the next batch is a group offset that is committed in the same transaction.
Invariants
- Fence first, then read the marker: after InitProducerId no other process can still be committing, so what is read is
  final.
- Batch N is published if the marker says N, skipped if it says N + 1 and its fingerprint is the same. Anything else (an
  old checkpoint, a lost marker, another query's) raises: skipping silently would lose data.
"""

import asyncio
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from oncelog.client import Consumer, ConsumerGroupMetadata, OffsetAndMetadata, Producer, TopicPartition

Row = tuple[str, bytes]
"""Key and value of one output record."""


class MarkerMismatch(Exception):
    """The batch and the marker contradict each other; the message says what is likely."""


@dataclass(frozen=True, slots=True)
class Outcome:
    batch_id: int
    published: bool
    """False: the marker showed that this batch was already applied."""
    records: int
    producer_epoch: int


def sink_id_of(checkpoint: Path) -> str:
    """The identity of a query's output: Spark keeps the query's id in its checkpoint."""
    query_id = json.loads((checkpoint / "metadata").read_text())["id"]
    return f"spark-sink-{query_id}"


def fingerprint_of(checkpoint: Path, batch_id: int) -> str:
    """A digest of the offsets that Spark planned for a batch, written before any of it ran."""
    return hashlib.sha256((checkpoint / "offsets" / str(batch_id)).read_bytes()).hexdigest()[:16]


def decide(batch_id: int, fingerprint: str, marker: OffsetAndMetadata | None) -> bool:
    """True: publish. False: already applied. Raises MarkerMismatch."""
    expected = marker.offset if marker is not None else 0
    if batch_id == expected:
        return True
    if batch_id == expected - 1 and marker is not None:
        known = json.loads(marker.metadata).get("fingerprint")
        if known == fingerprint:
            return False
        raise MarkerMismatch(
            f"batch {batch_id} was applied with other offsets ({known}, now {fingerprint}): "
            "two queries share one sink, or the checkpoint was changed by hand"
        )
    if batch_id < expected:
        raise MarkerMismatch(
            f"batch {batch_id} was run again, but {expected} batches are applied: this is an old copy of the checkpoint"
        )
    raise MarkerMismatch(
        f"batch {batch_id} was run, but the marker knows only {expected} batches: "
        "the marker has expired or was deleted, or the checkpoint belongs to another cluster"
    )


class TransactionalSink:
    """Called by `foreachBatch` in the driver."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        checkpoint: Path,
        on_outcome: Callable[[Outcome], None],
        after_commit: Callable[[int], None] = lambda _: None,
    ) -> None:
        """`after_commit` is called with the batch number between EndTxn and Spark's own commit: the moment to die in a
        test."""
        self._bootstrap = bootstrap
        self._topic = topic
        self._checkpoint = checkpoint
        self._on_outcome = on_outcome
        self._after_commit = after_commit

    def apply(self, batch_id: int, rows: Sequence[Row]) -> None:
        """Publish a batch unless it is already applied. Raises MarkerMismatch and the client's errors."""
        outcome = asyncio.run(self._apply(batch_id, rows))
        if outcome.published:
            self._after_commit(batch_id)
        self._on_outcome(outcome)

    async def _apply(self, batch_id: int, rows: Sequence[Row]) -> Outcome:
        sink_id = sink_id_of(self._checkpoint)
        fingerprint = fingerprint_of(self._checkpoint, batch_id)
        marker_at = TopicPartition(self._topic, 0)
        async with Producer(self._bootstrap, transactional_id=sink_id, linger_ms=2, batch_size=131_072) as producer:
            producer_epoch = (await producer.init_transactions()).producer_epoch
            async with Consumer(bootstrap_servers=self._bootstrap, group_id=sink_id) as group:
                marker = (await group.committed(marker_at)).get(marker_at)
            if not decide(batch_id, fingerprint, marker):
                return Outcome(batch_id, False, 0, producer_epoch)
            async with producer.transaction() as transaction:
                for key, value in rows:
                    await transaction.send_soon(self._topic, value, key=key.encode())
                note = json.dumps({"batch": batch_id, "records": len(rows), "fingerprint": fingerprint})
                await transaction.send_offsets(
                    {marker_at: OffsetAndMetadata(batch_id + 1, note)}, group=ConsumerGroupMetadata(sink_id)
                )
        return Outcome(batch_id, True, len(rows), producer_epoch)
