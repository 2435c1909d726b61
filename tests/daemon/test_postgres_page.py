"""docs/operate/postgres.md: its commands and SQL run, its settings exist, and its compose file starts a broker."""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from oncelog.broker.config.settings import load_config
from oncelog.testing import Broker
from tests.conftest import Start
from tests.support.patience import PATIENCE_S
from tests.support.postgres.server import Postgres, started

pytestmark = pytest.mark.postgres

asyncpg = pytest.importorskip("asyncpg", reason="asyncpg is not installed")
psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")
ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "operate"
PAGE = (FOLDER / "postgres.md").read_text(encoding="utf-8")
COMPOSE = (FOLDER / "postgres-compose.yml").read_text(encoding="utf-8")
DSN = "postgresql://localhost/records"


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    yield from started()


def blocks(language: str) -> list[str]:
    return re.findall(f"```{language}\n(.*?)```", PAGE, re.DOTALL)


def statements(block: str) -> list[str]:
    return [each.strip() for each in block.split(";") if each.strip()]


def test_a_role_with_these_rights_can_start_a_broker_and_one_with_those_can_watch_it(postgres: Postgres) -> None:
    told, rights, watching = blocks("sql")
    with psycopg.connect(postgres.dsn, autocommit=True) as administrator:
        administrator.execute("create database records")
    with psycopg.connect(postgres.dsn_of("records"), autocommit=True) as administrator:
        for each in statements(rights):
            administrator.execute(each)
        with Broker(
            storage=postgres.dsn_of("records", "kafka"), config={"oncelog.postgres.schema": "oncelog"}
        ) as broker:
            broker.produce("orders", b"value")
            administrator.execute("create role watcher")
            for grant in re.findall(r"`(grant [^`]+ to) …`", PAGE):
                administrator.execute(f"{grant} watcher")
            administrator.execute("set role watcher")
            for each in statements(watching):
                assert administrator.execute(each).description
            administrator.execute("reset role")
            for each in statements(told):
                assert administrator.execute(each).rowcount == 1


def test_what_it_says_of_a_database_that_was_put_back_makes_the_next_start_notice(
    postgres: Postgres, start_daemon: Start
) -> None:
    (told,) = statements(blocks("sql")[0])
    schema = "put_back"
    overrides = (
        "oncelog.storage=postgres",
        f"oncelog.postgres.dsn={postgres.dsn}",
        f"oncelog.postgres.schema={schema}",
    )
    daemon = start_daemon(*overrides)
    daemon.stop()
    with psycopg.connect(postgres.dsn, autocommit=True) as administrator:
        administrator.execute(told.replace("oncelog.oncelog_leader", f"{schema}.oncelog_leader"))
    assert daemon.events("database.restored") == []
    daemon.start()
    assert len(daemon.events("database.restored")) == 1
    daemon.stop()
    daemon.start()
    assert len(daemon.events("database.restored")) == 1


def test_its_commands_run(postgres: Postgres, tmp_path: Path) -> None:
    with Broker(storage=postgres.dsn, config={"oncelog.postgres.schema": "oncelog"}) as broker:
        broker.produce("orders", b"value")
    with psycopg.connect(postgres.dsn, autocommit=True) as administrator:
        administrator.execute("create database other")
    places = {
        DSN: postgres.dsn,
        DSN.replace("records", "other"): postgres.dsn_of("other"),
        "DIR": str(tmp_path / "data"),
    }
    for line in blocks("bash")[1].splitlines():
        words = [places.get(word, word) for word in shlex.split(line)]
        done = subprocess.run(
            [sys.executable, "-m", *words], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S
        )
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("text", [COMPOSE, "".join(blocks("yaml"))], ids=["compose", "kubernetes"])
def test_settings_of_containers_are_settings(text: str) -> None:
    lines = re.findall(r"(KAFKA_\w+): (.*)|name: (KAFKA_\w+), value: \"?([^\"}]+)\"?\}", text)
    environ = {first or second: value or other for first, value, second, other in lines}
    assert len(environ) >= 4
    config, warnings = load_config(environ=environ)
    assert warnings == []
    assert config.get_str("oncelog.storage") == "postgres"
    assert str(config.get("oncelog.postgres.dsn")).startswith("postgresql://kafka@postgres/")


def test_it_has_as_many_connections_as_it_says(postgres: Postgres) -> None:
    """A broker that has written, moved into chunks and fetched has the number of connections that the page gives."""
    with psycopg.connect(postgres.dsn, autocommit=True) as administrator:
        administrator.execute("create database connections")
        config = {"oncelog.postgres.checkpoint.bytes": "1", "oncelog.postgres.cache.bytes": "0"}
        with Broker(storage=postgres.dsn_of("connections"), config=config) as broker:
            for number in range(4):
                broker.produce("orders", b"%d" % number)
            for _ in range(2):
                assert len(broker.records("orders")) == 4
            found = administrator.execute(
                "select count(*) from pg_stat_activity where application_name = 'oncelog' and datname = 'connections'"
            ).fetchone()
    # A broker in the process of its test is no node among others. One fetch at a time needs one that fetches, but the
    # last fetch of a reader that has closed may last into those of the next one.
    assert found in {(7,), (8,)}
    assert "two that fetch: nine at most" in " ".join(PAGE.split())
