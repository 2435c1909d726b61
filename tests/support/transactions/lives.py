"""Transactional ids in every state that they can have, by what they have been through, and who may ask about them.

Owns: the lives, and why a life never has some state. Does not own: what is answered (`transaction_tables`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from oncelog.broker.coordinator.transaction.metadata import TransactionMetadata
from oncelog.broker.coordinator.transaction.states import TransactionState
from tests.support.transactions.samples import LOGGED, metadata

S = TransactionState
Pair = tuple[int, int]

UNKNOWN = "unknown"
STATES = (UNKNOWN, *(state.kafka_name for state in TransactionState))
ID, ANOTHER_ID, ID_BEFORE, NEXT_ID, FRESH_ID = 7, 9, 6, 8, 10
LAST, FENCE = 32_766, 32_767


@dataclass(frozen=True, slots=True)
class Life:
    states: Mapping[str, TransactionMetadata | None]
    who: Mapping[str, tuple[Pair, ...]]
    """The producers that ask, and the pairs that they claim."""
    never: Mapping[str, str]
    """The states that this life does not have, and why."""


_DEAD = {
    "Dead": "an id whose tombstone is on its way is pending, and then unknown",
    "PrepareEpochFence": "a fence and its abort are one record here, and one pending transition in Kafka",
}
_NOBODY = ((-1, -1),)
_STRANGERS = tuple((ANOTHER_ID, epoch) for epoch in (0, 2, 3, 4, LAST, FENCE))
_WHO = {
    "no pair": _NOBODY,
    "the producer": ((ID, 3),),
    "an epoch before": ((ID, 2),),
    "two epochs before": ((ID, 1), (ID, 0)),
    "a later epoch": ((ID, 4), (ID, LAST), (ID, FENCE)),
    "another producer id": _STRANGERS,
}


def _in(*states: TransactionState, **known: Any) -> dict[str, TransactionMetadata | None]:
    return {state.kafka_name: metadata(state, **known) for state in states}


def _without(states: Mapping[str, object], reason: str) -> dict[str, str]:
    return {state: reason for state in STATES if state not in states and state not in _DEAD} | _DEAD


# Epoch 3, and the coordinator knows that it was 2 before.
ORDINARY = Life({UNKNOWN: None, **_in(*LOGGED, last_producer_epoch=2)}, _WHO, _DEAD)

# Epoch 3, and the one before is forgotten: it is not in the log.
RESTARTED = Life(_in(*LOGGED), _WHO, {UNKNOWN: "an unknown id has nothing to forget", **_DEAD})

LAST_EPOCH = Life(
    _in(*LOGGED, producer_epoch=LAST, last_producer_epoch=LAST - 1),
    {
        "no pair": _NOBODY,
        "the producer": ((ID, LAST),),
        "an epoch before": ((ID, LAST - 1),),
        "two epochs before": ((ID, LAST - 2), (ID, 0)),
        "a later epoch": ((ID, FENCE),),
        "another producer id": _STRANGERS,
    },
    {UNKNOWN: "an unknown id has no epoch", **_DEAD},
)

# A fence by transaction.version 1 has taken the epoch that no producer gets; one that makes it up can continue.
FENCED_LAST = Life(
    _in(*LOGGED, producer_epoch=FENCE),
    {
        "no pair": _NOBODY,
        "the fence": ((ID, FENCE),),
        "the producer": ((ID, LAST),),
        "an epoch before": ((ID, LAST - 1), (ID, 0)),
        "another producer id": _STRANGERS,
    },
    {UNKNOWN: "an unknown id has no epoch", **_DEAD},
)

_ROTATED = _in(
    *(S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT),
    producer_epoch=0,
    previous_producer_id=ID_BEFORE,
    last_producer_epoch=LAST,
)
# The epochs of id 6 are used up, nothing has begun under id 7.
ROTATED = Life(
    _ROTATED,
    {
        "no pair": _NOBODY,
        "the producer": ((ID, 0),),
        "a later epoch": ((ID, 1), (ID, LAST - 1)),
        "the new id at the epoch before": ((ID, LAST),),
        "the id before at its last epoch": ((ID_BEFORE, LAST),),
        "the id before at its fence": ((ID_BEFORE, FENCE),),
        "the id before at an older epoch": ((ID_BEFORE, LAST - 1), (ID_BEFORE, 0)),
        "another producer id": _STRANGERS,
    },
    _without(_ROTATED, "what begins under the new id forgets the one before, which is another producer id then"),
)

_ROTATING = _in(
    *(S.PREPARE_COMMIT, S.PREPARE_ABORT),
    producer_epoch=FENCE,
    last_producer_epoch=LAST,
    next_producer_id=NEXT_ID,
)
# An end at the last epoch is prepared; the client may already have received id 8.
ROTATING = Life(
    _ROTATING,
    {
        "no pair": _NOBODY,
        "the producer": ((ID, LAST),),
        "the fence": ((ID, FENCE),),
        "an epoch before": ((ID, LAST - 1), (ID, 0)),
        "the next id": ((NEXT_ID, 0),),
        "another producer id": _STRANGERS,
    },
    _without(_ROTATING, "only an end that is prepared knows of the next id"),
)

LIVES = {
    "ordinary": ORDINARY,
    "restarted": RESTARTED,
    "last epoch": LAST_EPOCH,
    "fenced at the last epoch": FENCED_LAST,
    "rotated": ROTATED,
    "rotating": ROTATING,
}
