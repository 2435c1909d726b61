"""Who may ask an HTTP port, and which file may hold its token."""

import os
from pathlib import Path

import pytest

from oncelog.broker.admin.access import Access
from oncelog.broker.admin.messages import HttpError
from oncelog.broker.admin.routes import _ROUTES
from oncelog.broker.admin.token import Token, TokenError, read_token
from oncelog.broker.config.admin_address import check_tokens, parse_http_address
from oncelog.broker.security.principal import ANONYMOUS, Principal

SECRET = b"0123456789abcdef-secret"
LOCAL, BEYOND = "127.0.0.1:9644", "0.0.0.0:9644"


def access(address: str = LOCAL, *, token: bytes | None = SECRET, read_only: bool = False) -> Access:
    held = None if token is None else Token(token)
    return Access("admin", parse_http_address(address), held, ["broker.example"], read_only=read_only)


def asked(guard: Access, *headers: str, target: str = "/faults", method: str = "GET") -> int:
    """The status of the refusal; 200: there is none."""
    pairs = [header.partition(": ") for header in headers]
    try:
        guard.check(method, target.encode(), [(name.lower().encode(), value.encode()) for name, _, value in pairs])
    except HttpError as error:
        assert SECRET.decode() not in str(error)
        return error.status
    return 200


EVERY_ROUTE = [
    *((method, "/" + "/".join(each.replace("*", "7") for each in pattern)) for method, pattern, _ in _ROUTES),
    ("GET", "/metrics"),
    ("GET", "/witness"),
    ("GET", "/share-groups/7"),
]
HOST, GOOD = "Host: localhost:9644", f"Authorization: Bearer {SECRET.decode()}"


@pytest.mark.parametrize(
    ("authorization", "status"),
    [
        (GOOD, 200),
        (GOOD.replace("Bearer", "bearer"), 200),
        ("Authorization: Bearer wrong", 401),
        ("Authorization: Bearer ", 401),
        ("Authorization: Bearer", 401),
        ("Authorization: ", 401),
        (f"Authorization: {SECRET.decode()}", 401),
        (GOOD.replace("Bearer", "Basic"), 401),
        (GOOD + "x", 401),
        (GOOD[:-1], 401),
        (GOOD + " x", 401),
        ("X-Authorization: " + SECRET.decode(), 401),
    ],
)
def test_only_the_whole_token_in_its_header_opens_the_port(authorization: str, status: int) -> None:
    assert asked(access(), HOST, authorization) == status


def test_the_principal_is_that_of_the_token_and_anonymous_without_one() -> None:
    headers = [(b"host", b"localhost"), (b"authorization", b"Bearer " + SECRET)]
    assert access().check("GET", b"/faults", headers) == Principal("Token", "admin")
    assert access(token=None).check("GET", b"/faults", headers) == ANONYMOUS


@pytest.mark.parametrize("header", [GOOD, HOST, "Origin: http://localhost:9644"])
def test_a_header_that_decides_access_may_occur_only_once(header: str) -> None:
    headers = [HOST, GOOD, "Origin: http://localhost:9644"]
    assert asked(access(), *headers) == 200
    assert asked(access(), *headers, header) == 400


@pytest.mark.parametrize("query", ["token=x", "access_token=x", "a=1&TOKEN=x", f"token={SECRET.decode()}", "token"])
def test_a_token_in_an_address_is_refused_even_beside_the_right_one(query: str) -> None:
    assert asked(access(), HOST, GOOD, target=f"/faults?{query}") == 400


@pytest.mark.parametrize("target", ["/healthz", "/readyz", "/healthz?verbose=1"])
def test_an_orchestrator_needs_no_token(target: str) -> None:
    assert asked(access(), HOST, target=target) == 200
    assert asked(access(), "Host: rebound.example", target=target) == 403


@pytest.mark.parametrize("target", ["/healthz/", "//healthz", "/healthz/../faults", "/%68ealthz", "/faults", "/"])
def test_every_other_path_needs_a_token(target: str) -> None:
    assert asked(access(), HOST, target=target) == 401


@pytest.mark.parametrize("target", ["http://localhost/healthz", "*", "", "healthz"])
def test_a_request_names_a_path(target: str) -> None:
    assert asked(access(), HOST, GOOD, target=target) == 400


@pytest.mark.parametrize(
    ("host", "of_local", "of_beyond"),
    [
        ("localhost", 200, 200),
        ("LOCALHOST:1", 200, 200),
        ("127.0.0.1:9644", 200, 200),
        ("[::1]:9644", 200, 200),
        ("broker.example:9644", 200, 200),
        ("192.0.2.1:9644", 403, 200),
        ("[2001:db8::1]", 403, 200),
        ("rebound.example", 403, 403),
        ("127.0.0.1.rebound.example", 403, 403),
        ("x.localhost", 403, 403),
        ("broker.example.rebound.example", 403, 403),
        ("localhost@rebound.example", 403, 403),
        ("", 403, 403),
    ],
)
def test_the_host_header_names_this_machine_though_the_token_is_right(host: str, of_local: int, of_beyond: int) -> None:
    assert asked(access(), f"Host: {host}", GOOD) == of_local
    assert asked(access(BEYOND), f"Host: {host}", GOOD) == of_beyond


