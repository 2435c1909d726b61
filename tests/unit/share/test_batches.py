"""The batches of a share-partition, against a model that knows the state of each offset by itself."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.broker.coordinator.share.batches import combined
from oncelog.broker.coordinator.share.values import StateBatch

Offsets = dict[int, tuple[int, int]]
"""The delivery count and state of each offset that has one."""


def offsets_of(batches: list[StateBatch]) -> Offsets:
    found: Offsets = {}
    for first, last, state, count in batches:
        for offset in range(first, last + 1):
            found[offset] = max(found.get(offset, (-1, -1)), (count, state))
    return found


def batches_of(offsets: Offsets) -> tuple[StateBatch, ...]:
    """The fewest batches with these offsets."""
    batches: list[StateBatch] = []
    for offset in sorted(offsets):
        count, state = offsets[offset]
        if batches and batches[-1] == (batches[-1].first_offset, offset - 1, state, count):
            batches[-1] = batches[-1]._replace(last_offset=offset)
        else:
            batches.append(StateBatch(offset, offset, state, count))
    return tuple(batches)


BATCHES = st.lists(
    st.builds(
        lambda first, length, state, count: StateBatch(first, first + length, state, count),
        *(st.integers(0, 30), st.integers(0, 12), st.sampled_from((0, 2, 4)), st.integers(0, 3)),
    ),
    max_size=8,
)


@given(BATCHES, BATCHES, st.integers(-1, 40))
def test_an_offset_has_the_state_of_its_most_deliveries(
    known: list[StateBatch], added: list[StateBatch], start_offset: int
) -> None:
    so_far = combined((), known, -1)
    expected = {offset: state for offset, state in offsets_of([*so_far, *added]).items() if offset >= start_offset}
    assert combined(so_far, added, start_offset) == batches_of(expected)


@pytest.mark.parametrize(
    ("known", "added", "start_offset", "expected"),
    [
        ([(100, 110, 0, 1)], [(111, 120, 0, 1)], -1, [(100, 120, 0, 1)]),
        ([(100, 110, 0, 1)], [(105, 115, 0, 2)], -1, [(100, 104, 0, 1), (105, 115, 0, 2)]),
        ([(100, 130, 0, 1)], [(110, 120, 0, 2)], -1, [(100, 109, 0, 1), (110, 120, 0, 2), (121, 130, 0, 1)]),
        ([(100, 110, 0, 2)], [(105, 115, 0, 1)], -1, [(100, 110, 0, 2), (111, 115, 0, 1)]),
        ([(100, 110, 0, 1)], [(100, 110, 2, 1)], -1, [(100, 110, 2, 1)]),
        ([(100, 110, 0, 1)], [], 105, [(105, 110, 0, 1)]),
        ([(100, 110, 0, 1)], [], 111, []),
        ([(100, 110, 0, 1)], [(120, 110, 0, 1)], -1, [(100, 110, 0, 1)]),
    ],
)
def test_batches_are_combined_as_kafka_combines_them(
    known: list[tuple[int, int, int, int]],
    added: list[tuple[int, int, int, int]],
    start_offset: int,
    expected: list[tuple[int, int, int, int]],
) -> None:
    found = combined([StateBatch(*batch) for batch in known], [StateBatch(*batch) for batch in added], start_offset)
    assert list(found) == expected
