"""Which hosts stand for this machine, and which addresses of HTTP ports there are."""

import pytest

from oncelog.broker.config.admin_address import HttpAddress, is_admin_host, parse_http_address
from oncelog.broker.config.listeners import is_loopback

PLAIN = ["127.0.0.1", "127.8.9.10", "::1", "0:0:0:0:0:0:0:1", "::1%lo"]
NAMES = ["localhost", "LOCALHOST", "kafka.localhost", "Kafka.LocalHost"]
MAPPED = ["::ffff:127.0.0.1", "::FFFF:7f00:1", "::ffff:127.0.0.1%lo"]
WITH_ZONE = ["127.0.0.1%lo"]
ELSEWHERE = ["10.0.0.1", "0.0.0.0", "::", "fe80::1%lo", "::ffff:10.0.0.1", "localhost.example", "127.0.0.1.example", ""]


@pytest.mark.parametrize("host", [*PLAIN, *NAMES, *MAPPED, *WITH_ZONE])
def test_loopback_is_known_in_each_form(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ELSEWHERE)
def test_what_is_elsewhere_is_no_loopback(host: str) -> None:
    assert not is_loopback(host)


@pytest.mark.parametrize("host", PLAIN)
def test_the_admin_listens_on_a_plain_number_of_loopback(host: str) -> None:
    assert is_admin_host(host)
    assert str(parse_http_address(f"[{host}]:9644")) in (f"{host}:9644", f"[{host}]:9644")


@pytest.mark.parametrize("host", [*NAMES, *MAPPED, *WITH_ZONE, *ELSEWHERE])
def test_no_other_form_is_this_machine(host: str) -> None:
    """Neither to listen on without a token, nor in a Host header; but `localhost` as such, which both know by
    themselves."""
    assert not is_admin_host(host)


def test_localhost_is_a_number_for_the_admin() -> None:
    """The port listens on one address of the name; a client checks the name in the certificate."""
    address = parse_http_address(" https://localhost:9644 ")
    assert address == HttpAddress("localhost", 9644, has_tls=True)
    assert (address.is_local, address.bound_host, str(address)) == (True, "127.0.0.1", "localhost:9644")


@pytest.mark.parametrize("text", ["9644", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:65536", "ftp://127.0.0.1:1", "a@b:1"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be HOST:PORT or https://HOST:PORT"):
        parse_http_address(text)
