"""What the transaction coordinator works with: its settings, and who hears of transitions.

Owns: the shapes. Does not own: the values of settings (`broker.assembly`), log lines (`broker.observability`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from oncelog.broker.compatibility import OURS, Compatibility
from oncelog.broker.coordinator.transaction.markers import MarkerSender
from oncelog.broker.coordinator.transaction.metadata import TransactionMetadata
from oncelog.broker.ports import Clock, Scheduler
from oncelog.protocol.errors import ErrorCode


class TransitionListener(Protocol):
    """Hears of every transition once it is durable (one log line each)."""

    def on_transition(self, metadata: TransactionMetadata, *, opens: bool) -> None:
        """`opens`: a transaction began by it."""

    def on_fenced(self, transactional_id: str, error: ErrorCode) -> None: ...


@dataclass(frozen=True, slots=True)
class TransactionLimits:
    """The settings that the coordinator works with."""

    max_timeout_ms: int
    id_expiration_ms: int
    expiry_interval_ms: int
    timeout_check_interval_ms: int = 0
    """How often transactions over their time are looked for, as Kafka does; 0: each is aborted just when it is over."""
    two_phase_commit: bool = False
    """Whether clients may ask for transactions that last until they are ended."""
    compatibility: Compatibility = OURS


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the coordinator and each of its partitions are given."""

    markers: MarkerSender
    leader_of: Callable[[str, int], int | None]
    """The node id that leads a partition, None for one that does not exist any more."""
    clock: Clock
    scheduler: Scheduler
    limits: TransactionLimits
    listener: TransitionListener
    transaction_version: Callable[[], int]
    """The finalized level of that feature, as it is now."""
