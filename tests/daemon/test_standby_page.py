"""docs/operate/standby.md: its rolling upgrade runs under load, and its settings are settings."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from oncelog.broker.config.settings import load_config
from tests.support.pages.walkthrough import steps_of, walk
from tests.support.postgres.server import Postgres, started

pytestmark = pytest.mark.postgres

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")
pytest.importorskip("asyncpg", reason="asyncpg is not installed")
FOLDER = Path(__file__).parents[2] / "docs" / "operate"
PAGE = "operate/standby.md"


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    yield from started()


@pytest.mark.slow
def test_its_rolling_upgrade_is_a_wait_for_a_client_that_counts_in_transactions(
    postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with psycopg.connect(postgres.dsn, autocommit=True) as administrator:
        administrator.execute("create database records")
    monkeypatch.setenv("PGPORT", str(postgres.port))
    monkeypatch.setenv("PGUSER", "postgres")
    shutil.copy(FOLDER / "counting.py", tmp_path)
    walk(steps_of(PAGE, "A rolling upgrade"), tmp_path)


def test_settings_of_its_pods_are_settings_of_two_different_nodes() -> None:
    (text,) = re.findall("```yaml\n(.*?)```", (FOLDER / "standby.md").read_text(encoding="utf-8"), re.DOTALL)
    environ = dict(re.findall(r"name: (KAFKA_\w+), value: \"?([^\"}]+)\"?\}", text))
    assert "name: KAFKA_NODE_ID " in text
    found = []
    for index in range(2):
        pod = {
            "KAFKA_NODE_ID": str(index),
            **{key: each.replace("$(POD)", f"kafka-{index}") for key, each in environ.items()},
        }
        config, warnings = load_config(environ=pod)
        assert warnings == []
        assert config.get_str("oncelog.storage") == "postgres"
        found.append((config.get_int("node.id"), config.listeners[0].advertised_host))
    assert found == [(0, "kafka-0.kafka"), (1, "kafka-1.kafka")]
