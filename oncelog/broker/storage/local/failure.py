"""Whether the files of this node can still be trusted.

Owns: that state. Does not own: lack of space, which passes (`disk_space`), the end of the broker (`on_failure`).
Invariant: after the first error nothing more is acknowledged. After a failed fsync the kernel may have dropped the
pages, and a second fsync that succeeds would prove nothing.
"""

from collections.abc import Callable

from oncelog.broker.storage.local.disk_space import DiskSpace


class Failure:
    __slots__ = ("_on_failure", "_watchers", "error", "failed", "space")

    def __init__(self, on_failure: Callable[[OSError], None]) -> None:
        """`on_failure` is called once, with the first error."""
        self.failed = False
        self.error: OSError | None = None
        self.space = DiskSpace()
        """Without it, writes are refused and nothing has failed."""
        self._on_failure = on_failure
        self._watchers: list[Callable[[], None]] = []

    def watch(self, watcher: Callable[[], None]) -> None:
        """Call `watcher` at that moment."""
        self._watchers.append(watcher)

    def fail(self, error: OSError) -> None:
        """Report the error, if it is the first one."""
        if not self.failed:
            self.failed, self.error = True, error
            for watcher in self._watchers:
                watcher()
            self._on_failure(error)

    def end(self) -> None:
        """The store was closed: nothing more is acknowledged either, and nothing is written behind a clean stop."""
        self.failed = True
