"""The command line: one clear line and the right exit code for whatever keeps the daemon from starting."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from oncelog.cli import main


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--override", "num.partitons=3"], "the nearest name is num.partitions"),
        (["--override", "num.partitions=many"], "Not a number of type INT"),
        (["--override", "num.partitions"], "key=value"),
        (["--listen", "localhost"], "NAME://HOST:PORT"),
        (["--config", "missing.properties"], "cannot read the config file missing.properties"),
        (["--data-dir", "a,b"], "2 directories"),
    ],
)
def test_wrong_settings_end_with_one_line_and_code_2(arguments: list[str], said: str) -> None:
    result = CliRunner().invoke(main, ["serve", *arguments], env={"KAFKA_LISTENERS": None})
    assert result.exit_code == 2
    assert result.stdout == ""
    assert said in result.stderr
    assert result.stderr.startswith("oncelog: ")
    assert result.stderr.count("\n") == 1


def test_a_variable_is_named_when_it_is_wrong() -> None:
    result = CliRunner().invoke(main, ["serve"], env={"KAFKA_NUM_PARTITIONS": "0"})
    assert result.exit_code == 2
    assert "KAFKA_NUM_PARTITIONS" in result.stderr


@pytest.mark.parametrize("arguments", [["--help"], ["serve", "--help"], ["demo", "isolation", "--help"]])
def test_help_is_there(arguments: list[str]) -> None:
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0
    assert "Usage:" in result.stdout


@pytest.fixture
def free_port() -> Iterator[int]:
    """A port that is bound, so that no other process gets it, and not listened on."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


def test_health_of_a_broker_that_is_not_there_is_one_line_and_code_1(free_port: int) -> None:
    result = CliRunner().invoke(main, ["health", "--bootstrap", f"127.0.0.1:{free_port}"])
    assert result.exit_code == 1
    assert result.stderr.startswith(
        f"oncelog: 127.0.0.1:{free_port} does not respond: Connection refused; start a broker"
    )
    assert result.stderr.count("\n") == 1


def test_health_refuses_what_is_no_address(tmp_path: Path) -> None:
    assert CliRunner().invoke(main, ["health", "--bootstrap", "localhost"]).exit_code == 2
