"""`oncelog user`: the first users, in the directory of a broker that does not run, and those of one that does."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from oncelog.cli import main
from oncelog.testing import Broker
from tests.support.requests.hostile import HOSTILE
from tests.support.security.secure_clients import ROUND_TRIPS, Security


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
    assert "--bootstrap HOST:PORT" in refused.stderr
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


CONVERSATION: tuple[tuple[tuple[str, ...], str | None, int], ...] = (
    (("add", "alice", "--mechanism", "SCRAM-SHA-256", "--iterations", "4096"), "a", 0),
    (("add", "alice", "--json"), "b", 0),
    (("add", "bob", "--iterations", "16384"), "c", 0),
    (("add", "carol"), "", 2),
    (("list",), None, 0),
    (("list", "--json"), None, 0),
    (("remove", "alice", "--mechanism", "SCRAM-SHA-256"), None, 0),
    (("remove", "alice", "--mechanism", "SCRAM-SHA-256"), None, 2),
    (("remove", "bob", "--json"), None, 0),
    (("remove", "nobody"), None, 2),
    (("remove", ""), None, 2),
    (("remove", "alice"), None, 0),
    (("list",), None, 0),
)
"""Arguments, the password, and the exit code."""


def test_a_running_broker_and_a_directory_are_asked_and_answer_alike(tmp_path: Path) -> None:
    def said(*place: str) -> list[tuple[str, str, int]]:
        results = [
            CliRunner().invoke(main, ["user", *arguments, *place], input=f"{password or ''}\n")
            for arguments, password, _ in CONVERSATION
        ]
        assert [each.exit_code for each in results] == [code for _, _, code in CONVERSATION]
        return [(each.stdout, each.stderr, each.exit_code) for each in results]

    in_directory = said("--data-dir", str(tmp_path / "data"))
    with Broker() as broker:
        assert said("--bootstrap", broker.bootstrap_servers) == in_directory


def test_users_that_an_administrator_adds_can_log_in_at_once(tmp_path: Path) -> None:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    settings = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{module} user_admin="admin secret";',
    }
    (tmp_path / "password").write_text("from a file\nsecond line\n")
    (tmp_path / "admin.properties").write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={module} username="admin" password="admin secret";\n'
    )
    with Broker(storage="memory", config=settings) as broker:
        place = ("--bootstrap", broker.bootstrap_servers, "--command-config", str(tmp_path / "admin.properties"))
        added = CliRunner().invoke(
            main, ["user", "add", "alice", "--password-file", str(tmp_path / "password"), *place]
        )
        assert added.exit_code == 0, added.output
        security = Security("SASL_PLAINTEXT", "", "", "SCRAM-SHA-512", "alice", "from a file")
        assert ROUND_TRIPS["confluent-kafka"](broker.bootstrap_servers, security, b"v") == b"v"


def test_a_cluster_or_a_directory_and_not_both(tmp_path: Path) -> None:
    refused = run(tmp_path, "list", "--bootstrap", "127.0.0.1:1")
    assert (refused.exit_code, "or the --data-dir" in refused.stderr) == (2, True)


@pytest.mark.parametrize("options", [(), ("--password-file", "wrong")], ids=["standard input", "file"])
def test_a_password_that_is_not_text_is_refused_and_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    wrong = b"hunter\xff2\n"
    Path("wrong").write_bytes(wrong)
    refused = CliRunner().invoke(main, ["user", "add", "alice", "--data-dir", "data", *options], input=wrong)
    assert (refused.exit_code, refused.stderr) == (2, "oncelog: a password must be UTF-8\n")


@pytest.mark.parametrize(
    ("arguments", "password", "problem"),
    [
        (("add", ""), "x", "a name must have"),
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
