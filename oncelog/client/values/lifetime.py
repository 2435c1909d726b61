"""Where a client was made, the event loop that it was opened in, and whether it was closed.

Owns: the line about a client that is dropped while it is open, the error of a call from elsewhere than its loop. Does
not own: opening and closing, which the clients do. Invariants: a client that is collected open says so once, in one
line, however many clients it is made of; a call from another loop, or from none, fails before anything is sent: what it
waits for would happen in the client's own loop, or, where that has ended, never.
"""

import asyncio
import logging
import sys
import warnings
import weakref

from oncelog.client.values.errors import InvalidState

_OURS = "oncelog.client."
_log = logging.getLogger("oncelog.client")


class Lifetime:
    """A part of a client, which is collected with it."""

    __slots__ = ("__weakref__", "_kind", "_made_at", "_owner", "is_open", "loop")

    def __init__(self, kind: str) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        """The loop that the client was opened in, and has to be used in."""
        self.is_open = False
        self._kind = kind
        self._owner: weakref.ref[Lifetime] | None = None
        self._made_at = _place_of_the_program()

    def belong_to(self, owner: "Lifetime") -> None:
        """Leave it to the client that this one is a part of to be named. That one is collected without its parts, which
        a loop that ends in the middle of a callback keeps for ever."""
        self._owner = weakref.ref(owner)

    def open(self) -> None:
        """Note that the client is opened, in the loop that runs."""
        self.loop = asyncio.get_running_loop()
        self.is_open = True

    def close(self) -> None:
        self.is_open = False

    def check_loop(self) -> None:
        """Raise InvalidState unless the client's loop runs here. One that was not opened belongs to no loop. It costs a
        third of a microsecond, so that it is not called for each record."""
        if self.loop is not None and asyncio._get_running_loop() is not self.loop:
            raise self.misplaced()

    def misplaced(self) -> InvalidState:
        """The error of a call from elsewhere than the client's loop."""
        kind, (file, line) = self._named
        whose = f"this {kind}, made at {file}:{line}, belongs to an event loop"
        if self.loop is None or self.loop.is_closed():
            hint = f"open, use and close it within one asyncio.run(); oncelog.sync.{kind} has a loop of its own"
            return InvalidState(f"{whose} that has ended", hint=hint)
        elsewhere = "another one" if asyncio._get_running_loop() is not None else "a thread without one"
        hint = f"asyncio.run_coroutine_threadsafe() runs a call there; or make a {kind} for each loop"
        return InvalidState(f"{whose}, and this call came from {elsewhere}", hint=hint)

    @property
    def _named(self) -> tuple[str, tuple[str, int]]:
        named = self
        while named._owner is not None and (owner := named._owner()) is not None:
            named = owner
        return named._kind, named._made_at

    def __del__(self) -> None:
        if not self.is_open or self._owner is not None:
            return
        file, line = self._made_at
        text = f"a {self._kind} was not closed: use it in a `with` block, or call close()"
        # Python hides ResourceWarnings unless it is asked for them, so the line is logged as well, as aiokafka does.
        _log.warning("%s:%d: %s", file, line, text)
        warnings.warn_explicit(text, ResourceWarning, file, line, source=self)


def _place_of_the_program() -> tuple[str, int]:
    """The file and line of the nearest call that is not the client's own. It costs a microsecond and keeps no frame."""
    frame = sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).startswith(_OURS):
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno
