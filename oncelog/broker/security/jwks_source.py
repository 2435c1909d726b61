"""Where the public keys of tokens come from: a URL in the settings.

Owns: which URLs, and the bounds of a fetch. Does not own: when there is one, what comes of it (`broker.security.jwks`).
Invariants
- Keys come from where the settings say, and from nowhere that a response names.
- A fetch ends after `most_s`, however slowly its server sends (after connecting, which may take as long for each of its
  addresses): the thread that waits is one of few, and a stop of the broker waits for it.
- A response has at most `MOST_BYTES`.
"""

import socket
from collections.abc import Callable
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from threading import Timer
from typing import Any
from urllib.parse import urlsplit
from urllib.request import HTTPHandler, HTTPRedirectHandler, HTTPSHandler, Request, build_opener, url2pathname

from oncelog.broker.config.listeners import is_loopback

MOST_BYTES = 1 << 20
_MOST_S = 10.0
Fetch = Callable[[], bytes]
"""Fetches keys: it blocks, and raises OSError."""


def fetch_from(url: str, most_s: float = _MOST_S) -> Fetch:
    """Raises ValueError for a URL that keys may not come from."""
    parts = urlsplit(url)
    is_safe = parts.scheme in ("https", "file") or (parts.scheme == "http" and is_loopback(parts.hostname or ""))
    if not is_safe or bool(parts.hostname) is (parts.scheme == "file"):
        raise ValueError("it must be of the form https://HOST/PATH or file:///PATH")

    def fetch() -> bytes:
        if parts.scheme == "file":
            with open(url2pathname(parts.path), "rb") as file:
                data = file.read(MOST_BYTES + 1)
        else:
            data = _fetch_over_http(url, most_s)
        if len(data) > MOST_BYTES:
            raise OSError(f"the set of keys has more than {MOST_BYTES} bytes")
        return data

    return fetch


def _fetch_over_http(url: str, most_s: float) -> bytes:
    watch = _Watch(most_s)
    opener = build_opener(_NoRedirects(), _Plain(watch), _Secure(watch))
    try:
        with opener.open(Request(url, headers={"Accept": "application/json"}), timeout=most_s) as response:
            data: bytes = response.read(MOST_BYTES + 1)
    except (OSError, HTTPException) as error:
        if watch.has_ended or isinstance(getattr(error, "reason", error), TimeoutError):
            raise TimeoutError(f"no whole response within {most_s:g} s") from error
        raise OSError(f"{type(error).__name__}: {error}") from error
    finally:
        watch.close()
    if watch.has_ended:
        raise TimeoutError(f"no whole response within {most_s:g} s")
    return data


class _Watch:
    """Ends a connection after a time. The time limit of a socket is for each of its calls alone."""

    def __init__(self, most_s: float) -> None:
        self.has_ended = False
        self._socket: socket.socket | None = None
        self._timer = Timer(most_s, self._end)
        self._timer.daemon = True
        self._timer.start()

    def connect(self, *given: Any, **named: Any) -> socket.socket:
        connected = socket.create_connection(*given, **named)
        self._socket = connected.dup()  # TLS takes the other for itself
        if self.has_ended:
            self._end()
        return connected

    def _end(self) -> None:
        self.has_ended = True
        if self._socket is not None:
            with suppress(OSError):  # the server has ended it meanwhile
                self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._timer.cancel()
        self._timer.join()
        if self._socket is not None:
            self._socket.close()


class _Plain(HTTPHandler):
    def __init__(self, watch: _Watch) -> None:
        super().__init__()
        self._watch = watch

    def http_open(self, request: Request) -> Any:
        return self.do_open(_watched(HTTPConnection, self._watch), request)


class _Secure(HTTPSHandler):
    def __init__(self, watch: _Watch) -> None:
        super().__init__()
        self._watch = watch

    def https_open(self, request: Request) -> Any:
        return self.do_open(_watched(HTTPSConnection, self._watch), request)


def _watched(kind: type[HTTPConnection], watch: _Watch) -> Any:
    def make(*given: Any, **named: Any) -> HTTPConnection:
        connection = kind(*given, **named)
        connection._create_connection = watch.connect  # type: ignore[attr-defined]
        return connection

    return make


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Follow no redirect: it is an error."""
