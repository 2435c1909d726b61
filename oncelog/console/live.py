"""Updates of a page while it is looked at, as server-sent events.

Owns: when a page is rendered again, and what is sent. Does not own: what it shows (`pages`).
The first event of a stream is the page as it is; then one a second, if it has changed. If the cluster cannot be asked,
an event `trouble` says why, and the stream keeps asking. A browser that hides the page closes its stream, and one
whose stream ends opens another: so a stream has no state that matters.
"""

import asyncio
from collections.abc import AsyncIterator, Callable

from oncelog.console.pages import Page
from oncelog.console.query import Query
from oncelog.console.reading import Reader
from oncelog.console.rendering import Renderer
from oncelog.console.trouble import EXPECTED, trouble_of

LIVE = "/live"
"""The address of live pages: the stream of a page is below it, at the page's own address."""
MAX_STREAMS = 32
INTERVAL_S = 1.0
_SILENT_TURNS = 15
"""How many silent turns pass before a comment is sent, by which a connection that is gone is noticed."""


class Streams:
    """The streams that run now, up to MAX_STREAMS."""

    def __init__(
        self, reader: Reader, renderer: Renderer, interval_s: float, is_ending: Callable[[], bool] = lambda: False
    ) -> None:
        """`is_ending` is called each turn: a server that ends waits for its responses."""
        self._reader = reader
        self._renderer = renderer
        self._interval_s = interval_s
        self._is_ending = is_ending
        self._count = 0

    @property
    def has_room(self) -> bool:
        return self._count < MAX_STREAMS

    async def follow(self, page: Page, query: Query) -> AsyncIterator[str]:
        """Yield events until the caller stops, or the server."""
        self._count += 1
        try:
            sent, silent_turns = "", 0
            while not self._is_ending():
                try:
                    part = self._renderer.part(page.template, await page.load(self._reader, query))
                    found = event("view", part)
                except EXPECTED as error:
                    found = event("trouble", self._renderer.part("trouble", trouble_of(error)))
                silent_turns += 1
                if found != sent:
                    yield found
                    sent, silent_turns = found, 0
                elif silent_turns >= _SILENT_TURNS:
                    yield ":\n\n"
                    silent_turns = 0
                await asyncio.sleep(self._interval_s)
        finally:
            self._count -= 1


def event(name: str, html: str) -> str:
    """Return an event with `html` line by line, as the format has it."""
    lines = "".join(f"data: {line}\n" for line in html.splitlines())
    return f"event: {name}\n{lines}\n"
