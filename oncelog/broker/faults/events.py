"""What has happened, in order: transitions of transactions, markers, faults that fired, releases.

Owns: the last events, numbered from 1, and the listeners. Invariant: a listener receives each event once, in order;
earlier ones are available from `since` while they are among the last `KEPT`.
"""

from collections import deque
from collections.abc import Callable
from typing import Any

from oncelog.broker.coordinator.transaction.dependencies import TransitionListener
from oncelog.broker.coordinator.transaction.metadata import TransactionMetadata
from oncelog.broker.turns.ports import Clock
from oncelog.protocol.errors import ErrorCode

KEPT = 1_000

Event = dict[str, Any]


class Events:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kept: deque[Event] = deque(maxlen=KEPT)
        self._listeners: list[Callable[[Event], None]] = []
        self.last_number = 0

    def append(self, kind: str, **facts: Any) -> None:
        self.last_number += 1
        event = {"number": self.last_number, "at_ms": self._clock.wall_ms(), "event": kind, **facts}
        self._kept.append(event)
        for listener in list(self._listeners):
            listener(event)

    def since(self, number: int) -> list[Event]:
        """Return the kept events after this one."""
        return [event for event in self._kept if event["number"] > number]

    def listen(self, listener: Callable[[Event], None]) -> Callable[[], None]:
        """Call `listener` with each event from now on; returns the function that stops it."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)


class TransitionEvents:
    """A TransitionListener that records transitions and passes them on."""

    def __init__(self, events: Events, listener: TransitionListener) -> None:
        self._events = events
        self._listener = listener

    def on_transition(self, metadata: TransactionMetadata, *, opens: bool) -> None:
        self._events.append(
            "transition",
            transactional_id=metadata.transactional_id,
            state=metadata.state.kafka_name,
            producer_id=metadata.producer_id,
            producer_epoch=metadata.producer_epoch,
            partitions=[f"{topic}-{partition}" for topic, partition in sorted(metadata.partitions)],
        )
        self._listener.on_transition(metadata, opens=opens)

    def on_fenced(self, transactional_id: str, error: ErrorCode) -> None:
        self._events.append("fenced", transactional_id=transactional_id, error=error.name)
        self._listener.on_fenced(transactional_id, error)
