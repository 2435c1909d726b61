"""What the map of a partition says of its batches, whatever was written."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.client.consuming.raw_batches import RawBatch
from oncelog.client.values.records import TopicPartition
from oncelog.console import reading
from oncelog.console.partition_map import (
    MAX_WINDOW_BYTES,
    TRACK_UNITS,
    Bounds,
    Cell,
    Ruler,
    Window,
    better_start,
    cells_of,
    strip_of,
    track_of,
)
from oncelog.console.reading import Reader
from oncelog.tools.log.map.partition import State
from tests.unit.console.batches import PLACE, log_of

steps = st.lists(
    st.tuples(st.sampled_from(("write", "send", "send", "commit", "abort")), st.integers(0, 3), st.integers(1, 3)),
    max_size=25,
)


@given(steps)
def test_each_batch_is_what_became_of_it_also_where_readers_still_wait(written: list[tuple[str, int, int]]) -> None:
    log = log_of(written)
    cells = cells_of(log.batches())
    assert [each.state for each in cells] == log.states
    assert [each.is_stable for each in cells] == [each.base_offset < log.bounds.last_stable_offset for each in cells]


@given(steps, st.integers(0, 10))
def test_a_window_says_open_of_what_it_cannot_see_the_end_of(written: list[tuple[str, int, int]], cut: int) -> None:
    log = log_of(written)
    seen, whole = cells_of(log.batches()[: len(log.states) - cut]), log.states
    assert all(each.state in (truth, State.OPEN) for each, truth in zip(seen, whole, strict=False))


@given(steps)
def test_every_named_offset_stands_before_the_first_batch_that_ends_after_it(
    written: list[tuple[str, int, int]],
) -> None:
    log = log_of(written)
    strip = strip_of(Window(PLACE, log.bounds, 0, cells_of(log.batches())))
    assert tuple(each for each in strip.items if isinstance(each, Cell)) == strip.window.cells
    rulers = [each for each in strip.items if isinstance(each, Ruler)]
    assert sorted(name for each in rulers for name in each.names) == ["HW", "LSO", "end", "start"]
    for ruler in rulers:
        at = strip.items.index(ruler)
        assert all(each.next_offset <= ruler.offset for each in strip.items[:at] if isinstance(each, Cell))
        assert all(each.next_offset > ruler.offset for each in strip.items[at:] if isinstance(each, Cell))
    assert sum(number for _, number in strip.counts) == len(strip.window.cells)


def test_the_named_offsets_outside_a_window_are_not_drawn_in_it() -> None:
    log = log_of([("write", -1, 1)] * 9)
    middle = Window(PLACE, log.bounds, 3, cells_of(log.batches()[3:6]))
    assert [each for each in strip_of(middle).items if isinstance(each, Ruler)] == []
    assert (middle.older_offset, middle.newer_offset) == (0, 6)


@given(steps.filter(bool), st.data())
def test_steps_between_windows_pass_no_batch_over_and_end_at_the_ends_of_the_log(
    written: list[tuple[str, int, int]], data: st.DataObject
) -> None:
    log = log_of(written)
    cells = cells_of(log.batches())
    first = data.draw(st.integers(0, len(cells) - 1))
    end = data.draw(st.integers(first + 1, len(cells)))
    window = Window(PLACE, log.bounds, cells[first].base_offset, cells[first:end])
    assert window.newer_offset == (cells[end].base_offset if end < len(cells) else None)
    assert (window.older_offset is None) == (first == 0)
    assert window.older_offset is None or 0 <= window.older_offset < window.first_offset


@given(st.integers(0, 10**12), st.integers(0, 10**12), st.integers(0, 10**6), st.integers(0, 10**6))
def test_the_track_stays_inside_its_bar(start: int, span: int, behind: int, shown: int) -> None:
    end = start + span
    bounds = Bounds(start, max(start, end - behind), end, end)
    cell = replace(cells_of(log_of([("write", -1, 1)]).batches())[0], base_offset=start, last_offset=start + shown)
    track = track_of(Window(PLACE, bounds, start, (cell,)))
    assert 0 <= track.unstable_from <= TRACK_UNITS
    assert track.shown_width > 0 and 0 <= track.shown_from <= TRACK_UNITS - track.shown_width


class _LargeLog(Reader):
    """Batches of so many records and bytes, from offset 0; counts what it is asked for."""

    def __init__(self, batch_count: int, records: int, size_bytes: int) -> None:
        super().__init__("nobody:0", 1_000)
        self._records, self._size_bytes, self._end = records, size_bytes, batch_count * records
        self.read_bytes = 0
        self._batch = log_of([("write", -1, 1)]).batches()[0]

    @property
    def bounds_(self) -> Bounds:
        return Bounds(0, self._end, self._end, self._end)

    async def batches(self, place: TopicPartition, start: int, bounds: Bounds, count: int) -> list[RawBatch]:
        found: list[RawBatch] = []
        data = bytes(self._size_bytes)
        for base in range(start - start % self._records, self._end, self._records):
            if len(found) >= count or len(found) * self._size_bytes >= MAX_WINDOW_BYTES:
                break
            header = self._batch.header._replace(base_offset=base, last_offset_delta=self._records - 1)
            found.append(replace(self._batch, header=header, data=data))
            self.read_bytes += self._size_bytes
        return found


@given(st.integers(1, 5_000), st.sampled_from((1, 7, 500, 10_000)), st.sampled_from((80, 4_000, 60_000, 1_000_000)))
async def test_the_end_of_a_log_is_shown_whatever_its_size_for_a_bounded_number_of_bytes(
    batch_count: int, records: int, size_bytes: int
) -> None:
    log, wanted = _LargeLog(batch_count, records, size_bytes), 100
    window = await log.window_within(PLACE, log.bounds_, None, wanted)
    assert window.newer_offset is None
    affordable = MAX_WINDOW_BYTES // 4 // size_bytes
    assert len(window.cells) >= min(batch_count, wanted // 2, max(1, affordable))
    assert log.read_bytes <= 3 * (MAX_WINDOW_BYTES + size_bytes)


async def test_a_window_is_read_again_if_its_partition_has_moved_or_after_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = _LargeLog(20, 1, 100)
    first = await log.window_within(PLACE, log.bounds_, None, 10)
    read = log.read_bytes
    assert await log.window_within(PLACE, log.bounds_, None, 10) is first and log.read_bytes == read
    moved = replace(log.bounds_, last_stable_offset=3)
    assert (await log.window_within(PLACE, moved, None, 10)).bounds == moved and log.read_bytes == 2 * read
    monkeypatch.setattr(reading, "_REMEMBERED_S", -1.0)
    await log.window_within(PLACE, moved, None, 10)
    assert log.read_bytes == 3 * read


def test_a_window_without_batches_is_as_good_as_it_gets() -> None:
    empty = Window(PLACE, Bounds(5, 5, 9, 9), 5, ())
    assert (better_start(empty, 100), empty.older_offset, empty.newer_offset) == (5, None, None)
