"""A value that arrives later on this event loop, exactly once.

Owns: the callbacks of the waiters. Does not own: time, tasks or threads; `complete` runs every callback in the turn
that calls it, so that "decide, log, apply" and "respond when durable" stay deterministic.
Invariants
- Completed at most once; a callback added after completion runs at once.
- A completion that has ended and is dropped is freed at once: an expected error (KafkaError) is kept without its
  traceback, whose frames would hold the completion.

Cheaper than `asyncio.Future`, whose callbacks each cost another iteration of the loop.
"""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from oncelog.protocol.errors import KafkaError

T = TypeVar("T")
U = TypeVar("U")
_ENDED_TWICE = "a completion can end only once"


class Completion(Generic[T]):
    """A pending result: `complete(value)` or `fail(error)` ends it, and `then(callback)` has the callback called with
    it."""

    __slots__ = ("_callbacks", "_value", "done", "error")

    error: Exception | None
    """The error with which it failed; None unless it has."""

    def __init__(self) -> None:
        self.done = False
        self.error = None
        self._value: T | None = None
        self._callbacks: list[Callable[[Completion[T]], None]] | tuple[()] = ()

    @staticmethod
    def of(value: U) -> "Completion[U]":
        """Return a completion that already has `value`."""
        completion: Completion[U] = Completion()
        completion.complete(value)
        return completion

    @staticmethod
    def failed(error: Exception) -> "Completion[Any]":
        """Return a completion that has already failed."""
        completion: Completion[Any] = Completion()
        completion.fail(error)
        return completion

    def complete(self, value: T) -> None:
        if self.done:
            raise RuntimeError(_ENDED_TWICE)
        self.done = True
        self._value = value
        callbacks, self._callbacks = self._callbacks, ()
        for callback in callbacks:
            callback(self)

    def fail(self, error: Exception) -> None:
        if self.done:
            raise RuntimeError(_ENDED_TWICE)
        self.done = True
        self.error = error
        if isinstance(error, KafkaError):
            error.__traceback__ = None
        callbacks, self._callbacks = self._callbacks, ()
        for callback in callbacks:
            callback(self)

    def result(self) -> T:
        """Returns the value or raises the error; only once `done`."""
        if self.error is not None:
            raise self.error
        if not self.done:
            raise RuntimeError("the completion has no result yet")
        return self._value  # type: ignore[return-value]

    def then(self, callback: "Callable[[Completion[T]], None]") -> None:
        if self.done:
            callback(self)
        elif self._callbacks:
            self._callbacks.append(callback)
        else:
            self._callbacks = [callback]

    def map(self, function: Callable[[T], U], refused: Callable[[KafkaError], U] | None = None) -> "Completion[U]":
        """Return a completion of `function(value)`, or of `refused(error)` for an expected error; any other error, or
        one that a function raises, is passed on."""
        mapped: Completion[U] = Completion()

        def on_done(source: "Completion[T]") -> None:
            error = source.error
            try:
                if error is None:
                    value = function(source._value)  # type: ignore[arg-type]
                elif refused is not None and isinstance(error, KafkaError):
                    value = refused(error)
                else:
                    mapped.fail(error)
                    return
            except Exception as raised:
                mapped.fail(raised)
            else:
                mapped.complete(value)

        self.then(on_done)
        return mapped

    def recover(self, refused: Callable[[KafkaError], T]) -> "Completion[T]":
        """Return the same completion with a value in place of an expected error."""
        return self.map(_same, refused)

    def flat_map(self, function: "Callable[[T], Completion[U]]") -> "Completion[U]":
        """Do as `map` for a function that itself returns a completion."""
        flat: Completion[U] = Completion()

        def on_done(source: "Completion[T]") -> None:
            if source.error is not None:
                flat.fail(source.error)
                return
            try:
                inner = function(source._value)  # type: ignore[arg-type]
            except Exception as error:
                flat.fail(error)
            else:
                inner.then(flat._end_as)

        self.then(on_done)
        return flat

    def _end_as(self, other: "Completion[T]") -> None:
        if other.error is not None:
            self.fail(other.error)
        else:
            self.complete(other._value)  # type: ignore[arg-type]


def _same(value: T) -> T:
    return value


def all_of(completions: "list[Completion[T]]") -> "Completion[list[T]]":
    """Completes with every value, in the order given, once all have ended; the first error in that order wins."""
    gathered: Completion[list[T]] = Completion()
    left = len(completions)
    if not left:
        gathered.complete([])
        return gathered

    def on_done(_: "Completion[T]") -> None:
        nonlocal left
        left -= 1
        if left:
            return
        for completion in completions:
            if completion.error is not None:
                gathered.fail(completion.error)
                return
        gathered.complete([completion.result() for completion in completions])

    for completion in completions:
        completion.then(on_done)
    return gathered
