"""A DSN with several hosts: which of them is connected to, and what one that does not answer costs."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import pytest

from oncelog.broker.daemon.running import done
from oncelog.broker.storage.shared.tables import Unanswered
from oncelog.broker.system.coroutines import LoopCoroutines
from oncelog.broker.system.loop import LoopScheduler
from oncelog.broker.turns.completion import Completion
from tests.support.kafka.server import free_ports
from tests.support.patience import PATIENCE_S
from tests.support.processes.silent_proxy import SilentProxy
from tests.unit.storage.stores import new_schema

pytest.importorskip("asyncpg", reason="asyncpg is not installed")
import asyncpg

from oncelog.broker.storage.postgres import session
from oncelog.broker.storage.postgres.session import Server, Session, of_each_host

pytestmark = pytest.mark.postgres

_BRIEF_S = 0.1
_SILENT, _REFUSING, _SERVING = "silent", "refusing", "serving"
Serve = Callable[..., Server]


@pytest.fixture
async def server() -> AsyncIterator[Serve]:
    scheduler = LoopScheduler(asyncio.get_running_loop(), "postgres")
    yield lambda dsn, **options: Server(dsn, "oncelog", LoopCoroutines(), scheduler, **options)
    scheduler.close()


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """A machine that has stopped: connections come up, and nothing is answered."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


def _serving() -> str:
    dsn, _ = new_schema()
    return urlsplit(dsn).netloc.rpartition("@")[2]


def _dsn(*hosts: str) -> str:
    return f"postgresql://postgres@{','.join(hosts)}/postgres"


def _at(listening: socket.socket) -> str:
    return f"127.0.0.1:{listening.getsockname()[1]}"


async def _connect(server: Server) -> asyncpg.Connection:
    """Connect as code that waits for a database does: a busy machine may need longer than a limit that is brief."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                return await server.connect()
            except (TimeoutError, ConnectionRefusedError):  # of another host that was asked as well
                continue


@pytest.mark.parametrize(
    "order", [(_SILENT, _SERVING), (_SERVING, _SILENT), (_REFUSING, _SILENT, _SERVING), (_SILENT, _REFUSING, _SERVING)]
)
async def test_a_host_that_serves_is_found_whatever_the_others_do(
    server: Serve, silent: socket.socket, order: tuple[str, ...]
) -> None:
    """A primary whose machine is gone says nothing at all: its standby is found nevertheless."""
    hosts = {_SILENT: _at(silent), _REFUSING: f"127.0.0.1:{free_ports(1)[0]}", _SERVING: _serving()}
    connection = await _connect(server(_dsn(*(hosts[each] for each in order)), connect_s=_BRIEF_S))
    assert await connection.fetchval("select 1") == 1
    await connection.close()


async def test_a_host_that_is_silent_is_waited_for_once(server: Serve, silent: socket.socket) -> None:
    """Connections are made whenever one is needed: the next one begins with the host that has served."""
    found = server(_dsn(_at(silent), _serving()), connect_s=_BRIEF_S)
    await (await _connect(found)).close()
    found.connect_s = PATIENCE_S
    silent.setblocking(False)
    with suppress(BlockingIOError):
        while True:
            silent.accept()[0].close()
    await (await found.connect()).close()
    with pytest.raises(BlockingIOError):
        silent.accept()


async def test_an_answer_has_a_limit_however_long_it_took_to_connect(server: Serve, silent: socket.socket) -> None:
    """The limit of an answer counts from when there is a connection: over before that, it would hold for none."""
    session = Session(server(_dsn(_at(silent), _serving()), connect_s=_BRIEF_S), answer_ms=1)
    async with asyncio.timeout(PATIENCE_S):
        error: Exception | None = Unanswered("PostgreSQL: no answer")
        while "no answer" in str(error):  # on a busy machine the limit was too brief for the one that serves
            asked: asyncio.Future[Completion[Any]] = asyncio.get_running_loop().create_future()
            session.run(lambda connection: connection.execute("select pg_sleep(600)")).then(asked.set_result)
            error = (await asked).error
    assert isinstance(error, Unanswered), error
    await session.close()


async def test_a_connection_that_is_cut_off_can_be_closed(server: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader that was cut off in the middle of a statement ends its connections, and stands by."""
    monkeypatch.setattr(session, "_CLOSE_S", _BRIEF_S)
    async with SilentProxy() as proxy:
        host, _, port = _serving().rpartition(":")
        proxy.upstream = host, int(port)
        cut_off = Session(server(_dsn(f"127.0.0.1:{proxy.port}")))
        await done(cut_off.run(lambda connection: connection.execute("select 1")))
        proxy.is_silent = True
        asked = cut_off.run(lambda connection: connection.execute("select 1"))
        async with asyncio.timeout(PATIENCE_S):
            await cut_off.close()
            with pytest.raises(Unanswered):
                await done(asked)


async def test_a_standby_is_not_what_is_said_if_the_primary_cannot_be_reached(server: Serve) -> None:
    """A start that finds a standby gives up, and one that reaches no host is tried again."""
    serving, refusing = _serving(), f"127.0.0.1:{free_ports(1)[0]}"
    for hosts in ((serving, refusing), (refusing, serving)):
        with pytest.raises(ConnectionRefusedError):
            await server(_dsn(*hosts), role="standby", connect_s=PATIENCE_S).connect()
    with pytest.raises(asyncpg.TargetServerAttributeNotMatched):
        await server(_dsn(serving), role="standby", connect_s=PATIENCE_S).connect()


@pytest.mark.parametrize(
    ("dsn", "wanted"),
    [
        ("postgresql://", ["postgresql://"]),
        ("postgresql:///records?host=/run/postgresql", ["postgresql:///records?host=/run/postgresql"]),
        ("postgresql://kafka@one/records", ["postgresql://kafka@one/records"]),
        (
            "postgresql://kafka:a%2Cb,c@one,two:5433/records?sslmode=require",
            [f"postgresql://kafka:a%2Cb,c@{host}/records?sslmode=require" for host in ("one", "two:5433")],
        ),
        ("postgresql://one,two/records", ["postgresql://one/records", "postgresql://two/records"]),
    ],
)
def test_each_host_has_a_dsn_that_is_otherwise_the_same(dsn: str, wanted: list[str]) -> None:
    """The user, the database and TLS are the same for all of them."""
    assert of_each_host(dsn) == wanted
