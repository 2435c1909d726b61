"""Where a relay continues, and each reason why it must not: pure decisions of what the target and the database say."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.tools.outbox.position import (
    FoundSlot,
    FoundTable,
    Origin,
    OutboxError,
    Position,
    Switch,
    history_of,
    lsn_of,
    lsn_text,
    start_at_slot,
    start_at_table,
)

ORIGIN = Origin("7000", "shop", 100, 1)
STORED = Position(ORIGIN, 500, 480, 1)


def begun(at: int, timeline: int = 2) -> Origin:
    """The timeline that begins here."""
    return replace(ORIGIN, timeline=timeline, begins=at)


TABLE = Origin("7000", "shop", 0, 0)


def slot(
    origin: Origin = ORIGIN, confirmed: int = 400, history: tuple[Switch, ...] = (), end: int = 10_000
) -> FoundSlot:
    return FoundSlot("relay", origin, confirmed, history, end)


@pytest.mark.parametrize(
    ("stored", "found", "place"),
    [
        (None, slot(confirmed=100), 100),
        (STORED, slot(), 500),
        (STORED, slot(confirmed=500), 500),
        (STORED, slot(begun(600), history=(Switch(1, 600),)), 500),
        (STORED, slot(begun(490), history=(Switch(1, 490),)), 490),
        (STORED, slot(begun(700, 3), history=(Switch(1, 485), Switch(2, 700))), 485),
        (replace(STORED, origin=begun(300)), slot(begun(300), history=(Switch(1, 300),)), 500),
        (replace(STORED, origin=begun(300)), slot(begun(700, 3), history=(Switch(1, 300), Switch(2, 700))), 500),
        (replace(STORED, origin=begun(600)), slot(begun(490), history=(Switch(1, 490),)), 490),
        (STORED, slot(replace(ORIGIN, generation=1)), 500),
    ],
)
def test_it_continues_where_all_events_before_are_in_kafka_and_none_behind(
    stored: Position | None, found: FoundSlot, place: int
) -> None:
    """After a promotion behind the last event: where the timelines part, since what follows has the same places."""
    start = start_at_slot(stored, found)
    assert (start.place, start.origin) == (place, found.origin)


@pytest.mark.parametrize(
    ("stored", "found", "sentence", "resume"),
    [
        (None, slot(), "the target has no position of this relay", 400),
        (STORED, slot(replace(ORIGIN, system="8")), "of another database: 'shop' of the system 7000", 400),
        (STORED, slot(replace(ORIGIN, database="other")), "this one is 'other' of 7000", 400),
        (STORED, slot(replace(ORIGIN, slot=300)), "was made again: it begins at 0/12C", 400),
        (STORED, slot(confirmed=501), "was read up to 0/1F5 by something else", 501),
        (STORED, slot(begun(470), history=(Switch(1, 470),)), "the promotion to timeline 2 lost commits", 470),
        (STORED, slot(replace(ORIGIN, timeline=0)), "the primary of before a failover", None),
        (STORED, slot(begun(0), history=()), "does not descend from timeline 1", None),
        (replace(STORED, origin=begun(450)), slot(begun(470), history=(Switch(1, 470),)), "lost commits", 450),
        (replace(STORED, origin=replace(ORIGIN, generation=3)), slot(), "the database went back, restored", 400),
        (STORED, slot(end=499), "the database went back, restored", 400),
    ],
)
def test_it_does_not_begin_where_something_would_be_lost_or_doubled(
    stored: Position | None, found: FoundSlot, sentence: str, resume: int | None
) -> None:
    with pytest.raises(OutboxError) as told:
        start_at_slot(stored, found)
    assert sentence in str(told.value)
    assert (told.value.resume and told.value.resume.place) == resume
    if resume is not None:  # then the same command resumes, and the next start finds nothing against it
        assert start_at_slot(told.value.resume, found).place == resume


def test_batches_of_a_table_continue_behind_the_last_that_kafka_has() -> None:
    assert start_at_table(None, FoundTable(TABLE, 0)).place == 0
    assert start_at_table(Position(TABLE, 3, 3), FoundTable(TABLE, 5)).place == 3


@pytest.mark.parametrize(
    ("stored", "last_batch", "sentence", "resume"),
    [
        (None, 5, "though 5 batches of the table were read", 5),
        (Position(TABLE, 8, 8), 5, "the database went back: it has 5 batches, and Kafka 8", 8),
        (Position(replace(TABLE, system="8"), 8, 8), 9, "of another database", 9),
    ],
)
def test_a_table_that_went_back_or_is_another_one_ends_the_relay(
    stored: Position | None, last_batch: int, sentence: str, resume: int
) -> None:
    with pytest.raises(OutboxError, match=sentence) as told:
        start_at_table(stored, FoundTable(TABLE, last_batch))
    assert told.value.resume is not None and told.value.resume.place == resume


ORIGINS = st.builds(Origin, st.text(), st.text(), *[st.integers()] * 4)


@given(st.builds(Position, ORIGINS, st.integers(), st.integers(), st.integers()))
def test_a_position_comes_back_from_its_record(position: Position) -> None:
    assert Position.of_json(position.to_json()) == position


@pytest.mark.parametrize("data", [b"", b"5", b"{}", b'{"version": 2}', b'{"version": 1}'])
def test_a_record_that_is_no_position_is_refused(data: bytes) -> None:
    with pytest.raises(OutboxError, match="has a record that this version did not write"):
        Position.of_json(data)


@given(st.integers(0, 2**64 - 1))
def test_places_of_the_log_are_written_as_postgresql_writes_them(lsn: int) -> None:
    assert lsn_of(lsn_text(lsn)) == lsn


def test_a_history_file_is_read_with_its_comments() -> None:
    text = "1\t0/3000060\tno recovery target specified\n\n# a comment\n2\t1/A\tbefore 2026-11-27\n"
    assert history_of(text) == [Switch(1, 0x3000060), Switch(2, (1 << 32) + 10)]
