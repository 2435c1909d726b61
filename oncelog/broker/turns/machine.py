"""The machine that a broker runs on: real in `broker.daemon.app`, virtual in tests and simulation."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from oncelog.broker.turns.ports import Clock, Coroutines, Disk, Entropy, Scheduler


@dataclass(frozen=True, slots=True)
class System:
    """The machine that a broker runs on."""

    clock: Clock
    entropy: Entropy
    scheduler: Scheduler
    disk: Disk | None
    """The data directory; None where nothing is kept in files."""
    run_all: Callable[[Sequence[Callable[[], None]]], None] | None
    """Runs the syncs of one flush round in parallel; sequentially if it is None."""
    on_disk_failure: Callable[[OSError], None]
    coroutines: Coroutines | None = None
    """With `oncelog.storage=postgres`: where its driver runs."""
