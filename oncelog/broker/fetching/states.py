"""The states of a Fetch and what moves it from one to another, in one table.

A Fetch with few partitions and enough bytes goes from COUNTING to ANSWERED in one turn; between two turns anything may
happen to it. A transition is named for what happens, and says of each state in which that may happen what follows:
`self._state = ENOUGH[self._state]`. A KeyError is a bug.
"""

from enum import StrEnum


class FetchState(StrEnum):
    COUNTING = "Counting"
    """The bytes that its reader could get are counted; nothing is read."""
    WAITING = "Waiting"
    """They are too few: it is in the purgatory, and what moves is counted again."""
    ENDING = "Ending"
    """They have become enough. It reads after this turn: other logs of the same flush round belong to the response."""
    READING = "Reading"
    """Its partitions are planned, and read as far as their bytes are in memory."""
    AWAITING_READS = "AwaitingReads"
    """The other reads are pending, all of them started when they were planned."""
    ANSWERED = "Answered"
    REPLACED = "Replaced"
    """Another request has continued its session; the response says so."""
    LEFT = "Left"
    """Its client has disconnected; there is no response."""


COUNTING, WAITING, ENDING, READING, AWAITING_READS, ANSWERED, REPLACED, LEFT = FetchState
"""Measured: by its name alone a state is found in 4 ns, as an attribute of the enum in 120."""

_UNANSWERED = (COUNTING, WAITING, ENDING, READING, AWAITING_READS)
IN_PURGATORY = (WAITING, ENDING)

TOO_FEW = {COUNTING: WAITING}
ENOUGH = {COUNTING: READING, WAITING: ENDING}
TURN_OVER = {ENDING: READING}
TIME_UP = {WAITING: READING, ENDING: READING}
READS_PENDING = {READING: AWAITING_READS}
ALL_READ = {READING: ANSWERED, AWAITING_READS: ANSWERED}
CONTINUED = dict.fromkeys(_UNANSWERED, REPLACED)
DISCONNECTED = dict.fromkeys(_UNANSWERED, LEFT)

TRANSITIONS = {
    "too few bytes": TOO_FEW,
    "enough bytes": ENOUGH,
    "turn over": TURN_OVER,
    "time up": TIME_UP,
    "reads pending": READS_PENDING,
    "all read": ALL_READ,
    "session continued": CONTINUED,
    "client disconnected": DISCONNECTED,
}


def mermaid() -> str:
    """The table as a Mermaid state diagram, for docs/."""
    lines = ["stateDiagram-v2", f"    [*] --> {COUNTING}"]
    for name, transition in TRANSITIONS.items():
        lines += [f"    {source} --> {target}: {name}" for source, target in transition.items()]
    return "\n".join([*lines, *(f"    {state} --> [*]" for state in FetchState if state not in _UNANSWERED)])
