"""Fault injection over HTTP, on loopback alone.

Owns: who has access. Does not own: HTTP (`http`), what a path does (`routes`).
Invariant: only this machine has access: the address is loopback, and the Host header must name it, so that no web page
reaches it under its own name (DNS rebinding). A request that changes something must be declared as JSON, and an Origin
of another site is rejected: a browser's preflight request fails.
"""

import re
from collections.abc import Mapping

from oncelog.broker.admin.http import HttpServer
from oncelog.broker.admin.messages import HttpError
from oncelog.broker.admin.routes import Routes
from oncelog.broker.config.admin_address import is_admin_host
from oncelog.broker.faults.faults import Faults

_JSON = b"application/json"
_PORT = re.compile(r":[0-9]*\Z")


def admin_server(faults: Faults) -> HttpServer:
    """Not started yet."""
    return HttpServer(Routes(faults).serve, check_access, faults.events)


def check_access(method: str, headers: Mapping[bytes, bytes]) -> None:
    """Raises HttpError."""
    host = headers.get(b"host", b"")
    name = _PORT.sub("", host.decode("latin-1")).removeprefix("[").removesuffix("]")
    if name != "localhost" and not is_admin_host(name):
        raise HttpError(403, "the Host header does not name this machine")
    if headers.get(b"origin") not in (None, b"http://" + host):
        raise HttpError(403, "web pages of other sites are not served")
    media_type = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if method not in ("GET", "HEAD") and media_type != _JSON:
        raise HttpError(415, "send Content-Type: application/json")
