"""What a log has lost since the checkpoint is found before anything is read, and named; continuing counts it."""

import pytest

from oncelog.pipeline.source.losses import TopicLog, after_losses, find_losses, refusal
from oncelog.pipeline.source.offsets import TopicOffsets
from oncelog.pipeline.source.planning import OffsetRange, advanced, left, ranges, with_new

KNOWN = {"t": TopicOffsets("old", {0: 0, 1: 0}, {0: 5, 1: 5})}


def log(topic_id: str = "old", earliest: tuple[int, ...] = (0, 0), stable: tuple[int, ...] = (8, 8)) -> TopicLog:
    return TopicLog(topic_id, dict(enumerate(earliest)), dict(enumerate(stable)), dict(enumerate(stable)))


CASES = {
    "deleted": ({}, "topic t is read no more"),
    "recreated": ({"t": log("new")}, r"topic t was deleted and created again \(id old, now new\).*0: 5, 1: 5"),
    "shrunk": ({"t": log(earliest=(0,), stable=(8,))}, "t-1 is gone: the topic has 1 partition now"),
    "truncated": ({"t": log(earliest=(0, 7))}, "t-1: offsets 5 to 6 were deleted before they were read"),
    "overtaken": ({"t": log(stable=(8, 3))}, "t-1 ends at offset 3, but the checkpoint is at 5"),
}


@pytest.mark.parametrize("kind", CASES)
def test_each_kind_of_loss_is_refused_with_what_was_lost_and_how_to_continue(kind: str) -> None:
    logs, sentence = CASES[kind]
    losses = find_losses(KNOWN, logs)
    assert [loss.kind for loss in losses] == [kind]
    error = refusal(losses)
    is_counted = losses[0].count is not None
    assert ("the loss is counted in the checkpoint" in str(error), "is unknown" in str(error)) == (
        is_counted,
        not is_counted,
    )
    with pytest.raises(type(error), match=sentence + ".*set failOnDataLoss=false.*new checkpointLocation"):
        raise error


def test_nothing_is_lost_while_the_log_reaches_from_the_position_to_its_end() -> None:
    assert find_losses(KNOWN, {"t": log(earliest=(5, 0), stable=(5, 9))}) == []
    assert find_losses(KNOWN, {"t": log("")}) == [], "a broker that knows no ids"
    assert find_losses({"t": TopicOffsets("", {0: 5}, {0: 5})}, {"t": log("new")}) == []


@pytest.mark.parametrize(
    ("kind", "lost", "read"),
    [
        ("deleted", None, []),
        ("recreated", {}, [(0, 0, 8), (1, 0, 8)]),
        ("shrunk", {}, [(0, 5, 8)]),
        ("truncated", {1: 2}, [(0, 5, 8), (1, 7, 8)]),
        ("overtaken", {1: 2}, [(0, 5, 8)]),
    ],
)
def test_a_query_that_accepts_the_loss_reads_all_that_is_left_and_counts_the_loss(
    kind: str, lost: dict[int, int] | None, read: list[tuple[int, int, int]]
) -> None:
    logs = CASES[kind][0]
    after = after_losses(KNOWN, find_losses(KNOWN, logs), logs)
    assert find_losses(after, logs) == []
    assert (after["t"].lost if "t" in after else None) == lost
    end = advanced(after, left(after, logs))
    assert [(each.partition, each.start, each.end) for each in ranges(KNOWN, end)] == read


def test_what_is_written_after_a_log_that_lost_its_end_is_read_even_below_the_old_position() -> None:
    short, grown = {"t": log(stable=(8, 0))}, {"t": log(stable=(8, 4))}
    after = after_losses(KNOWN, find_losses(KNOWN, short), short)
    end = advanced(with_new(after, {}, grown), left(after, grown))
    assert OffsetRange("t", "old", 1, 0, 4) in ranges(KNOWN, end)


def test_losses_add_up_over_the_life_of_a_query() -> None:
    first = {"t": log(earliest=(0, 7))}
    after = after_losses(KNOWN, find_losses(KNOWN, first), first)
    second = {"t": log(earliest=(0, 10), stable=(8, 12))}
    assert after_losses(after, find_losses(after, second), second)["t"].lost == {1: 5}
