"""A console in this process, as a server that browsers reach.

Owns: its thread and its port.
"""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from oncelog.console.app import create_app
from oncelog.console.reading import Reader

TIMEOUT_MS = 1_000
"""How long it waits for a broker before a page says so."""
_INTERVAL_S = 0.1


@contextmanager
def serving(reader: Reader) -> Iterator[str]:
    """Its address, without a slash at the end."""
    server = uvicorn.Server(
        uvicorn.Config(
            create_app(reader, interval_s=_INTERVAL_S), log_level="error", timeout_graceful_shutdown=1, ws="none"
        )
    )
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()
