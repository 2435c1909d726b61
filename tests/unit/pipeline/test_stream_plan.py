"""The plan of a stream against brokers that change under it: nothing is lost silently, over restarts and triggers."""

import json
import logging
from collections.abc import Mapping
from typing import Any

import pytest

from oncelog.client import TopicPartition
from oncelog.pipeline.options import Door, OptionError, parse
from oncelog.pipeline.source.edges import check_order, ends, starts
from oncelog.pipeline.source.losses import DataLost, Logs, TopicLog
from oncelog.pipeline.source.offsets import INITIAL, StreamOffset, to_json
from oncelog.pipeline.source.stream import StreamPlan

START = to_json(INITIAL)


class FakeBrokers:
    """One topic `t`, of which a test sets what it likes; times are looked up in `times`."""

    def __init__(self, *stable: int) -> None:
        self.topic_id = "first"
        self.earliest = [0] * len(stable)
        self.stable = list(stable)
        self.times: dict[int, int] = {}
        self.question_count = 0

    def logs(self, *, must_exist: bool, expected: StreamOffset = INITIAL) -> Logs:
        self.question_count += 1
        stable = dict(enumerate(self.stable))
        return {"t": TopicLog(self.topic_id, dict(enumerate(self.earliest)), stable, stable)}

    def offsets_by_time(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        return {each: self.times.get(when, -1) for each, when in times.items()}


def options(door: Door = "readStream", **given: object) -> Any:
    texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in given.items()}
    return parse({"kafka.bootstrap.servers": "h:1", "subscribe": "t", **texts}, door)


def plan(brokers: FakeBrokers, **given: object) -> StreamPlan:
    return StreamPlan(options(**{"startingOffsets": "earliest", **given}), brokers, lambda: clock[0])


clock = [1000.0]


def spans(tasks: list[Any]) -> list[tuple[int, int, int]]:
    return [(each.partition, each.start, each.end) for each in tasks]


def test_a_batch_that_is_run_again_after_retention_moved_the_beginning_is_refused_and_never_shorter() -> None:
    """Batch 0 was published, the driver died, retention moved the log's start: 25 must not become 15."""
    brokers = FakeBrokers(25)
    end = plan(brokers).next_end(START, None)
    brokers.earliest = [10]
    with pytest.raises(DataLost, match="t-0: offsets 0 to 9 were deleted before they were read"):
        plan(brokers).tasks(START, end)


def test_retention_that_moves_the_beginning_before_batch_0_is_recorded_changes_nothing_that_was_promised() -> None:
    brokers = FakeBrokers(25)
    plan(brokers).next_end(START, None)  # the driver dies before Spark records it
    brokers.earliest = [10]
    again = plan(brokers)
    assert spans(again.tasks(START, again.next_end(START, None))) == [(0, 10, 25)]


def test_a_query_that_starts_at_latest_loses_nothing_when_its_first_batch_is_run_again() -> None:
    brokers = FakeBrokers(5)
    first = plan(brokers, startingOffsets="latest")
    end = first.next_end(START, None)
    assert first.tasks(START, end) == []
    assert end != START, "Spark runs a batch, empty as it is: where the query began is recorded"
    brokers.stable = [8]
    assert spans(first.tasks(end, plan(brokers, startingOffsets="latest").next_end(end, None))) == [(0, 5, 8)]


def test_available_now_ends_at_the_last_stable_offset_of_its_start_in_as_many_batches_as_it_takes() -> None:
    brokers = FakeBrokers(60, 40)
    query = plan(brokers, maxOffsetsPerTrigger=20)
    query.fix_target()
    brokers.stable = [100, 100, 7]
    position, batches = START, []
    while (end := query.next_end(position, 20)) != position:
        batches.append(sum(end - start for _, start, end in spans(query.tasks(position, end))))
        position = end
    assert batches == [20] * 5
    assert position["topics"]["t"]["next"] == {"0": 60, "1": 40}


def test_a_topic_that_was_created_again_is_refused_also_when_it_is_longer_than_before() -> None:
    brokers = FakeBrokers(10)
    end = plan(brokers).next_end(START, None)
    brokers.topic_id, brokers.stable = "second", [30]
    with pytest.raises(DataLost, match=r"deleted and created again \(id first, now second\)"):
        plan(brokers).next_end(end, None)
    with pytest.raises(DataLost, match="deleted and created again"):
        plan(brokers).tasks(START, end)


def test_a_query_that_accepts_the_loss_reads_the_new_topic_from_its_beginning(caplog: pytest.LogCaptureFixture) -> None:
    brokers = FakeBrokers(10)
    end = plan(brokers).next_end(START, None)
    brokers.topic_id, brokers.stable = "second", [30]
    careless = plan(brokers, failOnDataLoss=False)
    with caplog.at_level(logging.WARNING, "oncelog.spark.source"):
        assert spans(careless.tasks(end, careless.next_end(end, None))) == [(0, 0, 30)]
    assert "deleted and created again" in caplog.text


def test_what_retention_took_is_counted_in_the_checkpoint_when_it_is_accepted() -> None:
    brokers = FakeBrokers(10)
    end = plan(brokers).next_end(START, None)
    brokers.earliest, brokers.stable = [14], [20]
    careless = plan(brokers, failOnDataLoss=False)
    after = careless.next_end(end, None)
    assert after["topics"]["t"]["lost"] == {"0": 4}
    assert spans(careless.tasks(end, after)) == [(0, 14, 20)]


