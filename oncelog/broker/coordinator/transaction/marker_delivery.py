"""Delivers a marker to every partition of a prepared transaction.

Owns: which partitions still lack their marker, and when to retry. Does not own: the decision (PREPARE is appended
before `deliver` is called), COMPLETE (logged by the owner of `on_delivered`), how a marker travels (`markers`).
Invariants
- A marker is appended behind PREPARE, in the same round of a store whose rounds are whole, or sent when PREPARE is
  durable.
- `on_delivered` is called once, when each partition has its marker, is deleted, or has seen a newer coordinator; never
  for a transaction that was forgotten in between. What is appended from then on is durable after all markers, or with
  them.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from oncelog.broker.coordinator.transaction.markers import MarkerSender, Verdict, verdict
from oncelog.broker.coordinator.transaction.metadata import TopicPartition, TransactionMetadata
from oncelog.broker.coordinator.transaction.states import TransactionState
from oncelog.broker.log.values import EndMarker
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.ports import Scheduler
from oncelog.protocol.errors import ErrorCode

FIRST_BACKOFF_MS = 20
MAX_BACKOFF_MS = 1_000


class MarkerDelivery:
    def __init__(
        self,
        markers: MarkerSender,
        leader_of: Callable[[str, int], int | None],
        scheduler: Scheduler,
        coordinator_epoch: int,
        on_delivered: Callable[[TransactionMetadata], None],
        rounds_are_whole: Callable[[], bool],
    ) -> None:
        """`leader_of` returns the node id that leads a partition, None if the partition no longer exists;
        `coordinator_epoch` fences earlier coordinators of the same ids in each partition."""
        self._rounds_are_whole = rounds_are_whole
        self._markers = markers
        self._leader_of = leader_of
        self._scheduler = scheduler
        self._coordinator_epoch = coordinator_epoch
        self._on_delivered = on_delivered
        self._left: dict[str, list[TopicPartition]] = {}
        self._prepared: dict[str, TransactionMetadata] = {}

    def left(self, transactional_id: str) -> list[TopicPartition] | None:
        """Return the partitions that still lack their marker; None if no marker of this id is in flight."""
        left = self._left.get(transactional_id)
        if left is None:
            return None
        return self._markers.without_response(self._prepared[transactional_id].producer_id, left)

    def forget_all(self) -> None:
        """Send no more markers of a shard that is gone."""
        self._left.clear()
        self._prepared.clear()

    def deliver(self, prepared: TransactionMetadata, durable: Completion[Any]) -> None:
        """Append the markers of a transaction whose PREPARE is appended and durable when `durable` completes: here and
        now if possible, to the others then, with retries until each partition has one."""
        to_send: list[TopicPartition] = []
        refused: list[TopicPartition] = []
        can_append = self._rounds_are_whole()
        marker = self._marker(prepared)
        for node_id, partitions in self._by_node(sorted(prepared.partitions)).items():
            errors = self._markers.append(node_id, marker, partitions, durable) if can_append else None
            if errors is None:
                to_send += partitions
            else:
                refused += _lacking(partitions, errors)
        if not to_send and not refused:
            self._on_delivered(prepared)
            return
        self._left[prepared.transactional_id] = to_send + refused
        self._prepared[prepared.transactional_id] = prepared

        def on_durable(done: "Completion[Any]") -> None:
            if done.error is not None:
                return
            if to_send:
                self._send(prepared, FIRST_BACKOFF_MS)
            else:
                self._on_left(prepared, refused, FIRST_BACKOFF_MS)

        durable.then(on_durable)

    def _by_node(self, partitions: list[TopicPartition]) -> dict[int, list[TopicPartition]]:
        by_node: dict[int, list[TopicPartition]] = {}
        for topic, partition in partitions:
            node_id = self._leader_of(topic, partition)
            if node_id is not None:  # a deleted topic has no readers that need the marker
                by_node.setdefault(node_id, []).append((topic, partition))
        return by_node

    def _send(self, prepared: TransactionMetadata, backoff_ms: int) -> None:
        if self._is_forgotten(prepared):
            return
        by_node = self._by_node(self._left[prepared.transactional_id])
        left: list[TopicPartition] = []
        unanswered = len(by_node)

        def on_answer(partitions: "list[TopicPartition]", done: "Completion[list[ErrorCode]]") -> None:
            nonlocal unanswered
            unanswered -= 1
            if done.error is not None:
                left.extend(partitions)
            else:
                left.extend(_lacking(partitions, done.result()))
            if not unanswered:
                self._on_left(prepared, left, backoff_ms)

        if not by_node:
            self._on_left(prepared, left, backoff_ms)
        for node_id, partitions in by_node.items():
            sent = self._markers.send(node_id, self._marker(prepared), partitions)
            sent.then(partial(on_answer, partitions))

    def _on_left(self, prepared: TransactionMetadata, left: list[TopicPartition], backoff_ms: int) -> None:
        if self._is_forgotten(prepared):
            return
        if left:
            self._left[prepared.transactional_id] = left
            next_backoff_ms = min(2 * backoff_ms, MAX_BACKOFF_MS)
            self._scheduler.call_later(backoff_ms, lambda: self._send(prepared, next_backoff_ms))
        else:
            del self._left[prepared.transactional_id], self._prepared[prepared.transactional_id]
            self._on_delivered(prepared)

    def _is_forgotten(self, prepared: TransactionMetadata) -> bool:
        return self._prepared.get(prepared.transactional_id) is not prepared

    def _marker(self, prepared: TransactionMetadata) -> EndMarker:
        return EndMarker(
            producer_id=prepared.producer_id,
            producer_epoch=prepared.producer_epoch,
            coordinator_epoch=self._coordinator_epoch,
            committed=prepared.state is TransactionState.PREPARE_COMMIT,
            transaction_version=prepared.client_transaction_version,
        )


def _lacking(partitions: Sequence[TopicPartition], errors: Sequence[ErrorCode]) -> list[TopicPartition]:
    """Return the partitions to which the marker must be sent again."""
    answers = zip(partitions, errors, strict=True)
    return [partition for partition, error in answers if verdict(error) is Verdict.RETRY]
