"""A budget of steps, which ends what has no end: the wall clock of a busy machine ends what is only slow.

Owns: the count, the last steps, and how an error names both them and the life that it ended.
"""

from collections import deque
from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

MOST_STEPS = 10_000_000
"""More than any test has."""
_SHOWN = 8
P = ParamSpec("P")
T = TypeVar("T")


class Budget:
    def __init__(self, most: int = MOST_STEPS) -> None:
        self._most = most
        self._spent = 0
        self._last: deque[object] = deque(maxlen=_SHOWN)

    def refill(self) -> None:
        self._spent = 0

    def spend(self, step: object) -> None:
        """Take one step: a function, or the functions of one turn. Raises AssertionError if there were too many."""
        self._spent += 1
        if self._spent > self._most - _SHOWN:
            self._last.append(step)  # not before: it would keep alive what a step was the last to hold
        if self._spent > self._most:
            last = ", ".join(map(_name, self._last))
            raise AssertionError(f"no end after {self._most:,} steps, of which the last were: {last}")


def _name(step: object) -> str:
    if isinstance(step, list):
        return f"[{', '.join(map(_name, step[:_SHOWN]))}]"
    return str(getattr(step, "__qualname__", step))


class Seeded(Protocol):
    seed: int


W = TypeVar("W", bound=Seeded)


def names_its_seed(run: Callable[Concatenate[W, P], T]) -> Callable[Concatenate[W, P], T]:
    """Let the errors of a life say whose it was."""

    @wraps(run)
    def named(world: W, *arguments: P.args, **more: P.kwargs) -> T:
        try:
            return run(world, *arguments, **more)
        except BaseException as error:
            error.add_note(f"in the {type(world).__name__} of seed {world.seed}")
            raise

    return named
