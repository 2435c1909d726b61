"""Listeners: which are opened, on which address, and which address clients get."""

from pathlib import Path

import pytest

from oncelog.broker.config.listeners import ListenerConfig, SecurityProtocol
from oncelog.broker.config.settings import ConfigError, load_config


def _listeners(*overrides: str, listen: str | None = None) -> list[tuple[str, str, int, str, int]]:
    cli = {} if listen is None else {"listeners": listen}
    config, _ = load_config(overrides=overrides, cli=cli, host_name=lambda: "box")
    return [_flat(listener) for listener in config.listeners]


def _flat(listener: ListenerConfig) -> tuple[str, str, int, str, int]:
    return listener.name, listener.host, listener.port, listener.advertised_host, listener.advertised_port


@pytest.mark.parametrize(
    ("listen", "expected"),
    [
        ("127.0.0.1:0", ("PLAINTEXT", "127.0.0.1", 0, "127.0.0.1", 0)),
        (":9092", ("PLAINTEXT", "", 9092, "box", 9092)),
        ("0.0.0.0:9092", ("PLAINTEXT", "0.0.0.0", 9092, "box", 9092)),
        ("[::1]:9092", ("PLAINTEXT", "::1", 9092, "::1", 9092)),
        ("[::]:9092", ("PLAINTEXT", "::", 9092, "box", 9092)),
        ("PLAINTEXT://localhost:9092", ("PLAINTEXT", "localhost", 9092, "localhost", 9092)),
    ],
)
def test_listen_takes_an_address_as_people_type_it(listen: str, expected: tuple[str, str, int, str, int]) -> None:
    assert _listeners(listen=listen) == [expected]


def test_advertised_listeners_alone_listen_everywhere_as_in_the_kafka_image() -> None:
    listeners = _listeners("advertised.listeners=PLAINTEXT://kafka.example:9092")
    assert listeners == [("PLAINTEXT", "0.0.0.0", 9092, "kafka.example", 9092)]


def test_a_listener_may_be_advertised_under_another_port() -> None:
    listeners = _listeners("listeners=PLAINTEXT://:9092", "advertised.listeners=PLAINTEXT://proxy:19092")
    assert listeners == [("PLAINTEXT", "", 9092, "proxy", 19092)]


@pytest.mark.parametrize(
    ("overrides", "problem"),
    [
        (["listeners=localhost"], "NAME://HOST:PORT"),
        (["listeners=localhost:9092"], "NAME://HOST:PORT"),
        (["listeners=PLAINTEXT://localhost:99999"], "NAME://HOST:PORT"),
        (["listeners=PLAINTEXT://a:1,PLAINTEXT://b:2"], "two listeners named PLAINTEXT"),
        (["listeners=PLAINTEXT://:1,B://:1", "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,B:PLAINTEXT"], "same"),
        (["listeners=INTERNAL://:9092"], "INTERNAL:PLAINTEXT"),
        (["listeners=X://:1", "listener.security.protocol.map=X:TLS"], "is configured as TLS"),
        (["listeners=X://:1", "listener.security.protocol.map=X"], "NAME:PROTOCOL"),
        (["listeners="], "names no listener"),
        (["listeners=C://:9093", "controller.listener.names=C"], "names no listener"),
        (["listeners=PLAINTEXT://:9092", "advertised.listeners=OTHER://a:1"], "must be the same"),
        (["listeners=PLAINTEXT://:9092", "advertised.listeners=PLAINTEXT://0.0.0.0:9092"], "cannot be 0.0.0.0"),
        (["listeners=PLAINTEXT://:9092", "advertised.listeners=PLAINTEXT://:9092"], "cannot be an empty host"),
    ],
)
def test_a_listener_that_cannot_be_is_refused_with_what_to_write(overrides: list[str], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        _listeners(*overrides)


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, [("PLAINTEXT", "", 9092, "localhost", 9092)]),
        ({"KAFKA_ADVERTISED_LISTENERS": "A://x:1"}, [("A", "0.0.0.0", 1, "x", 1)]),
        ({"KAFKA_LISTENERS": "A://y:2"}, [("A", "y", 2, "y", 2)]),
        ({"KAFKA_LISTENERS": "PLAINTEXT://:2"}, [("PLAINTEXT", "", 2, "localhost", 9092)]),
    ],
)
def test_a_variable_for_one_side_works_over_a_file_that_has_both(
    tmp_path: Path, variables: dict[str, str], expected: list[tuple[str, str, int, str, int]]
) -> None:
    file = tmp_path / "server.properties"
    file.write_text("listeners=PLAINTEXT://:9092\nadvertised.listeners=PLAINTEXT://localhost:9092\n")
    names = {"KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "A:PLAINTEXT,PLAINTEXT:PLAINTEXT"}
    config, _ = load_config(file=file, environ={**variables, **names})
    assert [_flat(listener) for listener in config.listeners] == expected


def test_a_secure_controller_listener_is_not_opened_and_not_refused() -> None:
    listeners = _listeners(
        "listeners=PLAINTEXT://:9092,CONTROLLER://:9093",
        "controller.listener.names=CONTROLLER",
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:SSL",
    )
    assert [listener[0] for listener in listeners] == ["PLAINTEXT"]


@pytest.mark.parametrize("protocol", SecurityProtocol)
def test_a_listener_has_the_protocol_of_its_name_in_the_map(protocol: SecurityProtocol) -> None:
    mapped = f"listener.security.protocol.map=OUTSIDE:{protocol.value.lower()}"
    config, _ = load_config(overrides=["listeners=OUTSIDE://:9092", mapped])
    assert [listener.protocol for listener in config.listeners] == [protocol]
