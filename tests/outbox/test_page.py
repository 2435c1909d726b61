"""docs/operate/outbox.md: commands, SQL and program of the page run; its compose file has commands that there are."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.pages.command_tree import commands
from tests.support.pages.walkthrough import Step, walk
from tests.support.postgres.server import need_programs, started

psycopg = pytest.importorskip("psycopg", reason="the outbox needs psycopg: pip install 'oncelog[postgres]'")
ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "operate" / "outbox.md").read_text(encoding="utf-8")
COMPOSE = (ROOT / "docs" / "operate" / "outbox-compose.yml").read_text(encoding="utf-8")


_BLOCK = re.compile(r"^```(bash|text|sql|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_CREATEDB = """
import sys, psycopg
psycopg.connect("dbname=postgres", autocommit=True).execute(f"create database {sys.argv[1]}")
"""
_PSQL = """
import sys, psycopg
_, quiet, database, *rest = sys.argv
connection = psycopg.connect(dbname=database, autocommit=True)
for statement in rest[1::2] or [sys.stdin.read()]:
    connection.execute(statement)
"""
"""Stands for PostgreSQL's programs of these names, which the wheel's server lacks."""


def steps() -> Iterator[Step]:
    """The page from its top to the end of its program: commands, SQL and Python, as they are typed."""
    for language, text in _BLOCK.findall(PAGE):
        if language == "bash" and "pip install" not in text:
            yield Step(text, "")
        elif language == "sql":
            yield Step(f"psql -q shop <<'END'\n{text}END\n", "")
        elif language == "python":
            yield Step(f"python - <<'END'\n{text}END\n", "")
            return
        elif language == "text":
            yield Step("", text)


def typed() -> list[Step]:
    """Each command with what is printed by it."""
    found: list[Step] = []
    for step in steps():
        if step.command:
            found.append(step)
        else:
            found[-1] = found[-1]._replace(printed=step.printed)
    return found


def test_what_the_page_says_brings_a_payment_from_one_database_into_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Typed from its top, on a machine with nothing but PostgreSQL."""
    need_programs()
    servers = started({"fsync": "off"})
    server = next(servers)
    try:
        for name, value in {"PGHOST": "127.0.0.1", "PGPORT": str(server.port), "PGUSER": "postgres"}.items():
            monkeypatch.setenv(name, value)
        programs = {}
        for name, script in {"createdb": _CREATEDB, "psql": _PSQL}.items():
            (tmp_path / f"{name}.py").write_text(script)
            programs[name] = f'exec "{sys.executable}" "{tmp_path / name}.py" "$@"'
        walk(typed(), tmp_path, programs)
        with psycopg.connect(server.dsn_of("ledger")) as ledger:
            assert ledger.execute("select account, cents from balances").fetchall() == [(7, -990)]
    finally:
        servers.close()


def test_the_compose_file_has_commands_that_there_are() -> None:
    given = re.findall(r"command: ((?:outbox|topic) .*)", COMPOSE)
    assert len(given) == 3
    for each in given:
        words = each.split()
        assert " ".join(words[:2]) in set(commands())
        said = subprocess.run(
            [sys.executable, "-m", "oncelog", *words[:2], "--help"],
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
        )
        assert all(word in said.stdout for word in words if word.startswith("--"))
