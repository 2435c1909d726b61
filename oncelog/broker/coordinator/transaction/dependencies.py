"""The dependencies of the transaction coordinator: its ports, its settings, and the listener for transitions.

Owns: the shapes. Does not own: the values of settings (`broker.assembly`), log lines (`broker.observability`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from oncelog.broker.apis.compatibility import OURS, Compatibility
from oncelog.broker.coordinator.transaction.markers import MarkerSender
from oncelog.broker.coordinator.transaction.metadata import TransactionMetadata
from oncelog.broker.turns.ports import Clock, Scheduler
from oncelog.protocol.errors import ErrorCode


class TransitionListener(Protocol):
    """Notified of every transition once it is durable (one log line each)."""

    def on_transition(self, metadata: TransactionMetadata, *, opens: bool) -> None:
        """Log a transition; `opens` says that it begins a transaction."""

    def on_fenced(self, transactional_id: str, error: ErrorCode) -> None: ...


@dataclass(frozen=True, slots=True)
class TransactionLimits:
    """The settings that the coordinator works with."""

    max_timeout_ms: int
    id_expiration_ms: int
    expiry_interval_ms: int
    timeout_check_interval_ms: int = 0
    """How often to look for transactions past their timeout, as Kafka does; 0 if each is aborted exactly on time."""
    two_phase_commit: bool = False
    """Whether clients may request transactions without a timeout."""
    compatibility: Compatibility = OURS


@dataclass(frozen=True, slots=True)
class TransactionDependencies:
    """Passed to the coordinator and to the life of each partition."""

    markers: MarkerSender
    leader_of: Callable[[str, int], int | None]
    """Returns the node id that leads a partition; None if the partition no longer exists."""
    clock: Clock
    scheduler: Scheduler
    limits: TransactionLimits
    listener: TransitionListener
    transaction_version: Callable[[], int]
    """Returns the finalized level of the feature, as of now."""
    rounds_are_whole: Callable[[], bool]
    """Whether what one turn appends, in whatever logs, becomes durable as a whole now (`LogStore.rounds_are_whole`)."""
    answer_ahead: Callable[[int], bool]
    """Lets appends be answered before they are durable, see `Rounds.answer_ahead`."""
    has_lost_ahead: Callable[[], bool]
    """Whether answers of an earlier run may be lost, in a broker that may write: see `AnswersAhead.may_be_lost`."""
