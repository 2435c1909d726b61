"""`oncelog serve --storage postgresql://…`: it starts anywhere, makes no file, says what it found, and refuses."""

import asyncio
import os
import re
import subprocess
import sys
import time
import urllib.request
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from oncelog.client import Admin, Consumer, NewTopic, Producer
from oncelog.testing import Broker
from tests.conftest import Start
from tests.support.patience import PATIENCE_S
from tests.support.postgres.server import Postgres
from tests.support.processes.daemon import Daemon
from tests.support.processes.forked import ForkedProcess

pytestmark = pytest.mark.postgres

asyncpg = pytest.importorskip("asyncpg", reason="asyncpg is not installed")
T = TypeVar("T")
_schemas = count()
_ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def schema() -> str:
    return f"serve_{os.getpid()}_{next(_schemas)}"


def _overrides(dsn: str, schema: str) -> tuple[str, ...]:
    return ("oncelog.storage=postgres", f"oncelog.postgres.dsn={dsn}", f"oncelog.postgres.schema={schema}")


def _sql(dsn: str, *statements: str) -> Any:
    """Run the statements and return the value of the last."""

    async def run() -> Any:
        connection = await asyncpg.connect(dsn)
        try:
            for statement in statements[:-1]:
                await connection.execute(statement)
            return await connection.fetchval(statements[-1])
        finally:
            await connection.close()

    return asyncio.run(run())


def _refused(*arguments: str, environ: dict[str, str] | None = None) -> tuple[int, str]:
    """The exit code, and what a start says that fails."""
    with TemporaryDirectory() as directory:
        stderr = Path(directory, "stderr")
        process = ForkedProcess(
            ["serve", "--listen", "127.0.0.1:0", *arguments], stderr, {**os.environ, **(environ or {})}
        )
        process.communicate(PATIENCE_S)
        said = stderr.read_text()
    lines = [line for line in said.splitlines() if not line.startswith("{")]
    assert process.returncode is not None and len(lines) == 1, said
    return process.returncode, lines[0]


def _values(daemon: Daemon, topic: str) -> list[bytes | None]:
    async def read() -> list[bytes | None]:
        async with Consumer(bootstrap_servers=daemon.bootstrap, auto_offset_reset="earliest") as consumer:
            partitions = await consumer.partitions_for(topic)
            ends = await consumer.end_offsets(partitions)
            consumer.assign(partitions)
            found: list[bytes | None] = []
            while any([await consumer.position(each) < ends[each] for each in partitions]):
                found += [record.value for record in await consumer.poll(1_000)]
            return found

    return asyncio.run(read())


def _send(daemon: Daemon, topic: str, *values: bytes) -> None:
    async def send() -> None:
        async with Producer(bootstrap_servers=daemon.bootstrap) as producer:
            for value in values:
                await producer.send(topic, value)

    asyncio.run(send())


