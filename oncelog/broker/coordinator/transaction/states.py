"""The states of a transaction and the legal transitions between them, in one table.

Owns: the ids as stored in `__transaction_state`, the table, the diagram drawn from it. `check_transition` raises for a
transition that is not in the table. Source: Kafka's TransactionState.
"""

from enum import IntEnum


class TransactionState(IntEnum):
    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def kafka_name(self) -> str:
        """The state's name as Kafka's tools print it: `PrepareCommit`."""
        return "".join(word.capitalize() for word in self.name.split("_"))


_S = TransactionState

VALID_PREVIOUS_STATES: dict[TransactionState, frozenset[TransactionState]] = {
    _S.EMPTY: frozenset({_S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT}),
    _S.ONGOING: frozenset({_S.EMPTY, _S.ONGOING, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT}),
    _S.PREPARE_COMMIT: frozenset({_S.ONGOING}),
    # From a state with nothing open only under transaction.version 2: an abort that just bumps the epoch (KIP-890).
    _S.PREPARE_ABORT: frozenset({_S.ONGOING, _S.PREPARE_EPOCH_FENCE, _S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT}),
    _S.COMPLETE_COMMIT: frozenset({_S.PREPARE_COMMIT}),
    _S.COMPLETE_ABORT: frozenset({_S.PREPARE_ABORT}),
    _S.DEAD: frozenset({_S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT}),
    _S.PREPARE_EPOCH_FENCE: frozenset({_S.ONGOING}),
}

PREPARED = frozenset({_S.PREPARE_COMMIT, _S.PREPARE_ABORT})
"""The states in which the outcome is decided; once they are durable, it is fixed."""

COMPLETED = frozenset({_S.COMPLETE_COMMIT, _S.COMPLETE_ABORT})
"""The states in which all markers are appended: these are durable no later than the state."""


AT_REST = COMPLETED | {_S.EMPTY, _S.DEAD}
"""The states in which no transaction is open in any partition."""


class IllegalTransition(Exception):
    """A transition that is not in the table: a bug."""


def check_transition(previous: TransactionState, target: TransactionState) -> None:
    if previous not in VALID_PREVIOUS_STATES[target]:
        raise IllegalTransition(f"{previous.kafka_name} to {target.kafka_name} is not a legal transition")


def mermaid() -> str:
    """Return the table as a Mermaid state diagram, for docs/."""
    lines = ["stateDiagram-v2", "    [*] --> Empty"]
    for target, sources in VALID_PREVIOUS_STATES.items():
        lines += [f"    {source.kafka_name} --> {target.kafka_name}" for source in sorted(sources)]
    return "\n".join([*lines, "    Dead --> [*]"])
