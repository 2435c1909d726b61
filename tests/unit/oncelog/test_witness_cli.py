"""`oncelog witness`: what it shows of a report, and what it says where there is none."""

import io
import json
import socket
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest
from click import unstyle
from click.testing import CliRunner, Result

from oncelog.cli import main
from oncelog.protocol.printable import printable
from oncelog.testing import Broker
from oncelog.witness import Finding, Report
from tests.support.kafka.server import free_ports
from tests.support.requests.hostile import HOSTILE, SURROGATE, require_harmless


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


FINDING = Finding(
    kind="transactional-id-shared",
    severity="wrong",
    client_id="billing",
    address="10.0.0.1:40000",
    software_name="library",
    software_version="1.2",
    topic=None,
    group=None,
    transactional_id="till",
    count=3,
    first_ms=1_700_000_000_000,
    last_ms=1_700_000_060_000,
    seen="takes the id",
    change="Give each a name.",
    docs="docs/operate/witness.md#transactional-id-shared",
)
ADVICE = replace(FINDING, severity="look", client_id="a longer name", kind="torn-transactions")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["witness", *arguments])


def reported(monkeypatch: pytest.MonkeyPatch, *findings: Finding, **forgotten: int) -> None:
    monkeypatch.setattr("oncelog.witness.ask_witness", lambda *_, **__: Report(findings, forgotten))


@pytest.fixture
def free_port() -> Iterator[int]:
    """A port that is bound, so that no other process has it, and refused."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


def test_a_row_names_the_client_the_mistake_its_count_and_what_to_change(monkeypatch: pytest.MonkeyPatch) -> None:
    reported(monkeypatch, FINDING, ADVICE)
    head, row, other = (result := run()).stdout.splitlines()
    assert result.exit_code == 1
    assert row.split()[:6] == ["wrong", "billing", "id", "till", "3", "2023-11-14T22:14:20Z"]
    assert row.endswith(
        "transactional-id-shared: library 1.2 at 10.0.0.1:40000 takes the id, since 2023-11-14T22:13:20Z. "
        "Give each a name. docs/operate/witness.md#transactional-id-shared"
    )
    assert head.index("about") == row.index("id till") == other.index("id till")


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_on_a_terminal_no_line_is_longer_than_it_is_wide(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    reported(monkeypatch, FINDING, replace(ADVICE, group="a-group-with-a-name-of-its-own"))
    monkeypatch.setenv("COLUMNS", str(columns))
    output = Terminal()
    monkeypatch.setattr(sys, "stdout", output)
    with pytest.raises(SystemExit):
        main(["witness"])
    lines = unstyle(output.getvalue()).splitlines()
    assert max(map(len, lines)) <= columns
    assert "Give each a name." in " ".join(" ".join(lines).split())


def test_advice_alone_is_no_failure_and_no_findings_are_reported_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    reported(monkeypatch, ADVICE)
    assert run().exit_code == 0
    reported(monkeypatch)
    assert (run().exit_code, run().stdout) == (0, "No client does anything wrong.\n")


def test_json_is_the_report_and_the_exit_code_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    reported(monkeypatch, FINDING, findings=2)
    result = run("--json")
    assert result.exit_code == 1
    assert Report.from_json(json.loads(result.stdout)) == Report((FINDING,), {"findings": 2})


def test_dropped_entries_are_reported_even_if_nothing_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    for findings in ((FINDING,), ()):
        reported(monkeypatch, *findings, transactional_ids=7, groups=0)
        assert "The broker has forgotten 7 transactional ids" in run().stdout


@pytest.mark.parametrize("name", [*HOSTILE.values(), SURROGATE], ids=[*HOSTILE, "lone surrogate"])
def test_names_from_clients_are_shown_and_never_obeyed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    everywhere = dict.fromkeys(("client_id", "software_name", "software_version", "topic", "group", "seen"), name)
    reported(monkeypatch, replace(FINDING, transactional_id=name, address=name, **everywhere))
    for options in ((), ("--json",)):
        result = run(*options)
        assert isinstance(result.exception, SystemExit | None), result.exception
        require_harmless(result.stdout)
    assert printable(name) in run().stdout
    assert len(run().stdout.splitlines()) == 2


def test_a_broker_is_asked_at_its_http_address_and_says_what_to_set_if_it_does_not_watch() -> None:
    (port,) = free_ports(1)
    listen = {"oncelog.metrics.listen": f"127.0.0.1:{port}"}
    with Broker(config=listen):
        assert run("--metrics", f"127.0.0.1:{port}").stdout == "No client does anything wrong.\n"
    with Broker(config={**listen, "oncelog.witness.enable": False}):
        require_one_line(run("--metrics", f"127.0.0.1:{port}"), "oncelog.witness.enable=true")


def test_where_nothing_listens_it_says_what_to_start(free_port: int) -> None:
    require_one_line(run("-m", f"127.0.0.1:{free_port}"), f"oncelog.metrics.listen=127.0.0.1:{free_port}")


def test_where_kafka_clients_connect_it_says_which_address_is_wanted() -> None:
    with Broker() as broker:
        require_one_line(run("-m", broker.bootstrap_servers), "name the broker's oncelog.metrics.listen")


@pytest.mark.parametrize("address", ["9404", "localhost", "localhost:x", ""])
def test_an_invalid_address_is_refused_with_an_example(address: str) -> None:
    require_one_line(run("-m", address), "must be HOST:PORT")


def require_one_line(result: Result, advice: str) -> None:
    assert (result.exit_code, result.stdout) == (2, "")
    assert advice in result.stderr and len(result.stderr.splitlines()) == 1
