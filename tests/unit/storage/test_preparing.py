"""What a start says of a server: who may lose what that was acknowledged, and why it cannot be used."""

import asyncio
import socket
import ssl
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import trustme

from oncelog.broker.storage.shared.tables import Unanswered
from oncelog.broker.system.coroutines import LoopCoroutines
from oncelog.broker.system.loop import LoopScheduler
from oncelog.broker.turns.completion import Completion
from tests.unit.storage.stores import new_schema

pytest.importorskip("asyncpg", reason="asyncpg is not installed")
import asyncpg

from oncelog.broker.storage.postgres import preparing
from oncelog.broker.storage.postgres.preparing import Found, Unreachable, Unusable, connect
from oncelog.broker.storage.postgres.session import Server, Session

pytestmark = pytest.mark.postgres

SAID = {
    ("off", "on", "standby"): "a crash of its machine may lose anything",
    ("on", "off", "standby"): "a crash of PostgreSQL may lose what was acknowledged last",
    ("on", "local", "standby"): "on the disk of one PostgreSQL",
    ("on", "on", ""): "on the disk of one PostgreSQL",
    ("on", "remote_write", "standby"): "in the memory of its synchronous standbys (standby)",
    ("on", "on", "standby"): "on the disk of PostgreSQL and of its synchronous standbys (standby)",
    ("on", "remote_apply", "standby"): "on the disk of PostgreSQL and of its synchronous standbys (standby)",
}


@pytest.mark.parametrize(("fsync", "synchronous_commit", "standby_names"), SAID)
def test_it_promises_what_the_settings_do_and_no_more(fsync: str, synchronous_commit: str, standby_names: str) -> None:
    found = Found("18.0", 180000, fsync, synchronous_commit, standby_names, "records", "kafka", is_standby=False)
    assert SAID[fsync, synchronous_commit, standby_names] in found.promise


async def _refusal(answer: bytes, context: ssl.SSLContext | None, query: str) -> Unusable:
    """The error for a server that answers so, after it has begun TLS if there is a `context`."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readexactly(8)  # asks for TLS
            writer.write(b"S" if context is not None else b"N")
            if context is not None:
                await writer.start_tls(context)
            await reader.read(1)
            writer.write(answer)
        except OSError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    scheduler = LoopScheduler(asyncio.get_running_loop(), "postgres")
    dsn = f"postgresql://kafka@127.0.0.1:{port}/records?{query}"
    try:
        with pytest.raises(Unusable) as refused:
            await connect(Server(dsn, "oncelog", LoopCoroutines(), scheduler))
    finally:
        scheduler.close()
        server.close()
    return refused.value


async def test_a_certificate_from_an_unknown_issuer_is_not_taken_for_a_wrong_dsn(tmp_path: Path) -> None:
    ours, others = trustme.CA(), trustme.CA()
    ours.cert_pem.write_to_path(tmp_path / "ours.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    others.issue_cert("127.0.0.1").configure_cert(context)
    refusal = await _refusal(b"", context, f"sslmode=verify-full&sslrootcert={tmp_path / 'ours.pem'}")
    assert "certificate verify failed" in str(refusal) and "sslrootcert" in str(refusal)
    assert "DSN" not in str(refusal)


async def test_a_server_that_is_not_there_yet_can_be_tried_again() -> None:
    fields = b"SFATAL\0VFATAL\0C57P03\0Mthe database system is starting up\0\0"
    starting = b"E" + (len(fields) + 4).to_bytes(4, "big") + fields
    refusal = await _refusal(starting, None, "sslmode=prefer")
    assert isinstance(refusal, Unreachable)
    assert "starting up" in str(refusal)


async def test_a_server_that_is_silent_is_named_as_that_and_can_be_tried_again() -> None:
    """A time-out has no text of its own, and an operator reads why a start fails or what a broker waits for."""
    scheduler = LoopScheduler(asyncio.get_running_loop(), "postgres")
    with socket.create_server(("127.0.0.1", 0)) as silent:  # its backlog lets clients in
        server = Server(
            f"postgresql://kafka@{_at(silent)}/records", "oncelog", LoopCoroutines(), scheduler, connect_s=0.01
        )
        with pytest.raises(Unreachable) as refused:
            await connect(server)
        asked: asyncio.Future[Completion[None]] = asyncio.get_running_loop().create_future()
        Session(server).run(lambda _: asyncio.sleep(0)).then(asked.set_result)
        answer = await asked
    scheduler.close()
    assert str(refused.value) == "no answer within 0.01 s; is PostgreSQL running there?"
    assert isinstance(answer.error, Unanswered)
    assert str(answer.error) == "PostgreSQL: no answer within 0.01 s"


@pytest.mark.parametrize("sees_it", [True, False])
async def test_a_connection_that_is_cut_while_the_tables_are_looked_at_can_be_tried_again(
    monkeypatch: pytest.MonkeyPatch, sees_it: bool
) -> None:
    """PostgreSQL cuts the connection as it stops, or ends it; a statement gets that error, or finds no connection."""

    async def cut(connection: Any, *_: object) -> None:
        async with connection.transaction():
            end = "select pg_terminate_backend(pg_backend_pid())"
            if sees_it:
                await connection.execute(end)
            with suppress(asyncpg.PostgresError):
                await connection.execute(end)
            await connection.execute("select 1")

    monkeypatch.setattr(preparing, "_make_schema", cut)
    dsn, schema = new_schema()
    scheduler = LoopScheduler(asyncio.get_running_loop(), "postgres")
    with pytest.raises(Unreachable):
        await preparing.prepare(Server(dsn, schema, LoopCoroutines(), scheduler), may_lose=True)
    scheduler.close()


def _at(listening: socket.socket) -> str:
    host, port = listening.getsockname()
    return f"{host}:{port}"
