"""The recordings about transactions, under both levels of transaction.version, and where we differ from Kafka.

`answers/transaction_answers.json` is what Kafka said, by conversation; what it says otherwise at level 1 stands beside
it. docs/compare/transcripts.md says how to ask another broker.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from oncelog.broker.faults.rule import Action, Point, Rule, Selector
from tests.clients.group_members import Broker
from tests.conformance.recording import Recording
from tests.conformance.transcripts import (
    append_transcript,
    exhausted_transcript,
    partition_transcript,
    prepared_transcript,
    transaction_transcript,
)
from tests.fakes.broker import VirtualBroker

BOTH_LEVELS = ("2", "1")

CONVERSATIONS: dict[str, Callable[[Broker, int], Iterator[tuple[str, Any]]]] = {
    "transactions": transaction_transcript.conversation,
    "appends": append_transcript.conversation,
    "partitions": partition_transcript.conversation,
    "prepared": prepared_transcript.conversation,
    "exhausted by ends": exhausted_transcript.by_ends,
    "exhausted by instances": exhausted_transcript.by_instances,
    "fenced at the last epoch": exhausted_transcript.fenced_at_the_last_epoch,
    "fenced by version 1": exhausted_transcript.fenced_at_the_last_epoch,
    "held at the last epoch": exhausted_transcript.held_at_the_last_epoch,
}
LEVELS = dict.fromkeys(CONVERSATIONS, ("2",)) | {
    "transactions": BOTH_LEVELS,
    "appends": BOTH_LEVELS,
    "fenced by version 1": ("1",),
}
CASES = [(name, level) for name, levels in LEVELS.items() for level in levels]
THOUSANDS_OF_REQUESTS = [
    ("transactions", "1"),
    *((name, level) for name, level in CASES if name.startswith(("exhausted", "fenced", "held", "prepared"))),
]

_NO_EPOCH = (
    "Kafka takes a producer id with the epoch -1, and then meets an exception of its own where a marker has such an "
    "epoch (UNKNOWN_SERVER_ERROR); we refuse both with the code that fits"
)
_MADE_UP = (
    "in Kafka a batch with an epoch that nobody was given, though refused, shuts out the real producer until its next "
    "epoch; here it leaves nothing behind"
)
_ID_KEPT = (
    "a retry that changes nothing is not logged here, and so does not make us forget the producer id before: the code "
    "is as fatal to the client"
)
_NO_EPOCH_LEFT = (
    "Kafka meets an exception of its own (UNKNOWN_SERVER_ERROR) where a wrong epoch resumes and none is left; we say "
    "that it is fenced"
)


def _fenced(place: str, after: str, *who: str) -> dict[str, tuple[str, Any]]:
    return {
        f"{place}, {each}, InitProducerId v{version}": (_NO_EPOCH_LEFT, ((code, "no id", -1), after))
        for each in who
        for version, code in ((3, "INVALID_PRODUCER_EPOCH"), (4, "PRODUCER_FENCED"), (5, "PRODUCER_FENCED"))
    }


# Where we answer otherwise on purpose, and why.
DIFFERENCES: dict[str, dict[str, tuple[str, Any]]] = {
    "appends": {
        "sequences: an epoch of -1": (_NO_EPOCH, ("INVALID_RECORD", -1)),
        "sequences: ends": (_NO_EPOCH, (29, 29)),
        "made_up: v11, the next batch": (_MADE_UP, ("NONE", 2)),
        "made_up: v11, the next transaction": (_MADE_UP, ("NONE", 4)),
        "made_up: v12, the next batch": (_MADE_UP, ("NONE", 2)),
        "made_up: v12, the next transaction": (_MADE_UP, ("NONE", 4)),
        "markers: no epoch": (_NO_EPOCH, ["INVALID_PRODUCER_EPOCH"]),
    },
    "fenced by version 1": _fenced(
        "CompleteAbort", "CompleteAbort, epoch 32767, 0 partitions", "the producer", "an epoch before"
    ),
    "exhausted by instances": {
        **_fenced("Empty", "Empty, epoch 32766, 0 partitions", "two epochs before", "a later epoch"),
        **_fenced("CompleteCommit", "CompleteCommit, epoch 32766, 0 partitions", "two epochs before", "a later epoch"),
        "the old id ends": (
            _ID_KEPT,
            ["INVALID_PRODUCER_ID_MAPPING", "INVALID_PRODUCER_ID_MAPPING", ("PRODUCER_FENCED", "no id", -1)],
        ),
    },
}


def virtual_broker(conversation: str, level: str) -> VirtualBroker:
    # Small segments: the disk in memory copies a whole file when it is made durable.
    broker = VirtualBroker(
        "oncelog.compat=kafka",
        f"oncelog.feature.transaction.version={level}",
        "transaction.state.log.segment.bytes=131072",
    )
    if conversation in ("prepared", "held at the last epoch"):
        # The marker that Kafka's partition does not take is one that is never written here.
        broker.faults.plant(Rule(Point.MARKER, Action.HOLD, Selector(topic=prepared_transcript.HELD), times=None))
    return broker


TRANSACTIONS: dict[tuple[str, str], Recording] = {
    (name, level): Recording(
        f"{name}-{level}",
        "transaction_answers.json",
        CONVERSATIONS[name],
        DIFFERENCES.get(name, {}),
        section=name,
        level=level,
        ours=partial(virtual_broker, name, level),
        features=(f"transaction.version={level}",),
        is_long=(name, level) in THOUSANDS_OF_REQUESTS,
    )
    for name, level in CASES
}


def recorded(conversation: str, level: str) -> dict[str, str]:
    return TRANSACTIONS[conversation, level].kafkas()
