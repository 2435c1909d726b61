"""Which cells of the coordinator's decision tables Apache Kafka was asked, and why not the others.

Owns: for each cell of `tests.support.transactions.tables` the names of the questions whose answers are recorded, or the
reason why no request brings it about. Does not own: the tables, the questions, the answers.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from tests.support.transactions.tables import Cell

APPEND = "a pending transition lasts for one append to __transaction_state, which no request can hold"
ALWAYS_PENDING = "a prepared transaction is pending until COMPLETE: asked as such"
ONE_EACH = "it changes what 33,000 requests have led to, and each place is reached once"
NOT_BROUGHT_ABOUT = "33,000 requests lead to one place, and this is not one of those where it is asked"
NO_SUCH_EPOCH = "the ids of the conversation are at epoch 1, of which there is no epoch two before"
RETRY_ALONE = "Empty with a known epoch before is asked as the retry of a lost answer, and by nobody else"
NOT_KNOWN = "new instances have led to this place, after which no epoch before is known"
OTHER_LEVEL = "33,000 requests lead to this place under the other level of transaction.version"
NO_PAIR = "to what is no InitProducerId, no pair is another producer id"


@dataclass(frozen=True, slots=True)
class Asked:
    """The conversation and questions in which a cell is asked."""

    conversation: str
    questions: tuple[str, ...]
    epoch: int
    """The epoch that the transactional id has there, where the life of the table has its own."""
    level: str = "2"


# The states of the conversation by the states of the tables, and the epoch in them. InitProducerId looks at the epoch
# before the last bump: only an end of version 2 leaves one behind that is known.
_BUMPED = {
    "CompleteCommit": (("CompleteCommit by v5", 2),),
    "CompleteAbort": (("CompleteAbort by v5", 2), ("CompleteAbort of nothing by v5", 2)),
}
_KEPT = {
    "Empty": (("Empty", 1),),
    "Ongoing": (
        ("Ongoing", 1),
        ("Ongoing with a batch", 1),
        ("Ongoing with a group", 1),
        ("Ongoing by Produce v12", 1),
    ),
    "CompleteCommit": (("CompleteCommit by v3", 1),),
    "CompleteAbort": (("CompleteAbort by v3", 1),),
}
_STATES = {
    "unknown": (("unknown", 1),),
    "Empty": _KEPT["Empty"],
    "Ongoing": _KEPT["Ongoing"],
    "CompleteCommit": (*_KEPT["CompleteCommit"], *_BUMPED["CompleteCommit"]),
    "CompleteAbort": (*_KEPT["CompleteAbort"], *_BUMPED["CompleteAbort"]),
}
_PREPARED = {
    "PrepareCommit": (("PrepareCommit by v3", 1), ("PrepareCommit by v5", 2)),
    "PrepareAbort": (("PrepareAbort by v3", 1), ("PrepareAbort by v5", 2)),
}

_BY_REQUEST: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    # request: the questions of its first kind, and of its second
    "InitProducerId": (tuple(f"InitProducerId v{version}" for version in (3, 4, 5)),) * 2,
    "AddPartitionsToTxn of version 1": (
        (
            *(f"AddPartitionsToTxn v{version}" for version in range(4)),
            *(f"AddOffsetsToTxn v{version}" for version in range(5)),
        ),
        ("AddPartitionsToTxn v3, the same partition",),
    ),
    "AddPartitionsToTxn of version 2": (
        ("AddPartitionsToTxn v4", "AddPartitionsToTxn v5"),
        ("AddPartitionsToTxn v5, the same partition",),
    ),
    "verification": (
        tuple(f"AddPartitionsToTxn v{version}, verify only, partition 0" for version in (4, 5)),
        tuple(f"AddPartitionsToTxn v{version}, verify only, partition 1" for version in (4, 5)),
    ),
    "EndTxn of version 1": (
        tuple(f"EndTxn v{version}, commit" for version in range(5)),
        tuple(f"EndTxn v{version}, abort" for version in range(5)),
    ),
    "EndTxn of version 2": (("EndTxn v5, commit",), ("EndTxn v5, abort",)),
}
# The places at the last epoch, and after it: conversation, level, what is before the question, the epoch.
_PLACES: dict[tuple[str, str], tuple[str, str, str, int]] = {
    ("last epoch", "Empty"): ("exhausted by instances", "2", "Empty", 32_766),
    ("last epoch", "Ongoing"): ("exhausted by ends", "2", "Ongoing", 32_766),
    ("last epoch", "CompleteCommit"): ("exhausted by instances", "2", "CompleteCommit", 32_766),
    ("fenced at the last epoch", "CompleteAbort"): ("fenced by version 1", "1", "CompleteAbort", 32_767),
    ("rotated", "Empty"): ("exhausted by instances", "2", "Empty after the last epoch", 0),
    ("rotated", "CompleteCommit"): ("exhausted by ends", "2", "CompleteCommit", 0),
    ("rotated", "CompleteAbort"): ("fenced at the last epoch", "2", "CompleteAbort after the last epoch", 0),
    ("rotating", "PrepareCommit"): ("held at the last epoch", "2", "PrepareCommit", 32_767),
}


# What changes something there, and is a row of its own: request, life, state, who, kind.
_SINGLY: dict[tuple[str, str, str, str, int], tuple[str, ...]] = {
    ("EndTxn of version 2", "last epoch", "Ongoing", "the producer", 0): (
        "exhausted by ends",
        "epoch 32766: ended",
    ),
    ("EndTxn of version 1", "last epoch", "Ongoing", "the producer", 0): (
        "exhausted by instances",
        "ended at the last epoch",
    ),
    ("AddPartitionsToTxn of version 1", "last epoch", "Empty", "the producer", 0): (
        "exhausted by instances",
        "added at the last epoch",
    ),
    ("InitProducerId", "last epoch", "CompleteCommit", "the producer", 1): (
        "exhausted by instances",
        "resumed at the last epoch",
    ),
    ("InitProducerId", "last epoch", "Ongoing", "no pair", 1): ("fenced at the last epoch", "a new instance comes"),
    ("InitProducerId", "rotated", "Empty", "the id before at its last epoch", 1): (
        "exhausted by instances",
        "resumed again, the answer was lost",
    ),
    ("InitProducerId", "rotated", "Empty", "the new id at the epoch before", 1): (
        "exhausted by instances",
        "resumed by the new id with the epoch before",
    ),
    ("InitProducerId", "rotating", "PrepareCommit", "no pair", 1): (
        "held at the last epoch",
        "PrepareCommit, a new instance",
    ),
    ("InitProducerId", "rotated", "CompleteAbort", "no pair", 1): (
        "fenced at the last epoch",
        "the new instance asks again",
    ),
    ("InitProducerId", "fenced at the last epoch", "CompleteAbort", "no pair", 0): (
        "fenced by version 1",
        "the new instance asks again",
    ),
}

Recorded = Mapping[tuple[str, str], Collection[str]]
"""The names of the questions by conversation and level."""


def asked(request: str, cell: Cell, kind: int, recorded: Recorded) -> tuple[Asked, ...] | str:
    """The place where Kafka was asked this, or the reason why it was not; `kind` is 0 or 1, as in the tables."""
    life, state, who = cell
    if who == "no pair" and request != "InitProducerId":
        return NO_PAIR
    is_pending = state.startswith("pending ")
    state = state.removeprefix("pending ")
    if is_pending and not state.startswith("Prepare"):
        return APPEND
    if state.startswith("Prepare") and not is_pending and request != "verification":
        return ALWAYS_PENDING
    if life in ("ordinary", "restarted"):
        return _in_the_table(request, life, state, who, kind)
    return _at_a_place(request, life, state, who, kind, recorded)


def _in_the_table(request: str, life: str, state: str, who: str, kind: int) -> tuple[Asked, ...] | str:
    questions = _BY_REQUEST[request][kind]
    if state in _PREPARED:
        if who == "no pair":
            questions = tuple(f"InitProducerId v{version}, a new instance" for version in (0, 3, 4, 5))
        return tuple(
            Asked("prepared", tuple(f"{name}, {_asking(who)}, {question}" for question in questions), epoch)
            for name, epoch in _PREPARED[state]
            if epoch > 1 or who != "two epochs before" or request != "InitProducerId"
        )
    if request == "InitProducerId":
        return _instances(life, state, who, kind)
    found = []
    for name, epoch in _STATES[state]:
        # The group's partition is not new to a transaction that has it.
        has_group = name == "Ongoing with a group"
        fitting = [each for each in questions if not (has_group and each.startswith("AddOffsetsToTxn"))]
        found.append(Asked("transactions", tuple(f"table: {name}, {who}, {question}" for question in fitting), epoch))
    return tuple(found)


def _asking(who: str) -> str:
    """The client that asks: in `prepared` a new instance is part of the question."""
    return "the producer" if who == "no pair" else who


def _instances(life: str, state: str, who: str, kind: int) -> tuple[Asked, ...] | str:
    level = "12"[kind]
    if state == "unknown":
        if who == "no pair":
            return (Asked("transactions", tuple(f"ids: v{version} a new transactional id" for version in range(6)), 0),)
        pairs = tuple(f"ids: v{version} a new transactional id, the pair (7, 7)" for version in (3, 4, 5))
        return (Asked("transactions", pairs, 0),)
    if life == "ordinary" and state == "Empty":
        if who != "an epoch before":
            return RETRY_ALONE
        again = tuple(f"resumed: Empty, the producer, v{version}, again" for version in (3, 4, 5))
        return (Asked("transactions", again, 2, level),)
    if who == "two epochs before" and (life == "restarted" or state == "Ongoing"):
        return NO_SUCH_EPOCH
    states = (_KEPT if life == "restarted" or state == "Ongoing" else _BUMPED)[state]
    found = []
    for name, epoch in states:
        questions = tuple(f"resumed: {name}, {who}, v{version}" for version in (3, 4, 5))
        if who == "no pair":
            questions = tuple(f"resumed: {name}, a new instance, v{version}" for version in (0, 2, 3, 5))
        found.append(Asked("transactions", questions, epoch, level))
    return tuple(found)


def _at_a_place(
    request: str, life: str, state: str, who: str, kind: int, recorded: Recorded
) -> tuple[Asked, ...] | str:
    place = _PLACES.get((life, state))
    if place is None:
        return NOT_BROUGHT_ABOUT
    conversation, level, before, epoch = place
    if request == "InitProducerId" and level != "12"[kind]:
        return OTHER_LEVEL
    if request == "InitProducerId" and life == "last epoch" and who == "an epoch before" and state != "Ongoing":
        return NOT_KNOWN
    singly = _SINGLY.get((request, life, state, who, kind))
    if singly is not None:
        return (Asked(singly[0], singly[1:], epoch, level),)
    questions = tuple(f"{before}, {who}, {question}" for question in _BY_REQUEST[request][kind])
    found = tuple(question for question in questions if question in recorded[conversation, level])
    return (Asked(conversation, found, epoch, level),) if found else ONE_EACH
