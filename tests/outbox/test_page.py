"""docs/operate/outbox.md: commands, SQL and program of the page run; its compose file has commands that there are."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from oncelog.testing import Broker
from tests.support.command_tree import commands
from tests.support.patience import PATIENCE_S
from tests.support.postgres import need_programs, started

psycopg = pytest.importorskip("psycopg", reason="the outbox needs psycopg: pip install 'oncelog[postgres]'")
ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "operate" / "outbox.md").read_text(encoding="utf-8")
COMPOSE = (ROOT / "docs" / "operate" / "outbox-compose.yml").read_text(encoding="utf-8")


def block(language: str) -> str:
    (found,) = re.findall(f"```{language}\n(.*?)```", PAGE, re.DOTALL)[:1]
    return str(found)


def test_what_the_page_says_brings_a_payment_from_one_database_into_another() -> None:
    need_programs()
    servers = started({"fsync": "off"})
    server = next(servers)
    try:
        with Broker() as broker, psycopg.connect(server.dsn, autocommit=True) as connection:
            broker.create_topic("payments")
            for name in ("shop", "ledger"):
                connection.execute(f"create database {name}")
            places = {
                "postgresql://localhost/shop": server.dsn_of("shop"),
                "postgresql://localhost/ledger": server.dsn_of("ledger"),
                "localhost:9092": broker.bootstrap_servers,
            }
            _, install, run = (line.partition("#")[0] for line in filled("bash", places).splitlines())
            command = [sys.executable, "-m"]
            subprocess.run([*command, *install.split()], cwd=ROOT, check=True, capture_output=True)
            with psycopg.connect(server.dsn_of("shop"), autocommit=True) as shop:
                shop.execute("create table accounts (id int primary key, cents bigint)")
                shop.execute("insert into accounts values (7, 5000)")
                shop.execute(block("sql"))
            relay = subprocess.Popen([*command, *run.split()], cwd=ROOT, stdout=subprocess.DEVNULL)
            try:
                program = [sys.executable, "-c", filled("python", places)]
                subprocess.run(program, cwd=ROOT, check=True, timeout=PATIENCE_S)
            finally:
                relay.kill()
                relay.wait()
            with psycopg.connect(server.dsn_of("ledger")) as ledger:
                assert ledger.execute("select account, cents from balances").fetchall() == [(7, -990)]
    finally:
        servers.close()  # type: ignore[attr-defined]  # a generator


def filled(language: str, places: dict[str, str]) -> str:
    text = block(language)
    for name, place in places.items():
        text = text.replace(name, place)
    return text


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
