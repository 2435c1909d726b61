"""Patterns of clients over many names, matched beside the event loop: for one client at a time."""

from collections.abc import Sequence
from typing import Any

from oncelog.broker.config.pattern import AT_ONCE_STEPS, matching, step_count
from oncelog.broker.turns.slices import Sliced, Slices


def matching_beside(patterns: Sequence[Any], texts: Sequence[str], slices: Slices) -> Sliced[list[set[str]]]:
    """Do as `matching` for several patterns, beside the loop if it may take long."""
    if sum(step_count(pattern, texts) for pattern in patterns) <= AT_ONCE_STEPS:
        return [matching(pattern, texts) for pattern in patterns]
    taken = slices.matching.take()
    try:
        yield taken
        return (yield from slices.beside(lambda: [matching(pattern, texts) for pattern in patterns]))
    finally:
        slices.matching.give_back()
