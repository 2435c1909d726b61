"""Which micro-batch an attempt was for, if compaction has taken some of the markers: reported where it is known."""

from typing import Any

from oncelog.pipeline.sink.marker import Marker
from oncelog.tools.spark.attempts import Attempt, Fate
from oncelog.tools.spark.report import Batch, _assign


def attempt(epoch: int, fate: Fate, batch_id: int | None = None, at_ms: int = 0) -> Attempt:
    return Attempt(7, epoch, fate, at_ms, at_ms, marker=None if batch_id is None else Marker(batch_id))


def told(attempts: list[Attempt], first: int, count: int) -> dict[int, Any]:
    """The epochs of each batch's attempts (published, failed, skipped), and whether these are all. Batch N was done at
    N * 100 + 50 ms.
    """
    batches = {each: Batch(each, done_ms=each * 100 + 50) for each in range(first, first + count)}
    _assign(attempts, batches)
    return {
        each.batch_id: (
            None if each.published is None else each.published.producer_epoch,
            [other.producer_epoch for other in each.failed],
            [other.producer_epoch for other in each.skipped],
            each.is_complete,
        )
        for each in batches.values()
    }


def test_attempts_without_a_marker_belong_to_the_batch_between_the_markers() -> None:
    attempts = [
        attempt(0, "aborted"),
        attempt(1, "nothing", at_ms=1),
        attempt(2, "committed", 0, at_ms=10),
        attempt(3, "nothing", at_ms=40),  # before batch 0 was noted as done
        attempt(4, "nothing", at_ms=60),
        attempt(5, "aborted", 1, at_ms=70),
        attempt(6, "committed", 1, at_ms=110),
    ]
    assert told(attempts, 0, 2) == {0: (2, [0, 1], [3], True), 1: (6, [4, 5], [], True)}


def test_where_markers_are_compacted_away_nothing_is_claimed_until_the_next_one() -> None:
    """The first of these are of batches without a known number: they may have been the first, or the ten thousandth."""
    attempts = [
        attempt(30, "aborted"),
        attempt(31, "committed"),
        attempt(32, "aborted"),
        attempt(33, "committed", 501, at_ms=50_110),
        attempt(34, "aborted", at_ms=50_170),
        attempt(35, "committed", at_ms=50_180),
        attempt(36, "nothing", at_ms=50_190),
        attempt(37, "committed", 503, at_ms=50_310),
    ]
    assert told(attempts, 500, 5) == {
        500: (None, [], [], False),
        501: (33, [], [], False),
        502: (None, [34], [], True),
        503: (37, [], [], False),
        504: (None, [], [], True),
    }


def test_batches_older_than_the_checkpoint_are_left_out() -> None:
    attempts = [attempt(epoch, "committed", epoch) for epoch in range(5)]
    assert told(attempts, 3, 2) == {3: (3, [], [], True), 4: (4, [], [], True)}


def test_without_the_states_of_the_coordinator_no_replay_is_denied() -> None:
    """Markers alone do not show that nothing happened between them."""
    attempts = [Attempt(7, epoch, "committed", marker=Marker(epoch)) for epoch in range(2)]
    assert told(attempts, 0, 3) == {0: (0, [], [], True), 1: (1, [], [], False), 2: (None, [], [], False)}
