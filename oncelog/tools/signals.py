"""The signals that end a command, besides Ctrl-C and SIGTERM, which are how it is asked to stop.

Owns: which they are, and what is said of them. Does not own: how work ends (`asking.run_loop`). Invariant: each leaves
a line and an exit code that a service manager takes for a failure, after the same clean end: a relay that systemd has
started is started again. (systemd takes a process that SIGHUP or SIGPIPE has ended for one that was asked to.)
"""

import signal
from collections.abc import Iterator
from typing import Any, NoReturn

from oncelog.tools.terminal import fail

_NAMES = ("SIGHUP", "SIGUSR1", "SIGUSR2")


def other_signals() -> Iterator[signal.Signals]:
    """Yield those that are not ignored, as nohup has SIGHUP be; none on Windows."""
    for name in _NAMES:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            yield number


def fail_on_signals() -> dict[signal.Signals, Any]:
    """End the command by an exception, as Ctrl-C does, when one of them comes; return what was there before."""

    def end(number: int, _: object) -> NoReturn:
        fail_by(signal.Signals(number))

    return {number: signal.signal(number, end) for number in other_signals()}


def fail_by(number: signal.Signals) -> NoReturn:
    """End the command that this signal has ended, with the exit code that shells have for it."""
    fail(f"ended by {number.name}; SIGTERM asks it to stop", 128 + number)
