"""What each state of a transaction is, for everything that shows one: the console, commands, metrics.

Owns: the names and numbers of Kafka's TransactionState; whether a state is open, decided or ended, with which outcome;
the words. Does not own: transitions (`broker.coordinator.transaction.states`), how a place lays the words out.
Invariant: a decided transaction is never shown as an open one. Its outcome cannot change any more: no timeout applies
to it, and nothing aborts it; an InitProducerId is answered CONCURRENT_TRANSACTIONS until its last marker is written.
"""

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

Phase = Literal["idle", "open", "decided", "ended", "unknown"]
Outcome = Literal["COMMIT", "ABORT"]


class StateMeaning(NamedTuple):
    """One state, as a reader needs it explained."""

    name: str
    """The name as Kafka's tools print it."""
    number: int
    """The number as `__transaction_state` stores it; -1 for no state of this release."""
    phase: Phase
    outcome: Outcome | None
    """The outcome, once it is decided."""
    words: str

    @property
    def has_timeout(self) -> bool:
        """Whether the coordinator aborts the transaction when its timeout has passed, unless that is NO_TIMEOUT_MS."""
        return self.phase == "open"

    @property
    def can_be_aborted(self) -> bool:
        """Whether its producer, a fence or its timeout can abort it."""
        return self.phase == "open"

    @property
    def holds_readers(self) -> bool:
        """Whether read_committed readers may wait for it in a partition."""
        return self.phase in ("open", "decided")


MEANINGS: Final = (
    StateMeaning("Empty", 0, "idle", None, "Nothing open"),
    StateMeaning("Ongoing", 1, "open", None, "Open"),
    StateMeaning("PrepareCommit", 2, "decided", "COMMIT", "Decided: COMMIT"),
    StateMeaning("PrepareAbort", 3, "decided", "ABORT", "Decided: ABORT"),
    StateMeaning("CompleteCommit", 4, "ended", "COMMIT", "Ended: COMMIT"),
    StateMeaning("CompleteAbort", 5, "ended", "ABORT", "Ended: ABORT"),
    StateMeaning("Dead", 6, "idle", None, "Nothing open: the id has expired"),
    StateMeaning("PrepareEpochFence", 7, "decided", "ABORT", "Decided: ABORT, by a fence"),
)
"""The states in the order of their numbers."""
STATE_NAMES: Final = tuple(each.name for each in MEANINGS)
OPEN_NAMES: Final = tuple(each.name for each in MEANINGS if each.phase == "open")
DECIDED_NAMES: Final = tuple(each.name for each in MEANINGS if each.phase == "decided")
UNSTABLE_NAMES: Final = OPEN_NAMES + DECIDED_NAMES
"""The names of states for which read_committed readers may wait."""
NO_TIMEOUT_MS: Final = 2**31 - 1
"""The timeout of a two-phase commit transaction, which the coordinator never ends by itself (KIP-939)."""
_MOST_NAMED: Final = 3
_BY_NAME: Final = {each.name: each for each in MEANINGS}


def meaning_of(state: str) -> StateMeaning:
    """Return the meaning of a state by its name; one that a later release of Kafka has added is neither open nor
    decided."""
    return _BY_NAME.get(state) or StateMeaning(state, -1, "unknown", None, f"Unknown: {state}")


def explained(state: str, waiting: Sequence[str] | None = None) -> str:
    """Return the words for a state. `waiting` names the partitions of the transaction that have no marker yet, as
    DescribeTransactions returns them; None if they were not requested."""
    meaning = meaning_of(state)
    if meaning.phase != "decided":
        return meaning.words
    if waiting is None:
        return f"{meaning.words}, waiting for markers"
    if not waiting:
        return f"{meaning.words}, all markers are written"
    more = len(waiting) - _MOST_NAMED
    named = ", ".join(waiting[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
    return f"{meaning.words}, waiting for markers of {named}"
