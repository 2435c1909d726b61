"""The history of leader epochs against the records themselves, and against what Apache Kafka answers."""

from hypothesis import given
from hypothesis import strategies as st

from oncelog.broker.log.leader_epochs import LeaderEpochs

STEP = 2

lives = st.lists(st.integers(0, 4), min_size=1, max_size=8)
"""How many records were appended in each life of the broker."""


def lived(counts: list[int]) -> tuple[LeaderEpochs, list[int]]:
    """The history, and the epoch of each record."""
    history, records = LeaderEpochs(), list[int]()
    for life, count in enumerate(counts):
        history.assign(STEP * life, len(records))
        records += [STEP * life] * count
    return history, records


def read_from(records: list[int], start: int) -> LeaderEpochs:
    history = LeaderEpochs()
    for offset in range(start, len(records)):
        history.assign(records[offset], offset)
    return history


@given(lives)
def test_an_epoch_ends_where_the_first_record_of_a_later_one_is_and_is_answered_with_the_newest_that_has_records(
    counts: list[int],
) -> None:
    history, records = lived(counts)
    latest = STEP * (len(counts) - 1)
    for asked in range(latest):
        end = next((offset for offset, epoch in enumerate(records) if epoch > asked), len(records))
        known = max((epoch for epoch in records[:end]), default=asked)
        assert history.end_of(asked, len(records)) == (known, end)
    assert history.end_of(latest, len(records)) == (latest, len(records))
    assert history.end_of(latest + 1, len(records)) == history.end_of(-1, len(records)) == (-1, -1)


@given(lives)
def test_it_follows_from_the_records_and_says_that_a_new_leadership_has_begun(counts: list[int]) -> None:
    history, records = lived(counts)
    latest = STEP * (len(counts) - 1)
    read = read_from(records, 0)
    read.assign(latest, len(records))
    assert read.entries == history.entries
    assert [history.epoch_of(offset) for offset in range(len(records) + 1)] == [*records, latest]


@given(lives, st.data())
def test_a_log_that_begins_later_or_ends_earlier_has_the_history_of_what_is_left(
    counts: list[int], data: st.DataObject
) -> None:
    history, records = lived(counts)
    end = data.draw(st.integers(0, len(records)))
    start = data.draw(st.integers(0, end))
    history.truncate_end(end)
    assert history.entries == read_from(records[:end], 0).entries
    history.truncate_start(start)
    kept = read_from(records[:end], start).entries
    assert history.entries[: len(kept)] == kept
    if start < end:
        assert history.entries == kept
