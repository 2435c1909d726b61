"""What a client's program prints, one line for each thing that happened: its own program writes it, in any language.

    end NAME OUTCOME MS         a transaction of `PARTITIONS` records, one to each partition; OUTCOME is below
    read PARTITION OFFSET NAME  its follower got a record
    told PARTITION WHAT         the position of its follower is not in the log (any more); it begins again
    again PARTITION             it begins again there, too
    error WHAT                  an error by its name, whatever the program did about it
    stopped                     no more transactions begin: the first line on its standard input asks for that

The end of its standard input ends it.
"""

import asyncio
import os
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import partial
from random import Random

PARTITIONS = 4
WRITERS = 2
COMMITTED = "committed"
"""The commit was acknowledged."""
ABORTED = "aborted"
"""It was aborted, on purpose or after an error, or its commit was never asked for."""
UNKNOWN = "unknown"
"""The commit was asked for, and its outcome is unknown."""
COPIES = "-copies"
"""Suffix of the topic that holds the copies; the value of a copy names the partition of its original."""


Role = Callable[[], Awaitable[None]]
Transact = Callable[[str, bool], Awaitable[bool]]
"""Makes the transaction of this name and commits it, or aborts it; returns whether its producer can make another."""


@dataclass
class Job:
    """The arguments of a program, and its standard output.

    Two writers, a copier and a reader have a thread and an event loop each: a library may block its own.
    """

    errors: type[Exception] | tuple[type[Exception], ...]
    """The library's exceptions."""
    name_of: Callable[[Exception], str]
    bootstrap: str
    topic: str
    seed: str
    rest_ms: str = "20"
    stops: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def say(self, *words: object) -> None:
        with self._lock:
            sys.stdout.write(" ".join(map(str, words)) + "\n")
            sys.stdout.flush()

    def end(self, name: str, outcome: str, begun_s: float) -> None:
        self.say("end", name, outcome, round((time.monotonic() - begun_s) * 1000))

    def report(self, error: Exception) -> None:
        self.say("error", self.name_of(error))

    def run(self, writer: Callable[[str], AbstractAsyncContextManager[Transact]], copy: Role, follow: Role) -> None:
        """Work until standard input asks for the end. `writer` opens the producer of this number."""
        threading.excepthook = _end_all
        writers = [_thread(partial(self._write, writer, str(number))) for number in range(WRITERS)]
        others = [_thread(each) for each in (copy, follow)]
        sys.stdin.readline()
        self.stops.set()
        for each in writers:
            each.join()
        self.say("stopped")
        sys.stdin.read()
        self.over.set()
        for each in others:
            each.join()

    async def _write(self, writer: Callable[[str], AbstractAsyncContextManager[Transact]], number: str) -> None:
        """The next producer fences one that can make no more."""
        random, life = Random(f"{self.seed} {number}"), 0
        while not self.stops.is_set():
            life += 1
            try:
                async with writer(number) as transact:
                    transaction, is_usable = 0, True
                    while is_usable and not self.stops.is_set():
                        transaction += 1
                        is_usable = await transact(f"{number}.{life}.{transaction}", random.random() < 0.85)
                        await asyncio.to_thread(self.stops.wait, random.uniform(0, int(self.rest_ms) / 1000))
            except self.errors as error:
                self.report(error)

    async def copy(self, copier: Callable[[], AbstractAsyncContextManager[Role]]) -> None:
        """Copy until it is over; after an error a new copier begins where the group has committed."""
        while not self.over.is_set():
            try:
                async with copier() as copy_some:
                    while not self.over.is_set():
                        await copy_some()
            except self.errors as error:
                self.report(error)


def _thread(role: Role) -> threading.Thread:
    thread = threading.Thread(target=lambda: asyncio.run(role()))  # type: ignore[arg-type]
    thread.start()
    return thread


def _end_all(raised: threading.ExceptHookArgs) -> None:
    """An error that a program does not expect must not leave the rest of it at work."""
    threading.__excepthook__(raised)
    os._exit(1)
