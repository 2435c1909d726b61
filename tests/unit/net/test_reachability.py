"""Warnings for clients that will not be able to reach the advertised address."""

from typing import Any

import pytest

from oncelog.broker.net.reachability import FollowWarnings, default_gateways

GATEWAY = "172.17.0.1"


class Log:
    def __init__(self) -> None:
        self.warnings: list[dict[str, Any]] = []

    def warning(self, event: str, **values: Any) -> None:
        self.warnings.append({"event": event, **values})


def warned(host: str, peer: str, *, is_guess: bool = False, reached: str = "172.17.0.2") -> list[dict[str, Any]]:
    log = Log()
    warnings = FollowWarnings(log, lambda: frozenset([GATEWAY]))
    warnings.on_connected("OUTSIDE", (host, 9092), is_guess=is_guess, peer=peer, reached=reached)
    return log.warnings


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1", "127.0.1.1", "kafka.localhost"])
def test_a_warning_names_what_to_set_for_a_remote_client_that_gets_a_loopback_address(host: str) -> None:
    (warning,) = warned(host, "172.17.0.9")
    assert warning["event"] == "listener.not_reachable"
    assert (warning["peer"], warning["listener"]) == ("172.17.0.9", "OUTSIDE")
    assert "advertised.listeners=OUTSIDE://HOST:9092" in warning["message"]
    assert "172.17.0.2" in warning["message"]


def test_a_guessed_name_is_doubtful_for_clients_elsewhere() -> None:
    (warning,) = warned("f00ba4", GATEWAY, is_guess=True)
    assert "f00ba4" in warning["message"]
    assert not warned("broker.example", GATEWAY, is_guess=False)


@pytest.mark.parametrize(
    ("peer", "reached"),
    [("127.0.0.1", "127.0.0.1"), ("::1", "::1"), ("::ffff:127.0.0.1", "::1"), ("172.17.0.2", "172.17.0.2")],
)
@pytest.mark.parametrize("is_guess", [False, True])
def test_clients_on_the_same_machine_are_fine(peer: str, reached: str, is_guess: bool) -> None:
    assert not warned("localhost", peer, reached=reached, is_guess=is_guess)


def test_a_published_port_of_a_container_is_fine() -> None:
    """The host comes through the gateway, and for it localhost is right."""
    assert not warned("localhost", GATEWAY)


def test_each_listener_and_address_is_warned_of_once_and_not_without_end() -> None:
    log = Log()
    warnings = FollowWarnings(log, frozenset)
    for _ in range(2):
        for number in range(3_000):
            peer = f"10.0.{number // 250}.{number % 250}"
            warnings.on_connected("ONE", ("localhost", 9092), is_guess=False, peer=peer, reached="10.1.0.1")
    assert len(log.warnings) == 1_000
    assert len({warning["peer"] for warning in log.warnings}) == 1_000


def test_the_gateways_of_this_machine_are_addresses() -> None:
    assert all(gateway.count(".") == 3 for gateway in default_gateways())
