"""Which hosts stand for this machine, and which of them the admin's door takes."""

import pytest

from oncelog.broker.config.admin_address import is_admin_host, parse_admin_address
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
    assert parse_admin_address(f"[{host}]:9644") == (host, 9644)


@pytest.mark.parametrize("host", [*NAMES, *MAPPED, *WITH_ZONE, *ELSEWHERE])
def test_the_admin_takes_no_other_form(host: str) -> None:
    """Neither to listen on, nor in a Host header; but `localhost` as such, which both know by themselves."""
    assert not is_admin_host(host)
    if host != "localhost":
        with pytest.raises(ValueError, match="must be on this machine"):
            parse_admin_address(f"[{host}]:9644")


def test_localhost_is_a_number_for_the_admin() -> None:
    assert parse_admin_address("localhost:0") == ("127.0.0.1", 0)
