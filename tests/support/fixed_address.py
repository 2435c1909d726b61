"""An address that stays the same while what is behind it changes, as that of a Service in Kubernetes."""

import asyncio
import threading

from tests.support.patience import PATIENCE_S
from tests.support.silent_proxy import SilentProxy


class FixedAddress:
    """A proxy in a thread of its own. Connections that are open stay with whom they lead to."""

    def __init__(self) -> None:
        self._proxy = SilentProxy()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._proxy.__aenter__(), self._loop).result(PATIENCE_S)

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self._proxy.port}"

    def lead_to(self, bootstrap: str) -> None:
        """New connections."""
        host, _, port = bootstrap.rpartition(":")
        self._proxy.upstream = host, int(port)

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._proxy.__aexit__(), self._loop).result(PATIENCE_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_S)
        self._loop.close()