def test_a_partition_that_is_added_is_read_from_its_beginning_even_if_the_query_began_at_latest() -> None:
    brokers = FakeBrokers(10)
    query = plan(brokers, startingOffsets="latest")
    end = query.next_end(START, None)
    brokers.stable, brokers.earliest = [10, 3], [0, 0]
    assert spans(query.tasks(end, query.next_end(end, None))) == [(1, 0, 3)]


def test_a_query_continues_from_the_checkpoint_of_sparks_kafka_source() -> None:
    brokers = FakeBrokers(10, 10)
    kafkas = {"t": {"0": 4, "1": 10}}
    query = plan(brokers)
    end = query.next_end(kafkas, None)
    assert spans(query.tasks(kafkas, end)) == [(0, 4, 10)]
    assert end["topics"]["t"]["id"] == "first"


def test_batches_wait_for_the_least_number_of_offsets_but_not_for_ever_and_not_at_first() -> None:
    brokers = FakeBrokers(3)
    query = plan(brokers, minOffsetsPerTrigger=10, maxTriggerDelay="60s")
    first = query.next_end(START, None)
    assert first["topics"]["t"]["next"] == {"0": 3}
    brokers.stable = [5]
    assert query.next_end(first, None) == first
    brokers.stable = [13]
    second = query.next_end(first, None)
    assert second["topics"]["t"]["next"] == {"0": 13}
    brokers.stable = [14]
    assert query.next_end(second, None) == second
    clock[0] += 60
    assert query.next_end(second, None)["topics"]["t"]["next"] == {"0": 14}


def test_the_brokers_are_asked_once_for_a_batch_that_was_planned_in_this_run() -> None:
    brokers = FakeBrokers(10)
    query = plan(brokers)
    query.tasks(START, query.next_end(START, None))
    assert brokers.question_count == 1


def test_the_progress_shows_the_stable_ends_beside_where_the_batch_ends() -> None:
    brokers = FakeBrokers(30)
    query = plan(brokers)
    end = query.next_end(START, 10)
    assert query.stable_ends is not None
    assert query.stable_ends["topics"]["t"]["next"]["0"] - end["topics"]["t"]["next"]["0"] == 20


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {0: 2, 1: 0}),
        ({"startingOffsets": {"t": {"0": 5, "1": -1}}}, {0: 5, 1: 9}),
        ({"startingOffsets": {"t": {"0": -2, "1": -2}}}, {0: 2, 1: 0}),
        ({"startingTimestamp": "77"}, {0: 4, 1: 4}),
        ({"startingOffsetsByTimestamp": {"t": {"0": 77, "1": 88}}}, {0: 4, 1: 6}),
        ({"startingTimestamp": "99", "startingOffsetsByTimestampStrategy": "latest"}, {0: 9, 1: 9}),
    ],
)
def test_a_batch_begins_where_the_options_say(given: dict[str, object], expected: dict[int, int]) -> None:
    brokers = FakeBrokers(9, 9)
    brokers.earliest, brokers.times = [2, 0], {77: 4, 88: 6}
    assert starts(options("read", **given), brokers.logs(must_exist=True), brokers)["t"] == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {0: 9, 1: 9}),
        ({"endingOffsets": {"t": {"0": 5, "1": -1}}}, {0: 5, 1: 9}),
        ({"endingTimestamp": "77"}, {0: 4, 1: 4}),
        ({"endingOffsetsByTimestamp": {"t": {"0": 77, "1": 99}}}, {0: 4, 1: 9}),
    ],
)
def test_a_batch_ends_where_the_options_say(given: dict[str, object], expected: dict[int, int]) -> None:
    brokers = FakeBrokers(9, 9)
    brokers.times = {77: 4}
    assert ends(options("read", **given), brokers.logs(must_exist=True), brokers)["t"] == expected


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"startingOffsets": {"t": {"0": 5}}}, "must name every partition that is read; it lacks t-1"),
        ({"startingOffsets": {"t": {"0": 5, "1": 5, "2": 5}}}, "t-2 is not read"),
        ({"startingOffsets": {"t": {"0": 1, "1": 5}}}, "t-0 has offsets 2 to 9, not 1"),
        ({"startingOffsets": {"t": {"0": 5, "1": 10}}}, "t-1 has offsets 0 to 9, not 10"),
        ({"startingTimestamp": "99"}, "no record of t-0 has time 99 ms or later"),
    ],
)
def test_an_edge_that_is_not_in_the_log_is_named(given: dict[str, object], sentence: str) -> None:
    brokers = FakeBrokers(9, 9)
    brokers.earliest = [2, 0]
    with pytest.raises(OptionError, match=sentence):
        starts(options("read", **given), brokers.logs(must_exist=True), brokers)


def test_a_stream_may_begin_where_a_transaction_is_still_open_but_a_batch_does_not_end_there() -> None:
    log = TopicLog("id", {0: 0}, {0: 9}, {0: 12})
    given = {"t": {"0": 11}}
    brokers = FakeBrokers(9)
    assert starts(options(startingOffsets=given), {"t": log}, brokers) == {"t": {0: 11}}
    with pytest.raises(OptionError, match="endingOffsets: t-0 has offsets 0 to 9, not 11"):
        ends(options("read", endingOffsets=given), {"t": log}, brokers)


def test_a_batch_that_ends_before_it_begins_is_an_error_and_not_empty() -> None:
    check_order({"t": {0: 5}}, {"t": {0: 5}})
    with pytest.raises(OptionError, match="t-0 would begin at offset 5 and end at 4"):
        check_order({"t": {0: 5}}, {"t": {0: 4}})
