"""Garbage collections that look at little, however much is stored.

Owns: what the collector looks at, and how often. Does not own: what is garbage; reference counts free nearly all of it.
A full collection takes 0.1 to 0.4 µs for each object that it looks at, in one turn of the event loop: 100 ms and more
for 100,000 groups, again and again while they grow. What has survived is nearly always there to stay, so once there is
enough of it, it is frozen: no later collection looks at it.
Invariants
- From one freezing to the next, a full collection looks at `_MOST_SURVIVORS` objects and those that were made since the
  last one, some twenty-three thousand.
- What is frozen is freed when it is dropped, unless it is in a cycle; that stays for ever. So whatever may live long
  breaks its cycles where it ends (tests/unit/broker/test_garbage.py), and no broker freezes again that does not grow.

Since Python 3.14 the collector goes through old objects in slices of its own, and never calls that generation 2.
"""

import gc

_FULL = 2
_MOST_SURVIVORS = 10_000
"""Measured: 1 to 4 ms."""
_THRESHOLDS = (700, 10, 2)
"""Python's own before 3.13, but that full collections come after 23,000 new objects, not 85,000."""


def keep_collections_short() -> None:
    """From now on, and for what there is now."""
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
    if on_collection not in gc.callbacks:
        gc.callbacks.append(on_collection)


def on_collection(phase: str, info: dict[str, int]) -> None:
    if phase == "stop" and info["generation"] == _FULL and len(gc.get_objects(_FULL)) > _MOST_SURVIVORS:
        gc.freeze()
