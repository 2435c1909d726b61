"""Turns: who is measured when.

Owns: the order, and which turns count. Does not own: measuring. Invariants: in each round the order of contestants
starts one further, and from workload to workload, too; the first turns are a warm-up.
"""

from collections.abc import Iterator, Sequence
from typing import TypeVar

Contestant = TypeVar("Contestant")
Workload = TypeVar("Workload")
Sample = TypeVar("Sample")


def turns(
    rounds: int, workloads: Sequence[Workload], contestants: Sequence[Contestant]
) -> Iterator[tuple[int, Workload, list[Contestant]]]:
    """The number of the round, 0 for the warm-up, a workload, and the contestants in their order."""
    for number in range(rounds + 1):
        for position, workload in enumerate(workloads):
            yield number, workload, rotated(contestants, number + position)


def rotated(items: Sequence[Contestant], by: int) -> list[Contestant]:
    start = by % len(items)
    return [*items[start:], *items[:start]]


def keep(samples: dict[str, dict[str, list[Sample]]], workload: str, contestant: str, sample: Sample) -> None:
    """Add it to the samples by workload, then by contestant, both by key: one a round."""
    samples.setdefault(workload, {}).setdefault(contestant, []).append(sample)


def counted(rounds: int) -> str:
    """How often, for the facts of a report."""
    return f"{rounds} round{'s' * (rounds > 1)} after a warm-up"
