"""A MarkerSender that stops before and after each single marker.

Owns: splitting one message of many markers into one per partition, so that each can be held separately.
Invariant: the coordinator gets one result per partition, in their order, as from the sender below.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from oncelog.broker.coordinator.transaction.markers import MarkerSender
from oncelog.broker.coordinator.transaction.metadata import TopicPartition
from oncelog.broker.faults.planted import Occurrence, PlantedRule
from oncelog.broker.faults.rule import Action, Point
from oncelog.broker.log.values import EndMarker
from oncelog.broker.turns.completion import Completion, all_of
from oncelog.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from oncelog.broker.faults.faults import Faults

_WAITING = (Action.HOLD, Action.DELAY)


class FaultMarkers:
    def __init__(self, faults: "Faults", markers: MarkerSender) -> None:
        self._faults = faults
        self._markers = markers
        self._unanswered: dict[tuple[int, TopicPartition], None] = {}

    def without_response(self, producer_id: int, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        """Return the partitions that have not responded: each was sent a marker of its own. All of them if none is in
        flight, since they wait to be sent again."""
        held = [each for each in partitions if (producer_id, each) in self._unanswered]
        return held or list(partitions)

    def append(
        self, node_id: int, marker: EndMarker, partitions: Sequence[TopicPartition], prepared: Completion[Any]
    ) -> list[ErrorCode] | None:
        """Append markers at once, or return None while a rule watches markers or appends: then each step is durable
        before the next one begins, and can be held or followed by a crash."""
        if self._faults.watches_markers or self._faults.watches_appends:
            return None
        errors = self._markers.append(node_id, marker, partitions, prepared)
        if errors is not None:
            # Durable with PREPARE, whose event comes first.
            prepared.then(lambda done: self._note(marker, partitions, errors) if done.error is None else None)
        return errors

    def _note(self, marker: EndMarker, partitions: Sequence[TopicPartition], errors: Sequence[ErrorCode]) -> None:
        for (topic, partition), error in zip(partitions, errors, strict=True):
            self._faults.events.append(
                "marker", producer_id=marker.producer_id, partition=f"{topic}-{partition}", error=error.name
            )

    def send(
        self, node_id: int, marker: EndMarker, partitions: Sequence[TopicPartition]
    ) -> Completion[list[ErrorCode]]:
        keys = [(marker.producer_id, partition) for partition in partitions]
        self._unanswered.update(dict.fromkeys(keys))
        sent = []
        for key in keys:
            answer = self._send_one(node_id, marker, key[1])
            answer.then(partial(self._on_answer, key))
            sent.append(answer)
        return all_of(sent)

    def _on_answer(self, key: tuple[int, TopicPartition], answer: Completion[ErrorCode]) -> None:
        self._unanswered.pop(key, None)
        producer_id, (topic, partition) = key
        error = answer.result().name if answer.error is None else "no response"
        self._faults.events.append("marker", producer_id=producer_id, partition=f"{topic}-{partition}", error=error)

    def _send_one(self, node_id: int, marker: EndMarker, partition: TopicPartition) -> Completion[ErrorCode]:
        """Send one partition's marker, and return its result."""
        faults = self._faults

        def write() -> Completion[ErrorCode]:
            sent = self._markers.send(node_id, marker, (partition,))
            return sent.flat_map(lambda answers: self._answered(marker, partition, answers[0]))

        if not faults.watches_markers:
            return write()
        occurrence = self._occurrence(Point.MARKER, marker, partition)
        planted = faults.fire(occurrence)
        if planted is None:
            return write()
        if planted.rule.action in _WAITING:
            return faults.wait(planted, occurrence).flat_map(lambda _: write())
        if planted.rule.action is Action.ERROR:
            return Completion.of(planted.rule.error)
        self._repeat(planted, occurrence, lambda: self._markers.send(node_id, marker, (partition,)))
        return write()

    def _repeat(
        self, planted: PlantedRule, occurrence: Occurrence, send: Callable[[], Completion[list[ErrorCode]]]
    ) -> None:
        """Send the marker a second time, later; its result is not used."""

        def on_answer(done: Completion[list[ErrorCode]]) -> None:
            name = done.result()[0].name if done.error is None else "no response"
            planted.answers_of_copies.append(name)
            self._faults.events.append("copy answered", rule_number=planted.number, error=name)

        self._faults.wait(planted, occurrence).flat_map(lambda _: send()).then(on_answer)

    def _occurrence(self, point: Point, marker: EndMarker, partition: TopicPartition) -> Occurrence:
        """Return the occurrence. This looks at every transactional id, so only where a rule may match."""
        return Occurrence(
            point,
            transactional_ids=self._faults.transactional_ids_of(marker.producer_id),
            partitions=(partition,),
            state="PrepareCommit" if marker.committed else "PrepareAbort",
        )

    def _answered(self, marker: EndMarker, partition: TopicPartition, error: ErrorCode) -> Completion[ErrorCode]:
        if not self._faults.watches_markers:
            return Completion.of(error)
        occurrence = self._occurrence(Point.MARKER_WRITTEN, marker, partition)
        planted = self._faults.fire(occurrence)
        if planted is None:
            return Completion.of(error)
        if planted.rule.action is Action.ERROR:
            return Completion.of(planted.rule.error)
        return self._faults.wait(planted, occurrence).map(lambda _: error)
