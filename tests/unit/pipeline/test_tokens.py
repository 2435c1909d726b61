"""Tokens from an endpoint and from a file: asked for each time, and no secret goes elsewhere."""

import asyncio
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import parse_qs

import pytest

from oncelog.client import AuthenticationFailed
from oncelog.client.wire.sasl import TokenLogins
from oncelog.pipeline.tokens import TokenEndpoint, TokenFile, token_login


@contextmanager
def endpoint(status: int, answer: bytes) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """A server with one answer, and what was asked: the header Authorization and the body."""
    asked: list[tuple[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            asked.append((self.headers["Authorization"], body.decode()))
            self.send_response(status)
            if status == 302:
                self.send_header("Location", "/elsewhere")
            self.end_headers()
            self.wfile.write(answer)

        def do_GET(self) -> None:
            asked.append(("redirected", ""))

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/token", asked
        finally:
            server.shutdown()
            thread.join()


def test_an_endpoint_is_asked_with_the_clients_credentials_for_each_token() -> None:
    with endpoint(200, b'{"access_token": "abc"}') as (url, asked):
        provider = TokenEndpoint(url, "job", "hunter2", "read write")
        assert [asyncio.run(provider()), asyncio.run(provider())] == ["abc", "abc"]
    (login, body), again = asked
    assert again == (login, body)
    assert b64decode(login.removeprefix("Basic ")) == b"job:hunter2"
    assert parse_qs(body) == {"grant_type": ["client_credentials"], "scope": ["read write"]}


@pytest.mark.parametrize(
    ("status", "answer", "sentence"),
    [
        (401, b"hunter2", "answered 401"),
        (302, b"", "answered 302"),
        (200, b'{"token": "hunter2"}', "answered without an access_token"),
        (200, b"hunter2", "answered without an access_token"),
    ],
)
def test_what_the_endpoint_does_not_give_is_said_without_a_secret(status: int, answer: bytes, sentence: str) -> None:
    with endpoint(status, answer) as (url, asked), pytest.raises(AuthenticationFailed, match=sentence) as raised:
        asyncio.run(TokenEndpoint(url, "job", "hunter2")())
    assert "hunter2" not in str(raised.value)
    assert len(asked) == 1


def test_an_endpoint_that_is_not_there_is_named() -> None:
    with pytest.raises(AuthenticationFailed, match=r"http://127\.0\.0\.1:1/token cannot be asked"):
        asyncio.run(TokenEndpoint("http://127.0.0.1:1/token", "job", "hunter2")())


def test_a_file_is_read_for_each_token(tmp_path: Path) -> None:
    path = tmp_path / "a token"
    login = token_login({"sasl_oauthbearer_token_endpoint_url": path.as_uri()}, None)
    provider = login["sasl_oauth_token_provider"]
    assert provider == TokenFile(str(path))
    for token in ("abc", "def"):
        path.write_text(f"{token}\n")
        assert asyncio.run(TokenFile(str(path))()) == token
    path.write_bytes(b"\xff")
    with pytest.raises(AuthenticationFailed, match="has more than ASCII"):
        asyncio.run(TokenFile(str(path))())
    path.unlink()
    with pytest.raises(AuthenticationFailed, match="a token': No such file or directory"):
        asyncio.run(TokenLogins(TokenFile(str(path)), {}).new())


def test_extensions_in_the_line_of_jaas_are_passed_on() -> None:
    line = "a.OAuthBearerLoginModule required clientId=job clientSecret=hunter2 extension_logicalCluster=lkc-1;"
    login = token_login({"sasl_oauthbearer_token_endpoint_url": "https://issuer.example/token"}, line)
    assert login["sasl_oauth_extensions"] == {"logicalCluster": "lkc-1"}


def test_an_endpoint_may_want_the_credentials_encoded() -> None:
    login = token_login(
        {
            "sasl_oauthbearer_token_endpoint_url": "https://issuer.example/token",
            "sasl_oauthbearer_client_credentials_client_id": "a:b",
            "sasl_oauthbearer_client_credentials_client_secret": "c+d",
            "sasl_oauthbearer_header_urlencode": True,
        },
        None,
    )
    assert login["sasl_oauth_token_provider"] == TokenEndpoint("https://issuer.example/token", "a%3Ab", "c%2Bd")
