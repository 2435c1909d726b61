"""The keys of tokens over HTTP and HTTPS, from a server that does what it should not."""

import http.server
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from oncelog.broker.security.jwks import Jwks, SigningKey
from oncelog.broker.security.jwks_source import MOST_BYTES, fetch_from
from oncelog.broker.system.loop import error_of
from tests.fakes.virtual_time import VirtualTime
from tests.support.patience import PATIENCE_S
from tests.support.security.certificates import Certificates
from tests.support.security.tokens import Issuer

KEYS = Issuer().jwks()
Answer = Callable[[http.server.BaseHTTPRequestHandler], None]


class Server:
    """`answer` answers every request; `asked` has their paths."""

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self.answer: Answer = whole(json.dumps(KEYS).encode())
        self.asked: list[str] = []
        self.released = threading.Event()
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.asked.append(self.path)
                server.answer(self)

            def log_message(self, *_: Any) -> None:
                pass

        self._http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if context is not None:
            self._http.socket = context.wrap_socket(self._http.socket, server_side=True)
        scheme = "http" if context is None else "https"
        self.url = f"{scheme}://localhost:{self._http.server_address[1]}/keys"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,))
        self._thread.start()

    def close(self) -> None:
        self.released.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


def whole(data: bytes, status: int = 200, **headers: str) -> Answer:
    def answer(handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **headers}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(data)

    return answer


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.close()


def test_the_keys_are_what_the_server_sends(server: Server) -> None:
    assert json.loads(fetch_from(server.url)()) == KEYS


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(server: Server, status: int) -> None:
    """Not even to the same server, and not to a file."""
    for target in ("/others", "file:///etc/passwd"):
        server.answer = whole(b"", status, Location=target)
        with pytest.raises(OSError, match=str(status)):
            fetch_from(server.url)()
    assert server.asked == ["/keys", "/keys"]


@pytest.mark.parametrize("status", [401, 404, 500])
def test_an_error_is_no_set_of_keys_though_its_body_is_one(server: Server, status: int) -> None:
    server.answer = whole(json.dumps(KEYS).encode(), status)
    with pytest.raises(OSError, match=str(status)):
        fetch_from(server.url)()


