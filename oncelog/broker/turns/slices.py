"""Long work in slices, one per turn of the event loop, so that no request makes the others wait.

Owns: which slice is next, how many elements one turn may process, how many unfinished work may hold. Does not own: the
work, a generator: each `yield n` reports that n more elements of a request or a response are done, `yield completion`
waits for it, and `return` ends with the result (`broker.requests.dispatch` runs handlers and codecs like that).
Invariants
- The slices of one turn together process at most `ELEMENTS_A_TURN` elements and the rest of one step.
- The code between two yields runs in one turn, without interruption. Between two slices anything may happen.
- Scheduling is round-robin: long work delays other work by one slice per turn, and half of each turn is reserved for
  new work, so that short work nearly always ends in the turn in which it arrived.
- While unfinished work holds `ELEMENTS_HELD` elements only the oldest continues; it ends, and so do all, one by one.
- No work holds more than `ELEMENTS_HELD`: it fails with `TooMany`.
- Work without a waiter is dropped before its next slice; its effects so far stay.
"""

from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator
from heapq import merge
from typing import Any, Generic, TypeVar

from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.ports import Scheduler

ELEMENTS_A_TURN = 1_000
"""How many elements one turn takes. Measured: one is decoded, handled or encoded in 0.3 to 5 µs, so a turn takes a few
milliseconds."""
_LEFT_TO_NEW_WORK = ELEMENTS_A_TURN // 2
ELEMENTS_HELD = 1_000_000
"""How many elements may be held. Measured: an element of a message takes 100 to 300 bytes while it is in memory."""

LOG_OPEN_ELEMENTS = 16
"""The elements of opening a log that has no files. Measured: it takes about 60 µs."""
TOPIC_ELEMENTS = 64
"""The elements of creating a topic or adding partitions. Measured: it takes 100 to 200 µs."""
PARTITIONS_AN_ELEMENT = 8
"""How many partitions are created for one element. Measured: one takes 0.6 µs, as many as one request may ask for in
one turn."""

T = TypeVar("T")
Sliced = Generator[int | Completion[Any], None, T]
"""Work in slices with a result of type T."""
U = TypeVar("U")


def each(items: Iterable[U], answer: Callable[[U], T], elements: int = 1) -> Sliced[list[T]]:
    """Return `answer` of each item, which counts as `elements` each time."""
    answers = []
    for item in items:
        answers.append(answer(item))
        yield elements
    return answers


def count_each(items: Iterable[U]) -> Sliced[Counter[U]]:
    """Return how often each item occurs."""
    counts: Counter[U] = Counter()
    for item in items:
        counts[item] += 1
        yield 1
    return counts


def in_order(items: Iterable[str]) -> Sliced[Iterator[str]]:
    """Return the items sorted and deduplicated: chunks are sorted here, and merged while the result is consumed."""
    chunks: list[list[str]] = [[]]
    for item in dict.fromkeys(items):
        chunks[-1].append(item)
        yield 1
        if len(chunks[-1]) == ELEMENTS_A_TURN:
            chunks[-1].sort()
            chunks.append([])
    chunks[-1].sort()
    return merge(*chunks)


def all_done(completions: Iterable[Completion[T]], elements: int = 1) -> Sliced[list[T]]:
    """Return the results in the order given: each operation is started in its turn, and all are awaited once all are
    started."""
    begun = []
    for completion in completions:
        begun.append(completion)
        yield elements
    results = []
    for completion in begun:
        if not completion.done:
            yield completion
        results.append(completion.result())
        yield 1
    return results


def at_once(steps: Sliced[T]) -> T:
    """Return the result of work that has nothing to wait for. Raises RuntimeError if it has."""
    while True:
        try:
            step = next(steps)
        except StopIteration as stop:
            result: T = stop.value
            return result
        if isinstance(step, Completion) and not step.done:
            raise RuntimeError("this work must wait, and nothing here can wait for it")


class TooMany(Exception):
    """Raised if there are more elements than one request or response may hold."""


class OneByOne:
    """A turnstile: one of many holds it, the others wait in the order in which they came."""

    def __init__(self) -> None:
        self._is_taken = False
        self._waiting: deque[Completion[None]] = deque()

    def take(self) -> Completion[None]:
        """Completes once it is the caller's, who must `give_back`."""
        granted: Completion[None] = Completion()
        if self._is_taken:
            self._waiting.append(granted)
        else:
            self._is_taken = True
            granted.complete(None)
        return granted

    def give_back(self) -> None:
        if self._waiting:
            self._waiting.popleft().complete(None)
        else:
            self._is_taken = False


class _Work(Generic[T]):
    __slots__ = ("completion", "elements", "is_wanted", "steps")

    def __init__(self, steps: Sliced[T], is_wanted: Callable[[], bool]) -> None:
        self.steps = steps
        self.is_wanted = is_wanted
        self.elements = 0
        self.completion: Completion[T]
        """The completion of the work; created if its first slice does not finish it."""


