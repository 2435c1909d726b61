"""What an operation costs does not grow with the log. Work is counted in lines of Python, not in time."""

from pathlib import Path
from statistics import mean

import pytest

from bench.coordinator_world import Coordinator
from bench.log_worlds import (
    AbortedInsideOne,
    AbortedTransactions,
    LogWorld,
    OpenTransactions,
    ProducerIds,
    Segments,
)
from bench.measure import Operation, count_lines
from tests.fakes.logs import segments_of

ALLOWED = 2.0
"""A search takes a step more for twice the size; a walk through all would be twenty times the work."""
REPEATED = 40
SMALL, LARGE = 500, 10_000
FEWER, MORE = 100, 2_000


def lines_by_operation(operations: list[Operation]) -> dict[str, float]:
    ordered = sorted(operations, key=lambda operation: not operation.is_read)
    for operation in ordered:
        operation.run()  # what the first one sums up for all after it
    return {
        operation.name: mean(count_lines(operation.run, 1) for _ in range(min(REPEATED, operation.limit)))
        for operation in ordered
    }


@pytest.mark.parametrize(
    ("kind", "sizes"),
    [
        (Segments, (FEWER, MORE)),
        (OpenTransactions, (SMALL, LARGE)),
        (ProducerIds, (SMALL, LARGE)),
        (AbortedTransactions, (SMALL, LARGE)),
        (AbortedInsideOne, (SMALL, LARGE)),
    ],
)
def test_appends_transactions_and_reads_do_as_much_in_a_large_log_as_in_a_small_one(
    kind: type[LogWorld], sizes: tuple[int, int], tmp_path: Path
) -> None:
    small, large = (
        lines_by_operation(kind(tmp_path / str(size), size).filled(lambda _: None).operations()) for size in sizes
    )
    assert {name: large[name] / small[name] for name in small if large[name] > ALLOWED * small[name]} == {}


def test_a_transaction_does_as_much_at_a_coordinator_of_many_open_ones_as_at_an_idle_one(tmp_path: Path) -> None:
    small, large = (
        lines_by_operation(Coordinator(tmp_path / str(size), size).filled(lambda _: None).operations())
        for size in (2, 600)
    )
    assert {name: large[name] / small[name] for name in small if large[name] > ALLOWED * small[name]} == {}


def test_a_walk_through_everything_would_be_noticed(tmp_path: Path) -> None:
    """The measure itself: what looks at each segment is told apart from what does not."""
    small, large = (Segments(tmp_path / str(size), size).filled(lambda _: None) for size in (FEWER, MORE))

    def walk(world: LogWorld) -> int:
        return sum(segment.size_bytes for segment in segments_of(world.log))

    assert count_lines(lambda: walk(large)) > 10 * count_lines(lambda: walk(small))
