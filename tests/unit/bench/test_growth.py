"""What an operation costs does not grow with the log. Work is counted in lines of Python, not in time."""

from collections.abc import Iterator
from functools import partial
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

pytestmark = [pytest.mark.interpreted, pytest.mark.slow]
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


def worlds(kind: type[LogWorld], path: Path, sizes: tuple[int, int]) -> Iterator[LogWorld]:
    """One after the other, each closed before the next: a large one has a descriptor a segment."""
    for size in sizes:
        world = kind(path / str(size), size).filled(lambda _: None)
        yield world
        world.close()


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
    small, large = (lines_by_operation(world.operations()) for world in worlds(kind, tmp_path, sizes))
    assert {name: large[name] / small[name] for name in small if large[name] > ALLOWED * small[name]} == {}


def test_a_transaction_does_as_much_at_a_coordinator_of_many_open_ones_as_at_an_idle_one(tmp_path: Path) -> None:
    sides = []
    for size in (2, 600):
        world = Coordinator(tmp_path / str(size), size).filled(lambda _: None)
        sides.append(lines_by_operation(world.operations()))
        world.close()
    small, large = sides
    assert {name: large[name] / small[name] for name in small if large[name] > ALLOWED * small[name]} == {}


def test_a_walk_through_everything_would_be_noticed(tmp_path: Path) -> None:
    """The measure itself works: code that looks at each segment is distinguished from code that does not."""

    def walk(world: LogWorld) -> int:
        return sum(segment.size_bytes for segment in segments_of(world.log))

    small, large = (count_lines(partial(walk, world)) for world in worlds(Segments, tmp_path, (FEWER, MORE)))
    assert large > 10 * small
