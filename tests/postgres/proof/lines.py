"""What a client's program prints, one line for each thing that happened: its own program writes it, in any language.

    end NAME OUTCOME MS         a transaction of `PARTITIONS` records, one to each partition; OUTCOME is below
    read PARTITION OFFSET NAME  its follower got a record
    told PARTITION WHAT         its follower was told that its position is not in the log (any more); it begins anew
    again PARTITION             it begins anew there, too
    error WHAT                  an error by its name, whatever the program did about it
    stopped                     no more transactions begin: the first line on its standard input asks for that

The end of its standard input ends it.
"""

import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

PARTITIONS = 4
WRITERS = 2
COMMITTED = "committed"
"""The commit was acknowledged."""
ABORTED = "aborted"
"""It was aborted, on purpose or after an error, or its commit was never asked for."""
UNKNOWN = "unknown"
"""The commit was asked for, and nobody said what became of it."""
COPIES = "-copies"
"""What the copies of a topic are named, behind its own name; the value of each has the partition that it is from."""


@dataclass
class Lines:
    """Standard output of a program, for several threads."""

    _lock: threading.Lock = field(default_factory=threading.Lock)

    def say(self, *words: object) -> None:
        with self._lock:
            sys.stdout.write(" ".join(map(str, words)) + "\n")
            sys.stdout.flush()

    def end(self, name: str, outcome: str, begun_s: float) -> None:
        self.say("end", name, outcome, round((time.monotonic() - begun_s) * 1000))


def end_with_any_thread() -> None:
    """An error that a program does not expect must not leave the rest of it at work."""

    def end(raised: threading.ExceptHookArgs) -> None:
        threading.__excepthook__(raised)
        os._exit(1)

    threading.excepthook = end


def run_threads(
    stops: threading.Event,
    over: threading.Event,
    lines: Lines,
    write: Callable[[int], None],
    others: Sequence[Callable[[], None]],
) -> None:
    """Writers, by their numbers, and what goes on beside them, until standard input says otherwise."""
    writers = [threading.Thread(target=write, args=(number,)) for number in range(WRITERS)]
    beside = [threading.Thread(target=each) for each in others]
    for each in writers + beside:
        each.start()
    await_stop(stops, over, lines, writers)
    for each in beside:
        each.join()


def await_stop(stops: threading.Event, over: threading.Event, lines: Lines, writers: list[threading.Thread]) -> None:
    """What standard input asks for."""
    sys.stdin.readline()
    stops.set()
    for each in writers:
        each.join()
    lines.say("stopped")
    sys.stdin.read()
    over.set()
