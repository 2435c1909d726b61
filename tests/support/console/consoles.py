"""A console in this process: asked without a socket, or as a server that browsers reach; and what its pages say.

Owns: the server's thread and port. Does not own: the broker, browsers (`chromium`).
"""

import re
import socket
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from html import unescape
from urllib.parse import urlencode

import httpx
import uvicorn

from oncelog.console.app import create_app
from oncelog.console.reading import Reader
from tests.support.patience import PATIENCE_MS

TIMEOUT_MS = PATIENCE_MS
"""How long it waits for a broker before a page says so: with one that is away, a test gives GIVES_UP_MS."""
_INTERVAL_S = 0.1
OURS = {"origin": "http://127.0.0.1"}
"""The header that a browser sends with a form on a page of `console`."""


@contextmanager
def serving(reader: Reader) -> Iterator[str]:
    """Its address, without a slash at the end."""
    app = create_app(reader, interval_s=_INTERVAL_S, is_ending=lambda: server.should_exit)
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", ws="none"))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


@asynccontextmanager
async def console(
    cluster: str | Reader, *, read_only: bool = False, no_writing: str = "", timeout_ms: float = TIMEOUT_MS
) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a console for the cluster at an address, or for the one that a reader sees."""
    reader = Reader(cluster, timeout_ms) if isinstance(cluster, str) else cluster
    transport = httpx.ASGITransport(create_app(reader, read_only=read_only, no_writing=no_writing))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        try:
            yield client
        finally:
            await reader.close()


def text_of(page: str) -> str:
    """The text of a page as a reader sees it, in one line."""
    body = page.partition("<main")[2].partition(">")[2]
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", body)).split())


def letters_of(page: str) -> str:
    """The cells of the first strip of a page."""
    strip = page.partition('<div class="strip">')[2].partition("</div>")[0]
    return "".join(re.findall(r'<a class="cell [^>]*>(.)</a>', strip))


def address_of(path: str, query: Mapping[str, str]) -> str:
    """The address of a page below that of the console."""
    return f"{path}?{urlencode(query)}" if query else path