def test_no_more_is_read_of_a_huge_body_than_its_bound(server: Server) -> None:
    def endless(handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        try:
            while True:
                handler.wfile.write(b" " * 65_536)
                sent.append(65_536)
        except OSError:
            gone.set()

    sent: list[int] = []
    gone = threading.Event()
    server.answer = endless
    with pytest.raises(OSError, match=f"more than {MOST_BYTES} bytes"):
        fetch_from(server.url)()
    assert gone.wait(PATIENCE_S), "the connection stays open"
    assert sum(sent) < 20 * MOST_BYTES  # what the buffers of the two sockets hold is beyond our bound


@pytest.mark.parametrize("kept_back", ["everything", "half a head", "half a body", "the end", "headers one by one"])
def test_a_slow_server_holds_the_thread_no_longer_than_the_bound(server: Server, kept_back: str) -> None:
    """A limit for each read of the socket would be met by a byte now and then."""

    def slow(handler: http.server.BaseHTTPRequestHandler) -> None:
        parts = {
            "everything": b"",
            "half a head": b"HTTP/1.1 200 OK\r\nContent-",
            "half a body": b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{",
            "the end": b"HTTP/1.1 200 OK\r\n\r\n" + json.dumps(KEYS).encode(),
            "headers one by one": b"HTTP/1.1 200 OK\r\n",
        }
        handler.wfile.write(parts[kept_back])
        try:
            while kept_back == "headers one by one" and not server.released.wait(0.02):
                handler.wfile.write(b"X: y\r\n")
        except OSError:
            return
        server.released.wait(PATIENCE_S)

    server.answer = slow
    with pytest.raises(OSError, match=r"no whole response within 0\.2 s"):
        fetch_from(server.url, 0.2)()


def test_https_needs_a_certificate_that_the_system_knows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificates = Certificates(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.issued("keys", "localhost"))
    server = Server(context)
    try:
        with pytest.raises(OSError, match="CERTIFICATE_VERIFY_FAILED"):
            fetch_from(server.url)()
        monkeypatch.setenv("SSL_CERT_FILE", certificates.authority_path)
        assert json.loads(fetch_from(server.url)()) == KEYS
        with pytest.raises(OSError, match="CERTIFICATE_VERIFY_FAILED"):
            fetch_from(server.url.replace("localhost", "127.0.0.1"))()
    finally:
        server.close()


def test_a_file_has_the_same_bound(tmp_path: Path) -> None:
    path = tmp_path / "keys of the issuer.json"
    path.write_text(json.dumps(KEYS))
    assert json.loads(fetch_from(path.as_uri())()) == KEYS
    path.write_bytes(b" " * (MOST_BYTES + 1))
    with pytest.raises(OSError, match="more than"):
        fetch_from(path.as_uri())()
    with pytest.raises(FileNotFoundError):
        fetch_from((tmp_path / "missing").as_uri())()


@pytest.mark.parametrize(
    "url",
    [
        "",
        "keys.json",
        "/etc/keys.json",
        "http://issuer.example/keys",
        "http://localhost@issuer.example/keys",
        "http://localhost.issuer.example/keys",
        "http://127.0.0.1.issuer.example/keys",
        "http://10.0.0.1/keys",
        "http:///keys",
        "https:///keys",
        "ftp://issuer.example/keys",
        "data:application/json,{}",
        "file://host/etc/keys",
        "file://localhost/etc/keys",
    ],
)
def test_keys_come_from_no_url_that_others_can_change(url: str) -> None:
    with pytest.raises(ValueError, match="of the form"):
        fetch_from(url)


class Log:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def warning(self, event: str, **facts: Any) -> None:
        self.lines.append(f"{event} {facts}")


class Beside(VirtualTime):
    """Hands on any error, as the broker's own scheduler does."""

    def run_beside(self, function: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        self.call_soon(lambda: done(error_of(function)))


class Known:
    """Keys from this server, in virtual time."""

    def __init__(self, url: str) -> None:
        self.time = Beside(0)
        self.log = Log()
        self._jwks = Jwks(fetch_from(url), 3_600_000, self.time, self.time, self.log)

    def has(self, key_id: str) -> bool:
        found = self._jwks.find(key_id)
        if found is not None and not isinstance(found, SigningKey):
            self.time.settle()
            found = found.result()
        return found is not None


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"keys": 1}', b"[" * 100_000, b"\xff\xfe", b'{"keys": [1]}'])
def test_what_is_no_set_of_keys_leaves_those_that_are_known(server: Server, body: bytes) -> None:
    known = Known(server.url)
    assert known.has("one")
    server.answer = whole(body)
    known.time.advance(60_000)
    assert not known.has("three")
    assert known.has("one") is (body != b'{"keys": [1]}'), "a set without keys that can be used takes all away"
    assert len(known.log.lines) == (0 if body == b'{"keys": [1]}' else 1)


def test_new_keys_are_found_with_one_request_a_minute_whatever_is_asked_for(server: Server) -> None:
    known = Known(server.url)
    assert known.has("one")
    new = {**KEYS["keys"][0], "kid": "three"}
    server.answer = whole(json.dumps({"keys": [new]}).encode())
    for number in range(50):
        assert not known.has(f"unknown {number}") and not known.has("three")
    assert len(server.asked) == 1
    known.time.advance(60_000)
    assert known.has("three") and not known.has("one")
    for number in range(50):
        assert not known.has(f"unknown {number}")
    assert len(server.asked) == 2


def test_a_server_that_fails_is_asked_again_after_a_minute_and_no_sooner(server: Server) -> None:
    known = Known(server.url)
    server.answer = whole(b"", 503)
    for _ in range(20):
        assert not known.has("one")
    assert len(server.asked) == len(known.log.lines) == 1
    server.answer = whole(json.dumps(KEYS).encode())
    known.time.advance(60_000)
    assert known.has("one")
