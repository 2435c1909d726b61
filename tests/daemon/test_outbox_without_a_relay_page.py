"""docs/operate/outbox.md, "Without a relay": its SQL runs as the role that it names, its commands print what it has."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from oncelog.broker.outbox import feeder
from oncelog.broker.storage.shared.tables import LARGEST_BYTES
from oncelog.testing import Broker
from tests.conftest import Start
from tests.daemon.test_postgres_storage import _overrides, _send, _values
from tests.support.patience import PATIENCE_S, until
from tests.support.postgres.server import Postgres

pytest.importorskip("asyncpg", reason="asyncpg is not installed")
psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")
ROOT = Path(__file__).parents[2]
_, _, PAGE = (ROOT / "docs" / "operate" / "outbox.md").read_text(encoding="utf-8").partition("\n## Without a relay\n")
PAGE, _, _ = PAGE.partition("\n## ")
PRODUCE, GRANT, WATCH, AGAIN = re.findall("```sql\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def shop(postgres: Postgres) -> Iterator[str]:
    """The DSN of a database of its own, with a role that has no right but its own."""
    with psycopg.connect(postgres.dsn, autocommit=True) as administrator:
        administrator.execute("create database shop")
        administrator.execute("create role shop login")
    yield postgres.dsn_of("shop")
    with psycopg.connect(postgres.dsn_of("shop"), autocommit=True) as administrator:
        administrator.execute("drop owned by shop")
    with psycopg.connect(postgres.dsn, autocommit=True) as administrator:
        administrator.execute("drop database shop with (force)")
        administrator.execute("drop role shop")


def _oncelog(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "oncelog", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S)


def _until_none_wait(connection: Any) -> None:
    until(lambda: connection.execute("select count(*) from oncelog.oncelog_outbox").fetchone() == (0,))


def test_what_the_page_says_makes_records_refuses_them_and_produces_them_again(postgres: Postgres, shop: str) -> None:
    """An application that may only call the function is enough for it."""
    with (
        Broker(storage=shop, config={"oncelog.postgres.schema": "oncelog"}) as broker,
        psycopg.connect(shop, autocommit=True) as administrator,
        psycopg.connect(postgres.dsn_of("shop", "shop"), autocommit=True) as application,
    ):
        for each in GRANT.strip().split(";")[:-1]:
            administrator.execute(each)
        administrator.execute("create table accounts (id int primary key, cents bigint)")
        administrator.execute("grant select, update on accounts to shop")
        administrator.execute("insert into accounts values (7, 5000)")
        application.execute(PRODUCE)
        _until_none_wait(administrator)
        for each in WATCH.strip().split(";")[:-1]:
            found = administrator.execute(each).fetchall()
        assert found == [("there is no topic payments", 1)]
        said = json.loads(_oncelog("outbox", "status", shop, "-b", broker.bootstrap_servers, "--json").stdout)
        assert {name: said[name] for name in said if name != "lag_seconds"} == {
            "carrier": "round",
            "lag_rows": 0,
            "refused_rows": 1,
            "last_refused": "there is no topic payments",
            "trouble": None,
        }
        doctor = _oncelog("doctor", "-b", broker.bootstrap_servers, "--outbox", shop, "--json")
        (finding,) = [each for each in json.loads(doctor.stdout) if each["check"] == "outbox in rounds"]
        said_there = "0 rows wait, 1 are refused, the last one: there is no topic payments"
        assert (finding["result"], finding["detail"]) == ("look", said_there)
        broker.create_topic("payments")
        assert administrator.execute(AGAIN).fetchall() == [(1,)]
        _until_none_wait(administrator)
        (record,) = broker.records("payments")
        assert (record.key, json.loads(record.value)) == (b"7", {"account": 7, "cents": -990})
        refused = _oncelog("outbox", "install", shop)
        assert refused.returncode == 2 and "no relay is needed" in refused.stderr


def test_what_was_committed_while_the_broker_was_away_is_there_after_its_start(
    postgres: Postgres, shop: str, start_daemon: Start
) -> None:
    """Killed or stopped cleanly: neither takes a row twice."""
    daemon = start_daemon(*_overrides(shop, "oncelog"))
    _send(daemon, "topic", b"first")
    with psycopg.connect(shop, autocommit=True) as connection:
        for number, end in enumerate((daemon.kill, daemon.stop, daemon.kill)):
            connection.execute("select oncelog.produce('topic', 'k', %s::text)", [f"{number} before"])
            end()
            connection.execute("select oncelog.produce('topic', 'k', %s::text)", [f"{number} after"])
            daemon.start()
        _until_none_wait(connection)
    values = [b"%d %s" % (number, when) for number in range(3) for when in (b"before", b"after")]
    assert _values(daemon, "topic") == [b"first", *values]


def test_its_numbers_are_those_of_the_code() -> None:
    assert f"up to {feeder._LOOK_ROWS:,} rows, and about {feeder._LOOK_BYTES >> 20} MiB" in PAGE
    assert f"every {feeder._POLL_MS} ms" in PAGE
    assert f"than {LARGEST_BYTES >> 20} MiB" in PAGE


def test_a_row_that_can_be_neither_taken_nor_moved_is_left_and_named(
    postgres: Postgres, shop: str, start_daemon: Start
) -> None:
    """Other rows are taken past a row that the table of refused rows rejects, and an operator sees it."""
    daemon = start_daemon(*_overrides(shop, "oncelog"))
    _send(daemon, "topic", b"first")
    with psycopg.connect(shop, autocommit=True) as connection:
        connection.execute("alter table oncelog.oncelog_outbox_refused add check (topic <> 'missing')")
        connection.execute("select oncelog.produce('missing', 'k', 'never'), oncelog.produce('topic', 'k', 'second')")
        connection.execute("select oncelog.produce('topic', 'k', 'third')")
        until(lambda: _values(daemon, "topic") == [b"first", b"second", b"third"])
        connection.execute("update oncelog.oncelog_outbox set at = at - interval '2 minutes'")
    said = json.loads(_oncelog("outbox", "status", shop, "-b", daemon.bootstrap, "--json").stdout)
    assert (said["lag_rows"], "outbox.row_left" in said["trouble"]) == (1, True)
    assert "outbox.row_left" in daemon.log and "violates check constraint" in daemon.log


def test_a_row_that_waits_for_long_is_in_trouble_for_status_and_doctor(postgres: Postgres, shop: str) -> None:
    """No broker leads: nothing takes it."""
    with Broker(storage=shop, config={"oncelog.postgres.schema": "oncelog"}):
        pass
    with psycopg.connect(shop, autocommit=True) as connection:
        connection.execute("select oncelog.produce('topic', 'k', 'v')")
        connection.execute("update oncelog.oncelog_outbox set at = at - interval '2 minutes'")
    with Broker() as other:
        said = json.loads(_oncelog("outbox", "status", shop, "-b", other.bootstrap_servers, "--json").stdout)
        assert "the oldest row waits" in said["trouble"]
        doctor = _oncelog("doctor", "-b", other.bootstrap_servers, "--outbox", shop, "--json")
    assert doctor.returncode == 1
    (found,) = [each for each in json.loads(doctor.stdout) if each["check"] == "outbox in rounds"]
    assert found["result"] == "wrong" and "no broker leads" in found["detail"]
