"""A PostgreSQL without space, or away, under a broker that runs: what operators, tools and the console see."""

import asyncio
import json
import os
import time
from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from oncelog.broker.storage.shared.outage import LATE_MS
from oncelog.cli import main
from oncelog.client import Producer
from tests.conftest import Start
from tests.daemon.test_metrics import ask, scrape
from tests.support.console.consoles import console, text_of
from tests.support.patience import PATIENCE_S
from tests.support.postgres.server import Postgres, started
from tests.support.processes.daemon import Daemon

pytestmark = pytest.mark.postgres

asyncpg = pytest.importorskip("asyncpg", reason="asyncpg is not installed")
_SCHEMA, _OTHER = f"refusing_{os.getpid()}", f"away_{os.getpid()}"
_HALVES = ("oncelog_journal_0", "oncelog_journal_1")
_FILL = """
create function fill() returns trigger language plpgsql as $$ begin
  raise exception 'could not extend file: No space left on device' using errcode = 'disk_full';
end $$
"""
_PLACE = {"topic": "orders", "partition": "0"}


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    yield from started()


async def test_a_database_that_refuses_writes_is_seen_from_outside_and_holds_up_no_other_request(
    postgres: Postgres, start_daemon: Start
) -> None:
    """Probe, doctor, log and console name the database while a round waits for space; no page waits for it, and what
    waited is there once there is space.
    """
    daemon = start_daemon(*_overrides(postgres, _SCHEMA), "oncelog.metrics.listen=127.0.0.1:0")
    database = await asyncpg.connect(postgres.dsn, server_settings={"search_path": _SCHEMA})
    async with Producer(bootstrap_servers=daemon.bootstrap) as producer, console(daemon.bootstrap) as pages:
        await producer.send("orders", b"before", partition=0)
        await database.execute(_FILL)
        for half in _HALVES:
            await database.execute(f"create trigger full_disk before insert on {half} execute function fill()")
        waiting = asyncio.ensure_future(producer.send("orders", b"waits", partition=0))
        await _until_ready(daemon, is_ready=False)
        assert await asyncio.to_thread(_seen, daemon) == (1, 1, {"storage of node 1": "wrong"})
        refusal = await pages.get("/partition", params=_PLACE)
        assert (refusal.status_code, "No space left on device" in text_of(refusal.text)) == (500, True)
        for path in ("/", "/topics", "/topic", "/messages", "/transactions", "/groups"):
            assert (await pages.get(path, params=_PLACE)).status_code == 200, path
        assert not waiting.done()
        for half in _HALVES:
            await database.execute(f"drop trigger full_disk on {half}")
        assert (await waiting).offset == 1
        await _until_ready(daemon, is_ready=True)
        assert await asyncio.to_thread(_seen, daemon) == (0, 0, {})
        assert (await pages.get("/partition", params=_PLACE)).status_code == 200
    await database.close()
    (line,) = daemon.events("disk.full")
    assert line["data_dir"] == f"postgresql:{_SCHEMA}"
    assert line["error"] == "PostgreSQL: could not extend file: No space left on device"
    assert "give PostgreSQL what it lacks" in line["message"]


async def test_a_database_that_is_away_is_one_line_and_one_when_it_is_back(
    postgres: Postgres, start_daemon: Start
) -> None:
    """An operator who looks at the log reads why clients wait, and for how long they have waited."""
    daemon = start_daemon(*_overrides(postgres, _OTHER))
    async with Producer(bootstrap_servers=daemon.bootstrap) as producer:
        await producer.send("orders", b"before", partition=0)
        postgres.stop("immediate")
        try:
            waiting = asyncio.ensure_future(producer.send("orders", b"waits", partition=0))
            away = await asyncio.to_thread(daemon.await_event, "database.away")
        finally:
            postgres.start()
        assert (await waiting).offset == 1
        back = await asyncio.to_thread(daemon.await_event, "database.back")
    assert away["data_dir"] == back["data_dir"] == f"postgresql:{_OTHER}"
    assert away["error"].startswith("PostgreSQL: ")
    assert back["duration_ms"] >= LATE_MS
    assert [len(daemon.events(event)) for event in ("database.away", "database.back")] == [1, 1]


def _overrides(postgres: Postgres, schema: str) -> tuple[str, ...]:
    return ("oncelog.storage=postgres", f"oncelog.postgres.dsn={postgres.dsn}", f"oncelog.postgres.schema={schema}")


async def _until_ready(daemon: Daemon, *, is_ready: bool) -> None:
    until_s = time.monotonic() + PATIENCE_S
    while True:
        status, _, body = await asyncio.to_thread(ask, daemon, "/readyz")
        if (status == 200) is is_ready:
            break
        assert time.monotonic() < until_s, body
    assert is_ready or "the database refuses writes: PostgreSQL: could not extend file" in body


def _seen(daemon: Daemon) -> tuple[float, int, dict[str, str]]:
    """The gauge, the exit code of the doctor, and what it says of storage."""
    doctor = CliRunner().invoke(main, ["doctor", "-b", daemon.bootstrap, "--json"])
    found = {row["check"]: row["result"] for row in json.loads(doctor.stdout) if row["check"].startswith("storage")}
    return scrape(daemon)["oncelog_disk_full", ()], doctor.exit_code, found
