"""What a partition takes from a producer, and which markers, as literal tables: each state, epoch, sequence, protocol.

The lines are checked to be whole: each state with each of its questions. Whether the coordinator has the partition in
the transaction is asked before, by the handler of Produce (`test_tables`).
"""

from collections import Counter
from collections.abc import Callable
from itertools import product

import pytest

from oncelog.broker.log.partition_log import PartitionLog
from oncelog.broker.log.values import EndMarker
from oncelog.protocol.errors import KafkaError
from tests.fakes.logs import Logs, batch
from tests.support.logs.append_tables import BATCHES, KINDS, MARKERS, rows

PRODUCER_ID = 28
LAST_SEQUENCE = 2**31 - 1
LAST_EPOCH = 2**15 - 1
Log = tuple[Logs, PartitionLog]


# --- the states -------------------------------------------------------------------------------------------------------


def write(on: Log, epoch: int, sequence: int, count: int = 1, *, transactional: bool, version: int = 0) -> str:
    """`written`, `duplicate` or the error."""
    logs, log = on
    records = batch(
        count,
        producer_id=PRODUCER_ID,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
    )
    try:
        appended = log.append(records, wall_ms=logs.clock.wall_ms(), transaction_version=version)
    except KafkaError as error:
        return error.code.name
    return "duplicate" if appended.duplicate else "written"


def mark(on: Log, epoch: int, coordinator_epoch: int = 5, version: int = 0) -> str:
    """`ends it`, `written` where nothing was open, or the error."""
    logs, log = on
    was_open = bool(log.producer_state.ongoing_transactions())
    try:
        log.append_end_txn_marker(EndMarker(PRODUCER_ID, epoch, True, coordinator_epoch, version), logs.clock.wall_ms())
    except KafkaError as error:
        return error.code.name
    return "ends it" if was_open else "written"


def nothing(on: Log) -> None:
    """The producer has never written here, or is forgotten."""


def plain(on: Log) -> None:
    """Epoch 3, six plain batches: 0 is no longer remembered, 1 to 5 are."""
    for sequence in range(6):
        assert write(on, 3, sequence, transactional=False) == "written"


def opened(on: Log) -> None:
    """Epoch 3, an open transaction of two batches, and a marker of the one before by coordinator epoch 5."""
    assert mark(on, 3) == "written"
    for sequence in range(2):
        assert write(on, 3, sequence, transactional=True) == "written"


def ended(on: Log) -> None:
    """Open a transaction, and end it by a marker of version 1, which keeps the epoch."""
    opened(on)
    assert mark(on, 3) == "ends it"


def bumped(on: Log) -> None:
    """A transaction of epoch 2, ended by a marker of version 2, which has moved the epoch to 3."""
    for sequence in range(2):
        assert write(on, 2, sequence, transactional=True, version=2) == "written"
    assert mark(on, 3, version=2) == "ends it"


def wrapped(on: Log) -> None:
    """Epoch 3, up to the last sequence that there is."""
    assert write(on, 3, LAST_SEQUENCE - 1, 2, transactional=False) == "written"


def refused(on: Log) -> None:
    """The first batch of a transaction, 0, was refused by the coordinator, and will come again."""
    on[1].producer_state.note_refused(PRODUCER_ID, 3, 0, 0, 0)


def open_at_the_last(on: Log) -> None:
    """An open transaction at the epoch after which there is none."""
    assert write(on, LAST_EPOCH, 0, transactional=True) == "written"


STATES: dict[str, Callable[[Log], None]] = {
    state.__name__: state for state in (nothing, plain, opened, ended, bumped, wrapped, refused)
}
MARKED: dict[str, Callable[[Log], None]] = {
    state.__name__: state for state in (nothing, plain, opened, ended, bumped, open_at_the_last)
}

# --- the tables -------------------------------------------------------------------------------------------------------


def in_state(bring: Callable[[Log], None]) -> Log:
    logs = Logs()
    on = logs, logs.open()
    bring(on)
    return on


@pytest.mark.parametrize("row", rows(BATCHES), ids=", ".join)
def test_a_batch_is_taken_or_refused_as_the_table_says(row: list[str]) -> None:
    state, epoch, sequences, *outcomes = row
    count, _, first = sequences.rpartition(" of ")
    (plain_kind, *others), (expected_of_plain, *_) = KINDS, outcomes
    # A plain batch belongs to no transaction: the version of its request says nothing about it.
    kinds = [(*plain_kind, expected_of_plain), (False, 2, expected_of_plain)]
    kinds += [(*kind, expected) for kind, expected in zip(others, outcomes[1:], strict=True)]
    for transactional, version, expected in kinds:
        on = in_state(STATES[state])
        end = on[1].log_end_offset
        answer = write(on, int(epoch), int(first), int(count or 1), transactional=transactional, version=version)
        assert answer == expected
        assert (on[1].log_end_offset > end) is (expected == "written")


@pytest.mark.parametrize("row", rows(MARKERS), ids=", ".join)
def test_a_marker_is_taken_or_refused_as_the_table_says(row: list[str]) -> None:
    state, epoch, coordinator_epoch, *outcomes = row
    for version, expected in zip((0, 2), outcomes, strict=True):
        on = in_state(MARKED[state])
        end = on[1].log_end_offset
        assert mark(on, int(epoch), int(coordinator_epoch), version) == expected
        assert (on[1].log_end_offset > end) is (expected in ("written", "ends it"))


def test_each_state_is_asked_with_each_epoch_and_no_line_is_there_twice() -> None:
    for table, states, width in ((BATCHES, STATES, 3), (MARKERS, MARKED, 3)):
        lines = [tuple(row[:width]) for row in rows(table)]
        assert max(Counter(lines).values()) == 1
        epochs = {(line[0], line[1]) for line in lines}
        # Of an unknown producer there is no older epoch; the last epoch has no later one.
        exempt = ("nothing", "refused", "open_at_the_last")
        assert {(state, epoch) for state, epoch in product(states, "234") if state not in exempt} <= epochs
        assert {line[0] for line in lines} == set(states)
