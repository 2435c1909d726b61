"""`oncelog user`: the first users, in the directory of a broker that does not run."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from oncelog.cli import main
from oncelog.testing import Broker
from tests.support.hostile import HOSTILE
from tests.support.secure_clients import ROUND_TRIPS, Security


def run(directory: Path, *arguments: str, password: str | None = None) -> Result:
    text = None if password is None else f"{password}\n"
    return CliRunner().invoke(main, ["user", *arguments, "--data-dir", str(directory)], input=text)


def users(directory: Path) -> list[tuple[str, str, int]]:
    rows = json.loads(run(directory, "list", "--json").stdout)
    return [(row["user"], row["mechanism"], row["iterations"]) for row in rows]


def test_a_user_of_an_empty_directory_logs_in_at_the_first_start(tmp_path: Path) -> None:
    assert run(tmp_path / "data", "add", "alice", password="first secret").exit_code == 0
    listener = {"listeners": "SASL_PLAINTEXT://127.0.0.1:0", "sasl.enabled.mechanisms": "SCRAM-SHA-512"}
    with Broker(storage=tmp_path / "data", config=listener) as broker:
        security = Security("SASL_PLAINTEXT", "", "", "SCRAM-SHA-512", "alice", "first secret")
        assert ROUND_TRIPS["confluent-kafka"](broker.bootstrap_servers, security, b"v") == b"v"
        refused = run(tmp_path / "data", "add", "bob", password="secret")
    assert refused.exit_code == 2
    assert "kafka-configs.sh" in refused.stderr
    assert users(tmp_path / "data") == [("alice", "SCRAM-SHA-512", 8_192)]


def test_users_are_changed_listed_and_removed(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    run(directory, "add", "alice", "--mechanism", "SCRAM-SHA-256", "--iterations", "4096", password="a")
    run(directory, "add", "alice", password="b")
    run(directory, "add", "alice", "--iterations", "16384", password="c")
    run(directory, "add", "bob", password="d")
    assert users(directory) == [
        ("alice", "SCRAM-SHA-256", 4_096),
        ("alice", "SCRAM-SHA-512", 16_384),
        ("bob", "SCRAM-SHA-512", 8_192),
    ]
    assert run(directory, "remove", "alice", "--mechanism", "SCRAM-SHA-256").exit_code == 0
    assert run(directory, "remove", "bob").exit_code == 0
    assert users(directory) == [("alice", "SCRAM-SHA-512", 16_384)]
    missing = run(directory, "remove", "bob")
    assert (missing.exit_code, "oncelog user list" in missing.stderr) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "password", "problem"),
    [
        (("add", ""), "x", "a name has"),
        (("add", "alice"), "", "at least one character"),
        (("add", "alice", "--iterations", "4095"), "x", "4096<=x<=16384"),
        (("add", "alice", "--mechanism", "PLAIN"), "x", "PLAIN"),
    ],
)
def test_what_cannot_be_a_user_is_refused(
    tmp_path: Path, arguments: tuple[str, ...], password: str, problem: str
) -> None:
    refused = run(tmp_path / "data", *arguments, password=password)
    assert refused.exit_code == 2
    assert problem in refused.stderr


def test_a_directory_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "photo.jpg").write_bytes(b"")
    assert run(tmp_path, "add", "alice", password="x").exit_code == 2
    assert [path.name for path in tmp_path.iterdir() if path.name != ".lock"] == ["photo.jpg"]


def test_names_that_would_steer_a_terminal_are_shown_and_never_interpreted(tmp_path: Path) -> None:
    names = list(HOSTILE.values())
    for name in names[:3]:
        assert run(tmp_path / "data", "add", name, password="x").exit_code == 0
    shown = run(tmp_path / "data", "list").stdout
    assert len(shown.splitlines()) == 1 + len(names[:3])
    assert "\x1b" not in shown


def test_files_are_for_the_user_of_the_broker_only(tmp_path: Path) -> None:
    """0600 and 0700: the keys of users are in them."""
    run(tmp_path / "data", "add", "alice", password="x")
    for path in (tmp_path / "data", *(tmp_path / "data").rglob("*")):
        assert path.stat().st_mode & 0o077 == 0