class Slices:
    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._left = ELEMENTS_A_TURN
        self._turn_is_due = False
        self._ready: deque[_Work[Any]] = deque()
        self._by_age: dict[_Work[Any], None] = {}
        """The keys of `_ready`, the oldest first."""
        self._charged = 0
        self.elements_held = 0
        """The elements held by all unfinished work."""
        self.opening, self.matching = OneByOne(), OneByOne()
        """The turnstiles for work beside the loop whose size a client chooses: batches that are opened, patterns that
        are matched."""

    def run(self, steps: Sliced[T], is_wanted: Callable[[], bool]) -> T | Completion[T]:
        """Return the result, if the rest of this turn's budget is enough for it; else a completion of it. Raises what
        the first slice raises; a later slice's error fails the completion."""
        work = _Work(steps, is_wanted)
        try:
            waits = self._left > 0 and not self._continue(work, 0)
        except StopIteration as stop:
            result: T = stop.value
            return result
        finally:
            self._need_turn()
        work.completion = Completion()
        self.elements_held += work.elements
        if not waits:
            self._add(work)
        return work.completion

    def run_own(self, steps: Sliced[T]) -> Completion[T]:
        """Do as `run` for the broker's own work: it continues even if no client waits, and its elements hold no
        memory."""
        done = self.run(self.charged(steps), lambda: True)
        return done if isinstance(done, Completion) else Completion.of(done)

    def beside(self, work: Callable[[], T]) -> Sliced[T]:
        """Return the result of work in a thread. Raises what it raises."""
        done: Completion[T] = Completion()
        results: list[T] = []
        errors: list[Exception] = []

        def run() -> None:
            try:
                results.append(work())
            except Exception as error:
                errors.append(error)

        def on_done(error: Exception | None) -> None:
            failure = error or (errors[0] if errors else None)
            if failure is None:
                done.complete(results[0])
            else:
                done.fail(failure)

        self._scheduler.run_beside(run, on_done)
        yield done
        return done.result()

    def charged(self, steps: Sliced[T]) -> Sliced[T]:
        """Run the same steps, whose elements take time and hold no memory."""
        while True:
            try:
                step = next(steps)
            except StopIteration as stop:
                result: T = stop.value
                return result
            if isinstance(step, int):
                self.charge(step)
                yield 0
            else:
                yield step

    def charge(self, elements: int) -> None:
        """Charge this turn for work that takes as long as this many elements, and holds none."""
        self._left -= elements
        self._charged += elements
        self._need_turn()

    def _add(self, work: _Work[Any]) -> None:
        self._ready.append(work)
        self._by_age[work] = None
        self._need_turn()

    def _need_turn(self) -> None:
        if not self._turn_is_due and (self._ready or self._left < _LEFT_TO_NEW_WORK):
            self._turn_is_due = True
            self._scheduler.call_soon(self._turn)

    def _turn(self) -> None:
        self._turn_is_due = False
        self._left = ELEMENTS_A_TURN
        for _ in range(len(self._ready)):
            if self._left <= _LEFT_TO_NEW_WORK:
                break
            work = self._ready.popleft()
            if self.elements_held < ELEMENTS_HELD or next(iter(self._by_age)) is work:
                self._slice(work)
            else:
                self._ready.append(work)
        self._need_turn()

    def _slice(self, work: _Work[Any]) -> None:
        before = work.elements
        if not work.is_wanted():
            work.steps.close()
            self._end(work, before)
            return
        try:
            waits = not self._continue(work, _LEFT_TO_NEW_WORK)
        except StopIteration as stop:
            self._end(work, before)
            work.completion.complete(stop.value)
        except Exception as error:
            self._end(work, before)
            work.completion.fail(error)
        else:
            self.elements_held += work.elements - before
            if waits:
                del self._by_age[work]
            else:
                self._ready.append(work)

    def _end(self, work: _Work[Any], counted: int) -> None:
        del self._by_age[work]
        self.elements_held -= counted

    def _continue(self, work: _Work[Any], least_left: int) -> bool:
        """Run until this much of the turn's budget is left; False when it waits for a completion. Raises StopIteration
        at its end, and TooMany."""
        before = self._left + self._charged
        try:
            while self._left > least_left:
                step = next(work.steps)
                if isinstance(step, int):
                    self._left -= step  # a step may run other work, which uses the budget too
                elif not step.done:
                    step.then(lambda _: self._add(work))
                    return False
        finally:
            work.elements += before - self._left - self._charged
        if work.elements > ELEMENTS_HELD:
            work.steps.close()
            raise TooMany(f"more than {ELEMENTS_HELD:,} elements")
        return True
