"""Work of a lookup that would block the event loop: reading bytes not in the page cache, decompressing a batch.

Owns: the results of that work, bounded, cached for the repetition of the lookup. Lookups are written as if all data was
cached; where it is not, they raise `Deferred`, the work is done in a thread, and then the whole lookup is repeated on
the loop, with the state of that moment, until it finds all that it needs. An error of the work goes to its waiters, and
is not cached.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.ports import Disk, Scheduler
from oncelog.protocol.errors import KafkaError

T = TypeVar("T")
_MOST_RESULTS = 256
_MOST_BYTES = 32 * 1024 * 1024


class Deferred(Exception):
    """Raised by a lookup: `work` must be done off the loop first; `key` identifies it."""

    def __init__(self, key: Hashable, work: Callable[[], Any], results: "Results", size_bytes: int = 0) -> None:
        super().__init__()
        self.key = key
        self._work = work
        self._results = results
        self._size_bytes = size_bytes

    def run(self) -> None:
        """In any thread. Raises what the work raises."""
        self._results.put(self.key, self._work(), self._size_bytes)


class Results:
    """A cache of recent results."""

    def __init__(self, disk: Disk) -> None:
        self.read_range = disk.read_range
        self._kept: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, key: Hashable, work: Callable[[], Any], size_bytes: int = 0) -> Any:
        """The result of this work. Raises Deferred if it is not cached."""
        kept = self._kept.get(key)
        if kept is None:
            raise Deferred(key, work, self, size_bytes)
        return kept[0]

    def put(self, key: Hashable, value: Any, size_bytes: int) -> None:
        """In any thread."""
        with self._lock:
            self._put(key, value, size_bytes)

    def _put(self, key: Hashable, value: Any, size_bytes: int) -> None:
        self._drop(key)
        self._kept[key] = value, size_bytes
        self._bytes += size_bytes
        while len(self._kept) > _MOST_RESULTS or (self._bytes > _MOST_BYTES and len(self._kept) > 1):
            self._drop(next(iter(self._kept)))

    def _drop(self, key: Hashable) -> None:
        kept = self._kept.pop(key, None)
        if kept is not None:
            self._bytes -= kept[1]


class DeferredWork:
    """Runs deferred work off the loop; lookups that need the same work share it."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._running: dict[Hashable, Completion[None]] = {}

    def complete_later(
        self, deferred: Deferred, lookup: Callable[[], T], judge: Callable[[Exception], Exception]
    ) -> Completion[T]:
        """Complete with the result of `lookup`, once the work is done and any more that it turns out to need; fail with
        their errors, converted by `judge`."""
        found: Completion[T] = Completion()

        def on_done(done: Completion[None]) -> None:
            if done.error is not None:
                found.fail(judge(done.error))
                return
            try:
                value = lookup()
            except Deferred as another:
                self._start(another).then(on_done)
            except (OSError, KafkaError) as error:
                found.fail(judge(error))
            else:
                found.complete(value)

        self._start(deferred).then(on_done)
        return found

    def _start(self, deferred: Deferred) -> Completion[None]:
        running = self._running.get(deferred.key)
        if running is not None:
            return running
        done: Completion[None] = Completion()
        self._running[deferred.key] = done

        def on_done(error: Exception | None) -> None:
            del self._running[deferred.key]
            if error is None:
                done.complete(None)
            else:
                done.fail(error)

        self._scheduler.run_beside(deferred.run, on_done)
        return done
