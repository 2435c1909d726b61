"""What the console refuses, and what it forbids browsers: for every response, before and after any page.

Owns: which requests are answered, and the headers of each response. Does not own: pages.

- Host must be an address, localhost, or a name from the command line: so no site of another owner, whose name leads
  to this machine, can read what is here (DNS rebinding).
- A POST must come from a page of this console: its Origin has the same host. Without an Origin it is refused, as is one
  that the browser itself calls cross-site.
- Records are written only for the person who has started the console, not for all whom a proxy or a network lets in,
  unless the command line says so.
- Content-Security-Policy: no script and no style but our own files, nothing inline, no frame, forms to us alone.
"""

from collections.abc import Collection
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # Not "no-referrer": with it browsers send a POST's Origin as "null".
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}
_CHANGES_NOTHING = frozenset(("GET", "HEAD"))


class Guard:
    """The checks before every request to the console."""

    def __init__(self, app: ASGIApp, allowed_hosts: Collection[str] = ()) -> None:
        self._app = app
        self._allowed_hosts = frozenset(each.lower() for each in allowed_hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        reason = refusal(scope["method"], Headers(scope=scope), self._allowed_hosts)
        answer: ASGIApp = self._app if reason is None else PlainTextResponse(f"{reason}\n", 403)
        await answer(scope, receive, send_guarded)


def no_writing_of(host: str, allowed_hosts: Collection[str]) -> str:
    """Return why a console that listens on this address needs --allow-produce to write records and to hold steps; empty
    if it does not. An allowed name is that of a proxy, through which other people may come."""
    if allowed_hosts:
        return "this console writes no records and holds no step: it has --allow-host, and no --allow-produce"
    if not ip_address(host.partition("%")[0]).is_loopback:
        return "this console writes no records and holds no step: others reach it, and it has no --allow-produce"
    return ""


def refusal(method: str, headers: Headers, allowed_hosts: Collection[str] = ()) -> str | None:
    """Return why a request is refused; None if it is not."""
    hosts = headers.getlist("host")
    if len(hosts) != 1 or not _is_ours(hosts[0], allowed_hosts):
        return "this console answers to localhost, to addresses, and to names given with --allow-host"
    if method in _CHANGES_NOTHING:
        return None
    origins = headers.getlist("origin")
    if len(origins) != 1 or urlsplit(origins[0]).netloc.lower() != hosts[0].lower():
        return "the request does not come from a page of this console: its Origin is another"
    if headers.get("sec-fetch-site", "same-origin") != "same-origin":
        return "the request comes from another site"
    return None


def _is_ours(host: str, allowed_hosts: Collection[str]) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:  # [ without ]
        return False
    if name == "localhost" or name in allowed_hosts:
        return True
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
