"""The states of a transactional producer, and the one table of valid transitions."""

from enum import Enum

from oncelog.client.values.errors import InvalidState


class TransactionState(Enum):
    UNINITIALIZED = "uninitialized"
    INITIALIZING = "initializing"
    READY = "ready"
    OPEN = "open"
    FAILED = "failed"
    """An error occurred; aborting recovers from it."""
    COMMITTING = "committing"
    """EndTxn(commit) may have been sent: only its response ends this state."""
    ABORTING = "aborting"
    PREPARED = "prepared"
    """All records are written and no more are accepted: an external coordinator decides (KIP-939)."""
    FATAL = "fenced"
    """A fatal error: another producer has the transactional id, or the broker rejects this one. Only an epoch after its
    own, where the coordinator still gives it one, makes it usable again."""


_S = TransactionState
VALID_PREVIOUS: dict[TransactionState, frozenset[TransactionState]] = {
    _S.INITIALIZING: frozenset((_S.UNINITIALIZED, _S.READY)),
    _S.UNINITIALIZED: frozenset((_S.INITIALIZING, _S.FATAL)),
    _S.READY: frozenset((_S.INITIALIZING, _S.COMMITTING, _S.ABORTING)),
    _S.OPEN: frozenset((_S.READY,)),
    _S.FAILED: frozenset((_S.OPEN, _S.COMMITTING)),
    _S.PREPARED: frozenset((_S.INITIALIZING, _S.OPEN)),
    _S.COMMITTING: frozenset((_S.OPEN, _S.COMMITTING, _S.PREPARED)),
    _S.ABORTING: frozenset((_S.OPEN, _S.FAILED, _S.ABORTING, _S.PREPARED)),
    _S.FATAL: frozenset(each for each in _S),
}


def check_move(previous: TransactionState, target: TransactionState) -> None:
    """Raises InvalidState if the table lacks the transition."""
    if previous not in VALID_PREVIOUS[target]:
        raise InvalidState(f"a transactional producer that is {previous.value} cannot become {target.value}")
