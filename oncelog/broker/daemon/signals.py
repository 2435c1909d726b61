"""What each signal does to the daemon.

Owns: the table. Does not own: how the broker stops and reloads. Invariant: no signal of the table ends the process
without a line in its log, nor with an exit code that a service manager takes for an end that was asked for. Outside
the table are faults of the process, which end it as the system does, since its memory cannot be trusted: SIGSEGV,
SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP and SIGSYS.

| signal | what happens |
|---|---|
| SIGTERM, SIGINT, SIGXCPU | the broker stops: what was begun is answered and flushed, exit code 0 |
| SIGHUP | keys, certificates and tokens are read again; if the terminal that it was started on is gone, it stops |
| SIGQUIT | the stacks of all threads go to standard error, as with a JVM; it serves on |
| SIGUSR1, SIGUSR2, SIGRTMIN to SIGRTMAX and what else would end a process | a line, and it serves on |
| SIGPIPE, SIGXFSZ | ignored: the write itself fails |

A hang-up of the terminal and `kill -HUP` are one signal. The system takes the controlling terminal away before it sends
the signal of a hang-up, so `/dev/tty`, which could be opened at the start, then cannot. Under nohup, and without a
terminal from the start on, SIGHUP only reloads. Kafka stops on SIGHUP, cleanly.
"""

import asyncio
import faulthandler
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGXCPU)
REAL_TIME = tuple(range(signal.SIGRTMIN, signal.SIGRTMAX + 1)) if hasattr(signal, "SIGRTMIN") else ()
"""Numbers: only the first and the last have a name. macOS has none of them."""
IGNORED = (
    *(
        getattr(signal, name)
        for name in ("SIGUSR1", "SIGUSR2", "SIGALRM", "SIGVTALRM", "SIGPROF", "SIGIO", "SIGPWR", "SIGSTKFLT")
        if hasattr(signal, name)
    ),
    *REAL_TIME,
)
"""A process ends by them, if it does not catch them."""


def handle_signals(
    loop: asyncio.AbstractEventLoop, log: Any, stop: Callable[[], object], reload: Callable[[], object]
) -> None:
    """Handle every signal of the table on this loop, which is that of the main thread."""
    may_hang_up = signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN and _has_terminal()

    def on_hang_up() -> None:
        if may_hang_up and not _has_terminal():
            log.warning("terminal.closed", message="the broker stops; started with nohup or setsid, it would not")
            stop()
        else:
            reload()

    def serve_on(number: int, message: str) -> None:
        log.warning("signal.ignored", signal=name_of(number), message=message)

    for number in STOPS:
        loop.add_signal_handler(number, stop)
    loop.add_signal_handler(signal.SIGHUP, on_hang_up)
    for number in IGNORED:
        loop.add_signal_handler(number, serve_on, number, "SIGTERM stops the broker, SIGHUP reads its files again")
    loop.add_signal_handler(
        signal.SIGQUIT, serve_on, signal.SIGQUIT, "the stacks of all threads are in standard error; SIGTERM stops it"
    )
    with suppress(OSError, RuntimeError, ValueError):  # standard error is closed, or no file
        # By C code, so that they come from a loop that hangs, too; then the handler above.
        faulthandler.register(signal.SIGQUIT, sys.stderr, all_threads=True, chain=True)


def name_of(number: int) -> str:
    """Return the name of a signal; a real-time one is counted from the first."""
    if number in REAL_TIME and number not in (signal.SIGRTMIN, signal.SIGRTMAX):
        return f"SIGRTMIN+{number - signal.SIGRTMIN}"
    return signal.Signals(number).name


def _has_terminal() -> bool:
    """Whether the process has a controlling terminal."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK))
    except OSError:
        return False
    return True