@pytest.mark.parametrize(
    ("address", "origin", "status"),
    [
        (LOCAL, "http://localhost:9644", 200),
        (LOCAL, "https://localhost:9644", 403),
        (LOCAL, "http://localhost:9645", 403),
        (LOCAL, "http://elsewhere.example", 403),
        (LOCAL, "null", 403),
        (f"https://{LOCAL}", "https://localhost:9644", 200),
        (f"https://{LOCAL}", "http://localhost:9644", 403),
    ],
)
def test_a_page_of_another_site_is_refused(address: str, origin: str, status: int) -> None:
    assert asked(access(address), HOST, GOOD, f"Origin: {origin}") == status


@pytest.mark.parametrize(
    ("site", "status"), [("none", 200), ("same-origin", 200), ("same-site", 403), ("cross-site", 403)]
)
def test_a_request_that_a_browser_calls_another_sites_is_refused(site: str, status: int) -> None:
    """An image or a form of another page, which has no Origin."""
    assert asked(access(token=None), HOST, f"Sec-Fetch-Site: {site}") == status


@pytest.mark.parametrize(("method", "path"), EVERY_ROUTE)
def test_every_route_checks_token_host_and_site(method: str, path: str) -> None:
    json = "Content-Type: application/json"
    assert asked(access(), HOST, GOOD, json, method=method, target=path) == 200
    assert asked(access(), HOST, json, method=method, target=path) == 401
    assert asked(access(), "Host: rebound.example", GOOD, json, method=method, target=path) == 403
    assert asked(access(), HOST, GOOD, json, "Origin: http://rebound.example", method=method, target=path) == 403


def test_a_change_is_declared_as_json_and_a_port_for_reading_takes_none() -> None:
    json = "Content-Type: application/json; charset=utf-8"
    assert asked(access(), HOST, GOOD, json, method="POST") == 200
    assert asked(access(), HOST, GOOD, method="POST") == 415
    assert asked(access(), HOST, GOOD, "Content-Type: text/plain", method="DELETE") == 415
    assert asked(access(read_only=True), HOST, GOOD, json, method="POST") == 405
    assert asked(access(), HOST, json, method="POST") == 401


def test_the_token_is_compared_by_hmac_and_shown_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []
    monkeypatch.setattr("hmac.compare_digest", lambda *pair: compared.append(pair) or False)
    token = Token(SECRET)
    assert not token.is_in(b"Bearer " + SECRET)
    assert compared == [(SECRET, SECRET)]
    assert "secret" not in repr(token)


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o640, 0o604, 0o660, 0o620])
def test_the_file_of_a_token_is_for_one_user(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "token"
    path.write_bytes(SECRET + b"\n")
    os.chmod(path, mode)
    if mode in (0o600, 0o400):
        assert read_token(str(path)).is_in(b"Bearer " + SECRET)
    else:
        with pytest.raises(TokenError, match=f"chmod 600 {path}"):
            read_token(str(path))


@pytest.mark.parametrize("text", ["", "short", "two words 0123456789", "x" * 600, "0123456789abcdef\nsecond", "ä" * 20])
def test_a_file_without_a_usable_token_is_refused_and_not_quoted(tmp_path: Path, text: str) -> None:
    path = tmp_path / "token"
    path.touch(0o600)
    path.write_text(text, encoding="utf-8")
    with pytest.raises(TokenError, match="at least 16 letters") as raised:
        read_token(str(path))
    assert not text or text not in str(raised.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(TokenError, match="token: No such file"):
        read_token(str(tmp_path / "token"))


@pytest.mark.parametrize(
    ("port", "address", "has_authorizer", "is_needed"),
    [
        ("admin", LOCAL, False, False),
        ("admin", LOCAL, True, True),
        ("admin", BEYOND, False, True),
        ("admin", BEYOND, True, True),
        ("metrics", LOCAL, False, False),
        ("metrics", LOCAL, True, False),
        ("metrics", BEYOND, False, False),
        ("metrics", BEYOND, True, True),
        ("metrics", ":9404", True, True),
        ("admin", "broker.example:9644", False, True),
    ],
)
def test_which_ports_must_have_a_token(port: str, address: str, has_authorizer: bool, is_needed: bool) -> None:
    settings = {f"oncelog.{port}.listen": address, "authorizer.class.name": "x" if has_authorizer else ""}
    if is_needed:
        with pytest.raises(ValueError, match=rf"set oncelog\.{port}\.token\.file to a file"):
            check_tokens(settings.get)
    else:
        check_tokens(settings.get)
    check_tokens({**settings, f"oncelog.{port}.token.file": "some"}.get)
