"""The longest garbage collection looks at little, however many objects are stored."""

import gc
import sys
from collections.abc import Iterator

import pytest

from oncelog.broker.system import loop
from tests.support.requests.garbage import nothing_frozen

pytestmark = pytest.mark.skipif(sys.version_info >= (3, 14), reason="the collector goes through old objects in slices")
STORED = 400_000
"""The number of objects that 100,000 groups make."""
MOST_LOOKED_AT = 40_000


@pytest.fixture
def collections() -> Iterator[list[int]]:
    """How many objects each full collection has to look at."""
    looked_at: list[int] = []

    def on_collection(phase: str, info: dict[str, int]) -> None:
        if phase == "start" and info["generation"] == 2:
            looked_at.append(len(gc.get_objects()))

    thresholds = gc.get_threshold()
    with nothing_frozen():
        loop.keep_collections_short()
        gc.callbacks.insert(0, on_collection)
        try:
            yield looked_at
        finally:
            gc.callbacks.remove(on_collection)
            gc.callbacks.remove(loop.on_collection)
            gc.set_threshold(*thresholds)


def test_a_full_collection_looks_at_what_is_new(collections: list[int]) -> None:
    stored = [[] for _ in range(STORED)]
    assert len(stored) == STORED
    assert len(collections) > 5
    assert max(collections) < MOST_LOOKED_AT


def test_a_heap_that_does_not_grow_is_not_frozen_again(collections: list[int]) -> None:
    """A cycle that lives a while, and is dropped then, is freed."""
    frozen_count = gc.get_freeze_count()
    for _ in range(200):
        cycle: list[object] = [[] for _ in range(1_000)]
        cycle.append(cycle)
        gc.collect()
    assert gc.get_freeze_count() <= frozen_count


def test_what_is_frozen_is_freed_when_it_is_dropped(collections: list[int]) -> None:
    stored = [[] for _ in range(STORED)]
    frozen_count = gc.get_freeze_count()
    del stored
    assert gc.get_freeze_count() < frozen_count - STORED // 2
