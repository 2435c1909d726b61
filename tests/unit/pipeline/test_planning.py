"""Which offsets a batch covers: every offset of every partition lies in exactly one batch and one task."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.client import TopicPartition
from oncelog.pipeline.source.losses import TopicLog
from oncelog.pipeline.source.offsets import INITIAL, StreamOffset, TopicOffsets
from oncelog.pipeline.source.planning import (
    OffsetRange,
    advanced,
    bounded,
    grouped,
    left,
    ranges,
    shared,
    split,
    with_new,
)

ENDS = st.lists(st.integers(0, 30), min_size=1, max_size=4)


def log(*stable: int, topic_id: str = "id") -> TopicLog:
    ends = dict(enumerate(stable))
    return TopicLog(topic_id, dict.fromkeys(ends, 0), ends, ends)


def beginnings(logs: dict[str, TopicLog]) -> dict[str, dict[int, int]]:
    return {name: dict(each.earliest) for name, each in logs.items()}


def offsets_of(found: list[OffsetRange]) -> list[tuple[str, int, int]]:
    return [(each.topic, each.partition, offset) for each in found for offset in range(each.start, each.end)]


@given(ENDS, ENDS, st.integers(1, 9))
def test_capped_batches_cover_each_partition_without_gap_or_overlap(a: list[int], b: list[int], most: int) -> None:
    logs = {"a": log(*a), "b": log(*b)}
    position: StreamOffset = INITIAL
    seen: list[tuple[str, int, int]] = []
    while True:
        known = with_new(position, beginnings(logs), logs)
        counts = shared(left(known, logs), most)
        # A partition of which the proportional share would be less than one gets one.
        assert sum(counts.values()) <= max(most, most - 1 + len(counts))
        end = advanced(known, counts)
        batch = offsets_of(ranges(position, end))
        if end == position:
            break
        assert batch or position == INITIAL, "a batch that moves nothing never ends"
        seen += batch
        position = end
    everything = [
        (name, index, offset)
        for name, each in logs.items()
        for index in each.stable
        for offset in range(each.stable[index])
    ]
    assert sorted(seen) == everything


@given(ENDS, st.integers(1, 40))
def test_a_limit_is_shared_in_proportion_to_what_is_left(ends: list[int], most: int) -> None:
    counts = {TopicPartition("a", index): end for index, end in enumerate(ends)}
    got = shared(counts, most)
    for each, count in counts.items():
        fair = count if sum(ends) <= most else most * count / sum(ends)
        assert abs(got[each] - fair) < 1
        assert (got[each] > 0) == (count > 0)


@given(ENDS, st.none() | st.integers(1, 12), st.none() | st.integers(1, 7))
def test_tasks_part_a_batch_without_gap_or_overlap(ends: list[int], least: int | None, most: int | None) -> None:
    whole = [OffsetRange("a", "id", index, 0, end) for index, end in enumerate(ends) if end]
    parts = split(whole, least, most)
    assert offsets_of(parts) == offsets_of(whole)
    assert all(0 < part.end - part.start <= (most or 30) for part in parts)
    if least is not None and sum(ends) >= least:
        assert len(parts) >= min(least, len(whole))


def test_the_largest_partition_is_split_to_reach_the_least_number_of_tasks() -> None:
    parts = split([OffsetRange("a", "", 0, 0, 10), OffsetRange("a", "", 1, 0, 90)], 10, None)
    assert [(part.partition, part.end - part.start) for part in parts] == [(0, 10), *[(1, 10)] * 9]
    assert all(one.end == other.start for one, other in pairwise(parts) if one.partition == other.partition)


def test_a_first_batch_covers_the_same_offsets_whenever_it_is_run_because_its_end_says_where_it_began() -> None:
    end = {"a": TopicOffsets("id", {0: 7}, {0: 9})}
    assert offsets_of(ranges(INITIAL, end)) == [("a", 0, 7), ("a", 0, 8)]


def test_a_partition_and_a_topic_that_are_new_are_read_from_where_they_begin() -> None:
    known = {"a": TopicOffsets("id", {0: 2}, {0: 5})}
    logs = {"a": log(5, 3), "b": log(1)}
    end = advanced(with_new(known, beginnings(logs), logs), left(with_new(known, beginnings(logs), logs), logs))
    assert offsets_of(ranges(known, end)) == [("a", 1, 0), ("a", 1, 1), ("a", 1, 2), ("b", 0, 0)]


def test_the_id_of_a_topic_is_learned_without_reading_it_again() -> None:
    moved = {"a": TopicOffsets("", {0: 5}, {0: 5})}
    end = advanced(with_new(moved, beginnings({"a": log(8)}), {"a": log(8)}), {TopicPartition("a", 0): 3})
    assert end["a"].topic_id == "id"
    assert offsets_of(ranges(moved, end)) == [("a", 0, 5), ("a", 0, 6), ("a", 0, 7)]


def test_what_is_written_after_the_target_was_fixed_is_left_for_the_next_run() -> None:
    now = {"a": log(9, 9), "b": log(1)}
    assert bounded(now, {"a": log(4)}) == {"a": TopicLog("id", {0: 0}, {0: 4}, {0: 9, 1: 9})}


@pytest.mark.parametrize(
    ("counts", "least", "most", "tasks"),
    [
        ([500] * 4, None, None, [[500] * 4]),
        ([4_000, 900, 200, 9_000, 5, 5], None, None, [[4_000, 900], [200], [9_000], [5, 5]]),
        ([500] * 4, 3, None, [[500, 500], [500], [500]]),
        ([500] * 4, 9, None, [[500]] * 4),
        ([500] * 4, None, 1_000, [[500, 500], [500, 500]]),
        ([], None, None, []),
    ],
)
def test_small_ranges_share_a_task_within_the_limits_of_both_options(
    counts: list[int], least: int | None, most: int | None, tasks: list[list[int]]
) -> None:
    parts = [OffsetRange("a", "", number, 0, count) for number, count in enumerate(counts)]
    assert [[each.end for each in task] for task in grouped(parts, least, most)] == tasks
