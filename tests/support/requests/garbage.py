"""Garbage collections: what only they would free, objects of the broker that hold each other; and times without one."""

import gc
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, FunctionType

OURS = ("oncelog.",)


@contextmanager
def cyclic_garbage() -> Iterator[Counter[str]]:
    """Filled at the end: how many of each type of ours, function of ours and frame of one."""
    found: Counter[str] = Counter()
    was_enabled = gc.isenabled()
    gc.disable()
    gc.collect()
    try:
        yield found
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        found.update(name for name in map(_name, gc.garbage) if name.startswith(OURS))
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.collect()
        if was_enabled:
            gc.enable()


@contextmanager
def nothing_frozen() -> Iterator[None]:
    """Undo what `gc.freeze` has set aside. At the end all is: collections that walk every test take a second each."""
    gc.unfreeze()
    try:
        yield
    finally:
        gc.freeze()


@contextmanager
def collections_off() -> Iterator[None]:
    """Keep collections out of what is timed: each takes as long as everything else in the process is large."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _name(value: object) -> str:
    if isinstance(value, FrameType):
        return f"{value.f_globals.get('__name__')}.{value.f_code.co_name} running"
    if isinstance(value, FunctionType):
        return f"{value.__module__}.{value.__qualname__}"
    return f"{type(value).__module__}.{type(value).__qualname__}"