def test_it_serves_from_any_directory_and_makes_no_file(postgres: Postgres, schema: str, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    command = [sys.executable, "-P", "-m", "oncelog.broker", "serve", "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(
        [*command, "--storage", postgres.dsn, "--schema", schema],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=empty,
        env={**os.environ, "PYTHONPATH": str(_ROOT)},
    )
    with process:
        assert process.stdout is not None
        address = process.stdout.readline().removeprefix("oncelog ready ").strip()

        async def use() -> None:
            async with Admin(bootstrap_servers=address) as admin, Producer(bootstrap_servers=address) as producer:
                await admin.create_topics(NewTopic("topic", 1))
                assert (await producer.send("topic", b"value")).offset == 0

        asyncio.run(use())
        process.terminate()
        assert process.wait(PATIENCE_S) == 0
    assert list(empty.iterdir()) == []


def test_it_says_what_the_server_promises(postgres: Postgres, schema: str, start_daemon: Start) -> None:
    daemon = start_daemon(*_overrides(postgres.dsn, schema))
    (found,) = daemon.events("database.ready")
    assert (found["fsync"], found["synchronous_commit"], found["synchronous_standby_names"]) == ("on", "on", "")
    assert found["server_version"] and found["user"] == "postgres"
    assert "no synchronous standby" in found["message"]


def test_what_was_acknowledged_is_there_after_a_kill_and_after_a_clean_stop(
    postgres: Postgres, schema: str, start_daemon: Start
) -> None:
    daemon = start_daemon(*_overrides(postgres.dsn, schema))
    _send(daemon, "topic", b"one", b"two")
    daemon.kill()
    daemon.start()
    _send(daemon, "topic", b"three")
    daemon.stop()
    daemon.start()
    assert _values(daemon, "topic") == [b"one", b"two", b"three"]
    assert daemon.events("database.restored") == []
    assert daemon.events("lease.waiting") == []  # no other broker has this node id


def test_the_variables_of_postgresql_say_where_it_is(postgres: Postgres, schema: str, tmp_path: Path) -> None:
    """The entries of a service file do so too."""
    (tmp_path / "services").write_text(f"[records]\nhost=127.0.0.1\nport={postgres.port}\nuser=postgres\ndbname=none\n")
    variables = {"PGHOST": "127.0.0.1", "PGPORT": str(postgres.port), "PGUSER": "postgres", "PGDATABASE": "none"}
    service = {"PGSERVICEFILE": str(tmp_path / "services"), "PGSERVICE": "records"}
    for environ in (variables, service):
        code, line = _refused("--override", "oncelog.storage=postgres", "--schema", schema, environ=environ)
        assert (code, 'database "none" does not exist' in line) == (2, True), line


def test_two_schemas_are_two_clusters(postgres: Postgres, schema: str, start_daemon: Start) -> None:
    one = start_daemon(*_overrides(postgres.dsn, schema))
    two = start_daemon(*_overrides(postgres.dsn, f"{schema}_2"), name="two")
    _send(one, "topic", b"one")
    _send(two, "topic", b"two")
    assert (_values(one, "topic"), _values(two, "topic")) == ([b"one"], [b"two"])
    ids = [daemon.events("broker.ready")[0]["cluster_id"] for daemon in (one, two)]
    assert ids[0] != ids[1]


def test_a_second_broker_with_the_same_node_id_is_refused_while_the_first_is_alive(
    postgres: Postgres, schema: str, start_daemon: Start
) -> None:
    daemon = start_daemon(*_overrides(postgres.dsn, schema), "oncelog.postgres.lease.ms=3000")
    code, line = _refused("--storage", postgres.dsn, "--schema", schema)
    assert code == 2
    assert re.search(r"the broker .* is at work on it as node 1; stop it, or give this one a node.id of its own", line)
    _send(daemon, "topic", b"value")
    assert _values(daemon, "topic") == [b"value"]


def _with_role(dsn: str, role: str) -> str:
    return dsn.replace("postgres@", f"{role}@")


REFUSALS: dict[str, tuple[str, int, str]] = {
    "no such host": ("postgresql://nobody@host.invalid/db", 1, r"is PostgreSQL running there\?"),
    "nobody listens": ("postgresql://nobody@127.0.0.1:1/db", 1, r"is PostgreSQL running there\?"),
    "no socket": ("postgresql://nobody@/db?host=/nowhere", 1, r"is PostgreSQL running there\?"),
    "no DSN": ("postgres//x://", 2, r"one is postgresql://USER@HOST:PORT/DATABASE"),
    "settings of libpq": ("host=localhost dbname=records", 2, r"a DSN is a URL here: postgresql://"),
    "no certificate of an authority": (
        "postgresql://u@127.0.0.1:1/db?sslmode=verify-full",
        2,
        r"need the certificate of who signed .* sslrootcert",
    ),
    "a certificate that is not there": (
        "postgresql://u@127.0.0.1:1/db?sslmode=verify-full&sslrootcert=/no/file",
        2,
        r"sslrootcert names /no/file, which cannot be read",
    ),
    "a service that no file has": ("postgresql://?service=nowhere", 2, r"there is no service nowhere in "),
    "a port that is none": ("postgresql://u@127.0.0.1:port/db", 2, r"one is postgresql://"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_a_dsn_that_leads_nowhere_is_one_line(name: str) -> None:
    dsn, wanted, expected = REFUSALS[name]
    code, line = _refused("--storage", dsn)
    assert code == wanted, line
    assert re.search(expected, line), line
    assert "Traceback" not in line


_MISCONFIGURED: dict[str, tuple[str, str, int, str]] = {
    "the server has no TLS": ("select 1", "postgresql://postgres@{at}/postgres?sslmode=require", 2, r"has no TLS"),
    "no such role": ("select 1", "postgresql://nobody_here@{at}/postgres", 2, r"does not exist; .*`create role"),
    "no such database": ("select 1", "postgresql://postgres@{at}/nothing", 2, r"`create database`"),
    "a limit of the role": (
        "create role {schema} login connection limit 9",
        "postgresql://{schema}@{at}/postgres",
        2,
        r"may have 9 connections .* needs 10: raise `alter role",
    ),
    "no connection is left": (
        "create role {schema} login connection limit 0",
        "postgresql://{schema}@{at}/postgres",
        1,
        r"too many connections for role .* needs 10: raise `alter role",
    ),
    "a schema of another role": (
        'create schema "{schema}"; create role {schema} login; create role {schema}_other; '
        'alter schema "{schema}" owner to {schema}_other',
        "postgresql://{schema}@{at}/postgres",
        2,
        r"the schema {schema} belongs to {schema}_other, .* connect as {schema}_other",
    ),
    "a schema of an administrator": (
        'create schema "{schema}"; create role {schema} login',
        "postgresql://{schema}@{at}/postgres",
        2,
        r"the schema {schema} belongs to postgres, and {schema} needs it for itself",
    ),
}


@pytest.mark.parametrize("case", _MISCONFIGURED)
def test_each_misconfiguration_has_a_sentence_that_says_what_to_do(postgres: Postgres, schema: str, case: str) -> None:
    statements, dsn, wanted, expected = _MISCONFIGURED[case]
    _sql(postgres.dsn, *(each.format(schema=schema) for each in statements.split("; ")), "select 1")
    at = f"127.0.0.1:{postgres.port}"
    code, line = _refused("--storage", dsn.format(schema=schema, at=at), "--schema", schema)
    assert code == wanted, line
    assert re.search(expected.format(schema=schema), line), line


def test_a_user_without_rights_is_shown_what_an_administrator_does(postgres: Postgres, schema: str) -> None:
    _sql(postgres.dsn, f"create role {schema} login", "select 1")
    dsn = _with_role(postgres.dsn, schema)
    code, line = _refused("--storage", dsn, "--schema", schema)
    assert code == 2
    assert f'create schema "{schema}" authorization "{schema}"' in line
    _sql(postgres.dsn, f'create schema "{schema}" authorization "{schema}"', "select 1")
    with Broker(storage=dsn, config={"oncelog.postgres.schema": schema}) as broker:
        broker.produce("topic", b"value")
        assert [record.value for record in broker.records("topic")] == [b"value"]


@pytest.mark.parametrize("setting", ["fsync", "synchronous_commit"])
def test_a_server_that_promises_nothing_is_refused_unless_allowed(
    postgres: Postgres, schema: str, start_daemon: Start, setting: str
) -> None:
    if setting == "fsync":
        postgres.configure({"fsync": "off"})
        postgres.reload()
    else:
        _sql(postgres.dsn, "alter database postgres set synchronous_commit = off", "select 1")
    try:
        code, line = _refused("--storage", postgres.dsn, "--schema", schema)
        assert code == 2
        assert f"{setting}=off" in line and "oncelog.postgres.allow.loss=true" in line
        daemon = start_daemon(*_overrides(postgres.dsn, schema), "oncelog.postgres.allow.loss=true")
        assert f"{setting}=off" in daemon.events("database.ready")[0]["message"]
    finally:
        postgres.configure({"fsync": "on"})
        postgres.reload()
        _sql(postgres.dsn, "alter database postgres reset synchronous_commit", "select 1")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("drop table {schema}.oncelog_blob", r"oncelog_blob is missing in the schema {schema}, and was there: restore"),
        ("insert into {schema}.oncelog_schema values(99)", r"has version 99.*Upgrade"),
    ],
)
def test_tables_that_are_not_as_this_release_has_left_them_are_named(
    postgres: Postgres, schema: str, change: str, expected: str
) -> None:
    with Broker(storage=postgres.dsn, config={"oncelog.postgres.schema": schema}) as broker:
        broker.stop()
    _sql(postgres.dsn, change.format(schema=schema), "select 1")
    code, line = _refused("--storage", postgres.dsn, "--schema", schema)
    assert code == 2
    assert re.search(expected.format(schema=schema), line), line


def test_settings_that_are_for_files_are_refused(postgres: Postgres) -> None:
    for override, expected in (
        ("oncelog.read.only=true", "oncelog log export"),
        ("oncelog.flush.policy=os", "synchronous_commit"),
        ("oncelog.postgres.schema=", "is empty"),
    ):
        code, line = _refused("--storage", postgres.dsn, "--override", override)
        assert (code, expected in line) == (2, True), line


class TransactionPooler:
    """A pooler in transaction mode: all clients share one connection, each for a transaction at a time."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._turn = asyncio.Lock()

    async def __aenter__(self) -> int:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self._shared: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        if self._shared is not None:
            self._shared[1].close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        size = int.from_bytes(await reader.readexactly(4), "big")
        startup = await reader.readexactly(size - 4)
        if startup[:4] == (80877103).to_bytes(4, "big"):  # TLS is asked for
            writer.write(b"N")
            size = int.from_bytes(await reader.readexactly(4), "big")
            startup = await reader.readexactly(size - 4)
        if self._shared is None:
            self._shared = await asyncio.open_connection("127.0.0.1", self._port)
            self._shared[1].write(size.to_bytes(4, "big") + startup)
            self._greeting, _ = await self._answer()
        writer.write(self._greeting)
        try:
            while True:
                first = await reader.readexactly(1)
                async with self._turn:
                    state = b"T"
                    while state != b"I":
                        ends = b"TnEZ" if await self._pass_on(first, reader) == b"H" else b"Z"
                        answer, state = await self._answer(ends)
                        writer.write(answer)
                        if state != b"I":
                            first = await reader.readexactly(1)
        except asyncio.IncompleteReadError:
            writer.close()

    async def _pass_on(self, kind: bytes, reader: asyncio.StreamReader) -> bytes:
        """One batch of messages, up to the one that asks for an answer, whose kind is returned."""
        assert self._shared is not None
        while True:
            if kind == b"X":
                raise asyncio.IncompleteReadError(b"", 1)
            head = await reader.readexactly(4)
            self._shared[1].write(kind + head + await reader.readexactly(int.from_bytes(head, "big") - 4))
            if kind in b"QSH":
                return kind
            kind = await reader.readexactly(1)

    async def _answer(self, ends: bytes = b"Z") -> tuple[bytes, bytes]:
        """Read up to a message of one of these kinds; return the bytes, and the state in ReadyForQuery."""
        assert self._shared is not None
        answer = b""
        while True:
            kind = await self._shared[0].readexactly(1)
            head = await self._shared[0].readexactly(4)
            body = await self._shared[0].readexactly(int.from_bytes(head, "big") - 4)
            answer += kind + head + body
            if kind in ends:
                return answer, body if kind == b"Z" else b"T"


def test_a_pooler_in_transaction_mode_is_refused(postgres: Postgres, schema: str) -> None:
    async def run() -> tuple[int, str]:
        async with TransactionPooler(postgres.port) as port:
            dsn = f"postgresql://postgres@127.0.0.1:{port}/postgres?sslmode=disable"
            return await asyncio.to_thread(_refused, "--storage", dsn, "--schema", schema)

    code, line = asyncio.run(run())
    assert code == 2
    assert "a pooler in transaction mode" in line and "session mode" in line


def test_it_is_another_history_if_the_tables_were_dumped_and_restored(
    postgres: Postgres, schema: str, start_daemon: Start, tmp_path: Path
) -> None:
    """The dump lacks what was acknowledged after it: epochs and producer ids continue above all that were given out."""
    daemon = start_daemon(*_overrides(postgres.dsn, schema))
    _send(daemon, "topic", b"before")
    dump = postgres.directory.parent / f"{schema}.sql"
    address = ("-h", "127.0.0.1", "-p", str(postgres.port), "-U", "postgres")
    dump.write_text(postgres.run("pg_dump", *address, "-n", schema))
    _send(daemon, "topic", b"after")
    before = _epoch_of(daemon)
    daemon.stop()
    _sql(postgres.dsn, f"drop schema {schema} cascade", "select 1")
    postgres.run("psql", "-q", *address, "-f", str(dump))
    daemon.start()
    assert len(daemon.events("database.restored")) == 1
    assert _values(daemon, "topic") == [b"before"]
    assert _epoch_of(daemon) >= before + 1_000
    assert asyncio.run(_producer_id(daemon)) >= 2**32
    daemon.stop()
    daemon.start()
    assert len(daemon.events("database.restored")) == 1  # and that is that


def _epoch_of(daemon: Daemon) -> int:
    """The leader epoch that a client gets."""
    client = AdminClient({"bootstrap.servers": daemon.bootstrap})
    wanted = TopicPartition("topic", 0)
    (answer,) = client.list_offsets({wanted: OffsetSpec.latest()}).values()
    epoch: int = answer.result(PATIENCE_S).leader_epoch
    return epoch


async def _producer_id(daemon: Daemon) -> int:
    async with Producer(bootstrap_servers=daemon.bootstrap, transactional_id="id") as producer:
        async with producer.transaction():
            await producer.send("topic", b"in a transaction")
    async with Admin(bootstrap_servers=daemon.bootstrap) as admin:
        return (await admin.describe_transaction("id")).producer_id


def test_metrics_show_what_the_tables_hold_and_how_long_the_lease_is(
    postgres: Postgres, schema: str, start_daemon: Start
) -> None:
    daemon = start_daemon(
        *_overrides(postgres.dsn, schema), "oncelog.metrics.listen=127.0.0.1:0", "oncelog.postgres.checkpoint.bytes=1"
    )
    _send(daemon, "topic", b"x" * 10_000)
    (ready,) = daemon.events("metrics.ready")
    deadline = time.monotonic() + PATIENCE_S
    while True:
        with urllib.request.urlopen(f"http://{ready['address']}/metrics", timeout=PATIENCE_S) as answer:
            text = answer.read().decode()
        found = {name: float(value) for name, value in re.findall(r"^oncelog_(tables_\w+) (\S+)$", text, re.MULTILINE)}
        if found["tables_checkpoint_bytes_total"] >= 10_000 and found["tables_bytes"] > 0:
            break
        assert time.monotonic() < deadline, found
    assert 0 < found["tables_lease_left_seconds"] <= 10
    assert found["tables_cache_bytes"] >= 10_000
    assert re.search(r"^oncelog_sync_seconds_count [1-9]", text, re.MULTILINE)
