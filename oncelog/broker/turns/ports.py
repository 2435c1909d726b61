"""The interfaces that cores receive: time, randomness, disk, scheduling, and notifications to the layers above.

Owns: only the interfaces. Production adapters are in `broker.system`; simulation has its own. Code below
`broker.daemon` imports no adapter, `time`, `random`, `socket` or `asyncio`.
"""

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NewType, Protocol, TypeVar
from uuid import UUID

from oncelog.broker.turns.completion import Completion

T = TypeVar("T")

Buffer = bytes | bytearray | memoryview

WallMs = NewType("WallMs", int)
"""A time that is stored or shown: milliseconds since 1970, never below 0. It may be set back or forward at any moment:
no timer uses it, and code that compares it with a stored time says what happens when that lies in the future."""
MonotonicMs = NewType("MonotonicMs", int)
"""A time within this run: never goes back, never jumps, means nothing in another run. All timeouts, expiry and
schedules use it."""

Stopwatch = Callable[[], Callable[[], None]]
"""Starts a measurement; returns what to call at its end."""


class Clock(Protocol):
    """The two clocks of a machine, whose times mypy keeps apart."""

    def wall_ms(self) -> WallMs:
        """Return the time for record timestamps, and for times stored by an earlier run."""

    def monotonic_ms(self) -> MonotonicMs:
        """Return the time for every timeout and every schedule."""


class Entropy(Protocol):
    def uuid(self) -> UUID:
        """Return a random UUID, for topic ids, the cluster id and member ids."""

    def random(self) -> float:
        """Return a random number in [0, 1), for jitter."""


class Timer(Protocol):
    def cancel(self) -> None: ...


class Scheduler(Protocol):
    """The event loop, as cores see it."""

    def call_soon(self, function: Callable[[], None]) -> None: ...

    def call_later(self, delay_ms: float, function: Callable[[], None]) -> Timer: ...

    def run_in_thread(self, function: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        """Run `function` off the loop, then `done(error or None)` on the loop. Calls run sequentially."""

    def run_beside(self, function: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        """Do as `run_in_thread`, concurrently with other calls: for reads that may take long."""


class Coroutines(Protocol):
    """Where coroutines run, for what has no other form."""

    def run(self, coroutine: Coroutine[Any, Any, T]) -> Completion[T]:
        """Run it on the event loop. Fails with what it raises."""

    def run_now(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run it to its end on a loop of its own, while this thread waits. Raises what it raises."""


class File(Protocol):
    """One file. Opened on demand: a File holds no descriptor."""

    @property
    def path(self) -> str: ...

    @property
    def size_bytes(self) -> int: ...

    def append(self, parts: Sequence[Buffer]) -> int:
        """Write all parts at the end in one call; returns the position of the first byte. Raises OSError; a partial
        write is truncated before the error is raised."""

    def overwrite(self, position: int, data: Buffer) -> None:
        """Overwrite bytes of the file, which keeps its size: as durable as an append. Raises OSError; then any part of
        them may be there."""

    def write_durably(self, position: int, data: Buffer) -> None:
        """Overwrite bytes as `overwrite` does, and return when all of the file is durable. Callable from another
        thread. Raises OSError, after which nothing of this file may be trusted, unless no descriptor was left."""

    def read_view(self, start: int, end: int) -> memoryview:
        """Return the bytes [start, end), fewer at the end of the file."""

    def cached_view(self, start: int, end: int) -> memoryview | None:
        """Return the bytes if that needs no device access; None if it does, or if the system cannot say."""

    def truncate(self, size_bytes: int) -> None: ...

    def sync(self) -> None:
        """Make the file durable by fdatasync. Callable from another thread. Raises OSError, after which nothing of this
        file may be trusted."""

    def close(self) -> None: ...


class Syncable(Protocol):
    """A file that awaits its sync, or a write that is to come with it."""

    @property
    def path(self) -> str: ...

    def sync(self) -> None:
        """Make the file durable, see `File.sync`."""

    def close(self) -> None: ...


class Disk(Protocol):
    """A directory tree. Paths are relative to its root and use `/`."""

    def open(self, path: str) -> File:
        """Return the file, created empty if missing (its directory must exist)."""

    def exists(self, path: str) -> bool: ...

    def list_dir(self, path: str) -> list[str]:
        """Return the names in a directory, sorted; none if it does not exist."""

    def make_dir(self, path: str) -> None:
        """Create with parents; existing is fine. Durable after the parent's `sync_dir`."""

    def read_bytes(self, path: str) -> bytes: ...

    def read_range(self, path: str, start: int, end: int) -> bytes:
        """Return the bytes [start, end) of a file, fewer at its end. Callable from another thread."""

    def write_atomically(self, path: str, data: Buffer) -> None:
        """Write to a temporary file, fsync, rename over `path`, fsync the directory."""

    def rename(self, old_path: str, new_path: str) -> None: ...

    def lend(self, path: str, new_path: str) -> int:
        """Give a file a second name, under which it outlives its deletion and its replacement; what is written to it
        later is seen under both. Return its size. Raises FileNotFoundError, OSError."""

    def delete(self, path: str) -> None:
        """Remove a file; missing is fine. Raises OSError for a directory."""

    def delete_tree(self, path: str) -> None:
        """Remove a directory with its contents; missing is fine."""

    def sync_dir(self, path: str) -> None: ...

    def volume_bytes(self) -> tuple[int, int]:
        """Return the size of the volume, and the free space on it."""

    @property
    def notes(self) -> "Notes":
        """The notes about these files that are kept elsewhere."""


class Note(Protocol):
    """A few numbers in memory that outlives this process but not the machine, and that no file system writes back."""

    @property
    def name(self) -> str: ...

    @property
    def words(self) -> memoryview:
        """Unsigned 64-bit numbers, zero at first. A number that is assigned is there as a whole or not at all."""

    def grow(self, word_count: int) -> None:
        """Give `words` at least that length; a view taken before is of no use any more. Raises OSError."""


class Notes(Protocol):
    """The notes about one directory. One of another directory, such as the original of a copy, is not found."""

    def new_name(self) -> str:
        """Return a random name, 32 digits of base 16: none was ever given by anyone before, nor will be."""

    def create(self, name: str) -> Note | None:
        """Return a new note under this new name; None if there is no such memory here, or no space in it."""

    def open(self, name: str) -> Note | None:
        """Return the note of that name; None if there is none."""

    def delete(self, name: str) -> None:
        """Delete the note of that name, if there is one."""
