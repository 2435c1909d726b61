"""An HTTP port that outlives the brokers that a process is, one after the other.

Owns: which broker answers, and what is answered while there is none: a process that takes over is alive, and must not
be ended for its silence. Does not own: HTTP (`http`), the paths of a broker (`metrics_routes`).
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from oncelog.broker.admin.messages import AdminRequest, HttpError, Response

if TYPE_CHECKING:
    from oncelog.broker.admin.http import HttpServer


class KeptPort:
    def __init__(self, reason: Callable[[], str | None]) -> None:
        """`reason` says why no broker answers."""
        self._reason = reason
        self._server: "HttpServer | None" = None
        self._bound = ("", 0)

    async def start(self, server: "HttpServer", host: str, port: int) -> tuple[str, int]:
        """Let a broker's server answer, which listens only if it is the first; return the address. Raises OSError."""
        if self._server is None:
            self._bound = await server.start(host, port)
            self._server = server
        else:
            self._server.answer_as(server)
        return self._bound

    async def release(self) -> None:
        """That broker ends."""
        if self._server is not None:
            self._server.serve = self._serve

    async def _serve(self, request: AdminRequest) -> Response:
        match request.path:
            case ("healthz",):
                return Response(200, {"status": "alive"})
            case ("readyz",):
                return Response(503, {"status": "not ready", "reason": self._reason() or "it begins"})
        raise HttpError(503, "no broker serves at this moment: it begins to lead, or to stand by")

    async def close(self) -> None:
        if self._server is not None:
            await self._server.close()
