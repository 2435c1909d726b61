"""What a command prints: tables that fit, numbers as people read them, the question before something is destroyed."""

import io
import os
import re
import socket
import sys
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from oncelog.cli import main
from oncelog.client.blocking.clients import Admin, Producer
from oncelog.client.values.records import TopicPartition
from oncelog.tools import terminal
from oncelog.tools.positions import Position, position
from oncelog.tools.terminal import say_table
from tests.support.pages.command_tree import command_at, commands
from tests.support.processes.daemon import Daemon
from tests.support.tables import rows


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments, env={"ONCELOG_CONFIG": os.devnull})


@pytest.fixture
def nothing_listens() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def table(monkeypatch: pytest.MonkeyPatch, columns: int, rows: list[dict[str, Any]], **options: Any) -> list[str]:
    """The lines of a table on a terminal that is so wide."""
    shown = Terminal()
    monkeypatch.setattr(sys, "stdout", shown)
    monkeypatch.setenv("COLUMNS", str(columns))
    say_table(rows, **options)
    return re.sub("\x1b\\[[0-9;]*m", "", shown.getvalue()).splitlines()


@pytest.mark.parametrize("name", ["short", "x" * 200, "注文" * 60, "e\u0301" * 100])
def test_a_row_on_a_terminal_is_one_line_that_ends_at_the_edge_with_all_its_columns(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    lines = table(monkeypatch, 40, [{"topic": name, "partitions": 3}, {"topic": "t", "partitions": 12}])
    assert len(lines) == 3
    assert all(terminal.cell_width(line) <= 40 for line in lines)
    assert [line.split()[-1] for line in lines] == ["parts" if len(name) > 40 else "partitions", "3", "12"]
    assert ("…" in lines[1]) == (len(name) > 40)
    assert lines[1].startswith(name[:8])


LAG = {"topic": "orders", "partition": 0, "committed_offset": 12345678, "last_stable_offset": 12345678}
LAG = {**LAG, "end_offset": 12345679, "lag": 1, "client_id": "a-client-with-a-name", "host": "/192.168.100.200"}


def test_headings_get_a_shorter_word_then_columns_give_way_and_numbers_never(monkeypatch: pytest.MonkeyPatch) -> None:
    """All columns are there at each width, and no heading or number is cut."""
    heading, line = table(monkeypatch, 120, [LAG], gives_way=("host", "client_id"))
    assert heading.split() == list(LAG)
    heading, line = table(monkeypatch, 100, [LAG], gives_way=("host", "client_id"))
    assert heading.split() == ["topic", "part", "committed", "LSO", "end", "lag", "client_id", "host"]
    assert line.split()[2:] == ["12345678", "12345678", "12345679", "1", "a-client-with-a-name", "/192.168.100.200"]
    heading, line = table(monkeypatch, 80, [LAG], gives_way=("host", "client_id"))
    assert "…" not in heading
    assert line.split()[2:] == ["12345678", "12345678", "12345679", "1", "a-client-with-a…", "/192.168.10…"]


def test_where_no_number_fits_each_row_is_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A number is whole on the narrowest terminal that has room for it and its name."""
    lines = table(monkeypatch, 40, [LAG, {**LAG, "partition": 1}])
    assert lines[2] == "committed_offset    12345678"
    assert lines[8] == "" and lines[10] == "partition           1"


def test_numbers_are_shown_as_people_read_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times, durations and sizes have their unit in the cell and not in the heading; what is unknown is a dash."""
    row = {"start_time_ms": 1_764_288_000_000, "duration_ms": 200_000, "timeout_ms": None, "bytes": 1536}
    row |= {"held_bytes": 1 << 30, "lag_seconds": 8.7, "duration_min": 90, "producer_id": 3}
    heading, line = table(monkeypatch, 200, [row])
    assert re.split("  +", heading.strip()) == [
        *("start_time", "duration", "timeout", "size", "held", "lag", "duration", "producer_id"),
    ]
    assert re.split("  +", line.strip()) == [
        *("2025-11-28T00:00:00Z", "3 min 20 s", "-", "1.5 KiB", "1.0 GiB", "8.7 s", "1 h 30 min", "3"),
    ]


def test_a_time_that_is_shown_is_a_position() -> None:
    """It can be pasted behind the @ of a position, in any time zone."""
    assert position(f"@{terminal.time_text(1_764_288_000_000)}", 0) == Position("time", 1_764_288_000_000)
    assert terminal.time_text(2**62) == f"{2**62} ms"


@given(
    columns=st.integers(1, 120),
    names=st.lists(st.text(st.characters(categories=["Ll", "Lo"]), min_size=1, max_size=60), min_size=1, max_size=4),
    numbers=st.lists(st.integers(0, 2**63 - 1), min_size=4, max_size=4),
)
def test_no_line_of_a_table_is_wider_than_the_terminal(columns: int, names: list[str], numbers: list[int]) -> None:
    row: dict[str, Any] = {}
    for name, number in zip(names, numbers, strict=False):
        row |= {f"name_{len(row)}": name, f"number_{len(row)}": number}
    with pytest.MonkeyPatch.context() as monkeypatch:
        lines = table(monkeypatch, columns, [row])
    assert all(terminal.cell_width(line) <= columns for line in lines)
    least = sum(12 + max(8, len(str(number))) + 4 for _, number in zip(names, numbers, strict=False))
    if columns >= least:
        assert len(lines[1].split()) == len(row)


WIDE = "a-name-that-does-not-end-" * 5
AT_80 = {
    "topic list": 3,
    "topic describe orders": 8,
    "config describe --topic orders": 4,
    "group list": 5,
    f"group lag {WIDE}": 8,
    "txn list": 5,
}


@pytest.mark.parametrize("command", AT_80)
def test_every_column_of_a_table_is_there_at_80_columns(
    command: str, daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Admin(daemon.bootstrap) as admin, Producer(daemon.bootstrap, transactional_id=WIDE) as producer:
        admin.create_topics("orders", WIDE, exist_ok=True)
        producer.init_transactions()
        for group in ("billing", WIDE):
            admin.alter_group_offsets(group, {TopicPartition("orders", 0): 0})
    monkeypatch.setattr(terminal, "_edge", lambda: 80)
    heading, *lines = run(*command.split(), "-b", daemon.bootstrap).stdout.splitlines()
    assert all(len(line) <= 80 for line in (heading, *lines)) and lines
    # Between two columns are two spaces; a cell may be empty.
    assert len(heading.split()) == max(len(re.split("  +", line.strip())) for line in lines) == AT_80[command]
    assert "…" not in heading


@pytest.mark.parametrize("columns", range(1, 40))
def test_a_line_of_pieces_on_a_terminal_ends_at_the_edge(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    shown = Terminal()
    monkeypatch.setattr(sys, "stdout", shown)
    monkeypatch.setenv("COLUMNS", str(columns))
    pieces = ("12:00 注文 → ", terminal.Styled("Ongoing", "yellow"), "  orders-0, orders-1")
    terminal.say_row(*pieces)
    (line,) = re.sub("\x1b\\[[0-9;]*m", "", shown.getvalue()).splitlines()
    whole = "12:00 注文 → Ongoing  orders-0, orders-1"
    assert terminal.cell_width(line) <= columns
    assert line == whole if terminal.cell_width(whole) <= columns else whole.startswith(line.removesuffix("…"))


@pytest.mark.parametrize("columns", [40, 60, 100, 400])
def test_sentences_in_the_last_column_continue_below_themselves(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    sentence = "set advertised.listeners of node 1 to an address that its clients reach; " * 3
    rows = [{"check": "node 1", "result": "wrong", "detail": sentence}]
    lines = table(monkeypatch, columns, rows, ends_in_prose=True)
    assert all(terminal.cell_width(line) <= columns for line in lines)
    assert " ".join(" ".join(lines[1:]).split()) == f"node 1 wrong {sentence.strip()}"
    assert all(line.startswith(" " * 15) for line in lines[2:]) or columns == 40


def test_a_row_in_a_pipe_is_whole(capsys: pytest.CaptureFixture[str]) -> None:
    say_table([{"topic": "x" * 500, "count": 3}, {"topic": "注文", "count": 12}])
    _, first, second = capsys.readouterr().out.splitlines()
    assert first.split() == ["x" * 500, "3"]
    assert second == "注文" + " " * 496 + "     12"


# --- the question before something is destroyed -----------------------------------------------------------------------

DESTROYING = {
    "acl remove": ("-t", "t"),
    "group delete": ("g",),
    "group reset": ("g", "--to", "start"),
    "outbox remove": ("postgresql://nowhere",),
    "quota remove": ("--user", "u"),
    "record delete": ("t", "--before", "end"),
    "token expire": ("t",),
    "topic delete": ("t",),
    "txn abort": ("--topic", "t", "--partition", "0", "--start-offset", "1"),
    "txn fence": ("t",),
    "user remove": ("u",),
}
"""Each asks before it asks the cluster; what asks after a look is tested where it is: spark, log repair, graduate."""


@pytest.fixture
def person(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "_has_person", lambda: True)


@rows("command, arguments", list(DESTROYING.items()))
def test_what_destroys_asks_on_a_terminal_and_changes_nothing_unless_confirmed(
    command: str, arguments: tuple[str, ...], person: None, nothing_listens: str
) -> None:
    """No is the default; --yes is not asked, nor is a dry run."""
    asked = [*command.split(), *arguments, "-b", nothing_listens]
    for answer in ("n\n", "\n", ""):
        result = CliRunner().invoke(main, asked, input=answer)
        assert (result.exit_code, result.stdout) == (2, ""), result.output
        assert "? [y/N]: " in result.stderr and "oncelog: nothing was changed" in result.stderr
    agreed = CliRunner().invoke(main, asked, input="y\n")
    assert "[y/N]" in agreed.stderr and "does not respond" in agreed.stderr
    silent = [("--yes",)] + [("--dry-run",)] * any("--dry-run" in each.opts for each in command_at(command).params)
    for option in silent:
        result = CliRunner().invoke(main, [*asked, *option])
        assert "[y/N]" not in result.output and "does not respond" in result.stderr


def test_a_script_is_not_asked(nothing_listens: str) -> None:
    """A script has no terminal, and there is no person to answer."""
    result = CliRunner().invoke(main, ["topic", "delete", "t", "-b", nothing_listens])
    assert "[y/N]" not in result.output and "does not respond" in result.stderr


def test_the_name_in_a_question_is_one_line(person: None) -> None:
    """A name that was pasted cannot forge the question."""
    result = CliRunner().invoke(main, ["topic", "delete", "a\n\x1b[31mb"], input="n\n")
    assert result.stderr.startswith("Delete 'a\\n\\x1b[31mb' with all records? [y/N]: ")


def test_every_verb_that_destroys_has_yes() -> None:
    """Verbs are found by name, so a new one is found here."""
    verbs = ("abort", "delete", "expire", "fence", "forget", "graduate", "remove", "repair", "reset")
    named = [name for name in commands() if name.split()[-1] in verbs]
    assert [name for name in named if not any("--yes" in each.opts for each in command_at(name).params)] == []
    assert set(DESTROYING) <= set(named)
