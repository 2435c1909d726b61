"""What `oncelog txn tail` makes of records of `__transaction_state`, and how a line looks."""

from dataclasses import replace

import pytest

from oncelog.broker.coordinator.transaction.metadata import TransactionMetadata
from oncelog.broker.coordinator.transaction.records import to_record, to_tombstone
from oncelog.broker.coordinator.transaction.states import TransactionState
from oncelog.client.values.records import Record
from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.topics import TRANSACTION_STATE
from oncelog.tools.terminal import Styled
from oncelog.tools.txn.tail import Transition, TransitionReader
from oncelog.tools.txn.tail_cli import Printer

EMPTY = TransactionMetadata("orders", 7, 3, 60_000, TransactionState.EMPTY, frozenset(), -1, 1_000)
OPEN = EMPTY._replace(
    state=TransactionState.ONGOING,
    partitions=frozenset({("payments", 0), ("payments", 1)}),
    start_timestamp_ms=2_000,
    last_update_timestamp_ms=2_000,
)
PREPARED = OPEN._replace(state=TransactionState.PREPARE_COMMIT, last_update_timestamp_ms=2_500)
COMPLETE = PREPARED._replace(
    state=TransactionState.COMPLETE_COMMIT, partitions=frozenset(), last_update_timestamp_ms=2_600
)


def read(reader: TransitionReader, metadata: TransactionMetadata, level: int = 2) -> Transition:
    record = to_record(metadata, level)
    transition = reader.read(Record(TRANSACTION_STATE, 0, 0, 5_000, record.key, record.value))
    assert transition is not None
    return transition


@pytest.mark.parametrize("level", [0, 1, 2])
def test_each_record_is_shown_with_the_state_before_it(level: int) -> None:
    reader = TransitionReader()
    told = [read(reader, metadata, level) for metadata in (EMPTY, OPEN, PREPARED, COMPLETE)]
    assert [(each.previous_state, each.state) for each in told] == [
        (None, "Empty"),
        ("Empty", "Ongoing"),
        ("Ongoing", "PrepareCommit"),
        ("PrepareCommit", "CompleteCommit"),
    ]
    assert [each.duration_ms for each in told] == [None, 0, 500, 600]


def test_the_end_names_the_partitions_that_its_record_names_no_longer() -> None:
    reader = TransitionReader()
    read(reader, PREPARED)
    assert read(reader, COMPLETE).partitions == ("payments-0", "payments-1")
    assert read(reader, EMPTY._replace(last_update_timestamp_ms=3_000)).partitions == ()


def test_the_states_at_the_start_are_where_the_first_transitions_come_from() -> None:
    reader = TransitionReader()
    reader.know("orders", "CompleteAbort")
    assert read(reader, OPEN).previous_state == "CompleteAbort"


def test_a_tombstone_is_the_end_of_an_id() -> None:
    reader = TransitionReader()
    read(reader, COMPLETE)
    tombstone = Record(TRANSACTION_STATE, 0, 1, 9_000, to_tombstone("orders").key, None)
    told = reader.read(tombstone)
    assert told is not None
    assert (told.previous_state, told.state, told.time_ms, told.producer_id) == ("CompleteCommit", "Dead", 9_000, 7)
    assert reader.read(tombstone) == replace(told, previous_state=None, producer_id=-1, producer_epoch=-1)


def test_a_record_that_says_again_what_is_known_is_no_transition() -> None:
    """This broker's, of a transaction that is open for longer than a moment: on a slow machine that is any."""
    reader = TransitionReader()
    read(reader, OPEN)
    settled = to_record(OPEN._replace(is_settled=True), 2)
    assert reader.read(Record(TRANSACTION_STATE, 0, 1, 5_000, settled.key, settled.value)) is None
    assert read(reader, PREPARED).previous_state == "Ongoing"


def test_records_of_other_kinds_are_passed_over_and_unreadable_ones_are_named() -> None:
    reader = TransitionReader()
    assert reader.read(Record(TRANSACTION_STATE, 0, 0, 0, b"\x00\x63of a later release", b"")) is None
    assert reader.read(Record(TRANSACTION_STATE, 0, 0, 0, None, b"")) is None
    with pytest.raises(ProtocolError):
        reader.read(Record(TRANSACTION_STATE, 0, 0, 0, to_record(OPEN, 2).key, b"\x00\x01cut"))


def plain(pieces: tuple[str | Styled, ...]) -> str:
    return "".join(piece if isinstance(piece, str) else piece.text for piece in pieces)


def test_columns_stand_below_each_other_once_the_longest_id_was_seen() -> None:
    printer, reader = Printer(as_json=False), TransitionReader()
    long = EMPTY._replace(transactional_id="a-transactional-id-of-very-many-words", producer_id=10**12)
    lines = [plain(printer.line(read(reader, each))) for each in (long, EMPTY, OPEN, PREPARED, COMPLETE)]
    assert len({line.index("→") for line in lines}) == 1
    assert len({line.index(" s  payments-0, payments-1") for line in lines[2:]}) == 1
    assert all(line == line.rstrip() for line in lines)


def test_of_many_partitions_a_line_names_three() -> None:
    many = OPEN._replace(partitions=frozenset(("payments", index) for index in range(50)))
    line = plain(Printer(as_json=False).line(read(TransitionReader(), many)))
    assert line.endswith("payments-0, payments-1, payments-2 and 47 more")
