"""The states of a classic consumer group and the legal transitions between them, in one table.

Source: Kafka's ClassicGroupState. `check_transition` raises for a transition that is not in the table.
"""

from enum import Enum


class GroupState(Enum):
    """The value is Kafka's own name, as its tools print it."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


_S = GroupState

VALID_PREVIOUS_STATES: dict[GroupState, frozenset[GroupState]] = {
    _S.EMPTY: frozenset({_S.PREPARING_REBALANCE}),
    _S.PREPARING_REBALANCE: frozenset({_S.EMPTY, _S.COMPLETING_REBALANCE, _S.STABLE}),
    _S.COMPLETING_REBALANCE: frozenset({_S.PREPARING_REBALANCE}),
    _S.STABLE: frozenset({_S.COMPLETING_REBALANCE}),
    _S.DEAD: frozenset({_S.EMPTY, _S.PREPARING_REBALANCE, _S.COMPLETING_REBALANCE, _S.STABLE}),
}


class IllegalTransition(Exception):
    """A transition that is not in the table: a bug."""


def check_transition(previous: GroupState, target: GroupState) -> None:
    if previous not in VALID_PREVIOUS_STATES[target]:
        raise IllegalTransition(f"{previous.value} to {target.value} is not a legal transition")


def mermaid() -> str:
    """Return the table as a Mermaid state diagram, for docs/."""
    lines = ["stateDiagram-v2", "    [*] --> Empty"]
    for target, sources in VALID_PREVIOUS_STATES.items():
        lines += [f"    {source.value} --> {target.value}" for source in GroupState if source in sources]
    return "\n".join([*lines, "    Dead --> [*]"])
