"""`oncelog log` with a DSN: tables in a real PostgreSQL are read, exported and imported as a directory is."""

import asyncio
import json
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from oncelog.broker.system.disk import RealDisk
from oncelog.cli import main
from oncelog.installing import how_to_install
from oncelog.testing.memory_disk import MemoryDisk
from oncelog.tools.log.stopped_directory import NoLoop
from tests.fakes.broker import VirtualBroker
from tests.fakes.database import Database
from tests.support.logs.damage import TOPIC, fill, read_committed
from tests.support.logs.data_directories import load, store
from tests.support.postgres.exported import contents as files_of
from tests.support.postgres.exported import exported
from tests.support.postgres.poured import JOURNAL_ONLY, LOG_END, filled_database, pour
from tests.support.postgres.server import Postgres

asyncpg = pytest.importorskip("asyncpg", reason="asyncpg is not installed")
PARTITION = f"{TOPIC}-0"
_schemas = count()


@pytest.fixture(scope="module")
def database() -> Database:
    return filled_database()


class Tables:
    """A schema of its own."""

    def __init__(self, postgres: Postgres) -> None:
        self.dsn = postgres.dsn
        self.schema = f"log_{next(_schemas)}"

    def log(self, command: str, *arguments: str | Path) -> Result:
        """Run `oncelog log COMMAND DSN ARGUMENTS`."""
        return CliRunner().invoke(main, ["log", command, self.dsn, *map(str, arguments), "--schema", self.schema])

    def bring(self, directory: Path, *more: str) -> Result:
        return CliRunner().invoke(main, ["log", "import", str(directory), self.dsn, "--schema", self.schema, *more])

    def run(self, statement: str, *values: Any) -> list[Any]:
        async def ask() -> list[Any]:
            connection = await asyncpg.connect(self.dsn, server_settings={"search_path": self.schema})
            try:
                found: list[Any] = await connection.fetch(statement, *values)
                return found
            finally:
                await connection.close()

        return asyncio.run(ask())

    def everything(self) -> dict[str, list[Any]]:
        names = [name for (name,) in self.run("select tablename from pg_tables where schemaname = current_schema")]
        return {name: sorted(self.run(f"select {name}::text from {name}")) for name in names}


@pytest.fixture
def empty(postgres: Postgres) -> Tables:
    return Tables(postgres)


@pytest.fixture
def tables(empty: Tables, database: Database) -> Tables:
    pour(database, empty.dsn, empty.schema)
    return empty


def contents(directory: Path) -> dict[str, bytes]:
    files = [path for path in sorted(directory.rglob("*")) if path.is_file() and path.name != ".lock"]
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}


# --- reading ----------------------------------------------------------------------------------------------------------


def test_whole_tables_are_found_whole_and_left_as_they_are(tables: Tables) -> None:
    before = tables.everything()
    result = tables.log("verify")
    assert result.exit_code == 0, result.output
    assert "all partitions are intact" in result.output
    assert f"{PARTITION}  " in result.output
    assert f"0 to {LOG_END - 1}" in result.output
    assert tables.everything() == before


CHUNK = (
    "(select id from oncelog_chunk join oncelog_log using (topic_id, partition)"
    f" where topic = '{TOPIC}' order by base_offset {{}} limit 1)"
)
JOURNALS = ("oncelog_journal_0", "oncelog_journal_1")
ROUND = f"(select number from oncelog_trim) + {JOURNAL_ONLY // 2}"
DAMAGE = {
    "a bit of a chunk": (
        f"update oncelog_chunk set body = set_byte(body, 70, get_byte(body, 70) # 1) where id = {CHUNK.format('')}",
        "chunk ",
    ),
    "the end of a chunk": (
        f"update oncelog_chunk set body = substr(body, 1, 80) where id = {CHUNK.format('')}",
        "chunk ",
    ),
    "the checksum of a chunk": (
        f"update oncelog_chunk set checksum = checksum # 1 where id = {CHUNK.format('')}",
        "though each batch is valid",
    ),
    "the bytes of a chunk": (f"update oncelog_chunk set body = '' where id = {CHUNK.format('')}", "it ends before"),
    "the first chunk": (f"delete from oncelog_chunk where id = {CHUNK.format('')}", "what comes before it is gone"),
    "a chunk": (f"delete from oncelog_chunk where id = {CHUNK.format('offset 2')}", "what comes before it is gone"),
    "the last chunk": (f"delete from oncelog_chunk where id = {CHUNK.format('desc')}", "no chunk holds them"),
    "the end of the log": (
        f"update oncelog_log set next_offset = 10 where topic = '{TOPIC}'",
        "the catalogue does not have it",
    ),
    "the row of the log": (f"delete from oncelog_log where topic = '{TOPIC}'", "the catalogue"),
    "producers": (
        f"update oncelog_log set snapshot = set_byte(snapshot, 12, get_byte(snapshot, 12) # 1) where topic = '{TOPIC}'",
        "its producers in the catalogue cannot be read",
    ),
    "aborted transactions": (
        "update oncelog_chunk set aborted = substr(aborted, 2) where length(aborted) > 0",
        "the aborted transactions of chunk",
    ),
    "a round": (f"delete from oncelog_journal where number = {ROUND}", "the journal lacks round"),
    "a row of a round": (f"delete from oncelog_journal where number = {ROUND} and part = 1", "lacks one of its rows"),
    "a batch in the journal": (
        "update oncelog_journal set body = set_byte(body, length(body) - 1, get_byte(body, length(body) - 1) # 1)"
        f" where (number, part) = (select number, max(part) from oncelog_journal where number = {ROUND} group by 1)",
        "the journal",
    ),
    "the metadata log": (
        "update oncelog_chunk set body = set_byte(body, 70, get_byte(body, 70) # 1) where topic_id ="
        " '00000000-0000-0000-0000-000000000001'",
        "__cluster_metadata-0",
    ),
}


@pytest.mark.sampled(8)
@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_named_and_nothing_of_it_is_exported(tables: Tables, tmp_path: Path, damage: str) -> None:
    """Every kind of damage is found, reported with its place, and what is damaged becomes no directory."""
    statement, told = DAMAGE[damage]
    for journal in JOURNALS if "oncelog_journal" in statement else ("",):
        tables.run(statement.replace("oncelog_journal", journal))
    result = tables.log("verify")
    assert result.exit_code == 1, result.output
    assert told in result.output
    assert "Nothing was changed" in result.output
    as_json = json.loads(tables.log("verify", "--json").stdout)
    assert as_json["problems"] or [entry for entry in as_json["partitions"] if entry["damaged"]]
    refused = tables.log("export", tmp_path / "out")
    assert refused.exit_code == 1, refused.output
    assert list(tmp_path.iterdir()) == []


def test_dump_and_map_show_what_the_files_would(tables: Tables, tmp_path: Path) -> None:
    """`dump` and `map` print of the tables what they print of the exported files."""
    assert tables.log("export", tmp_path / "out").exit_code == 0
    directory = tmp_path / "out" / PARTITION
    logs = [path for path in sorted(directory.iterdir()) if path.suffix in (".log", ".txnindex")]
    of_files = CliRunner().invoke(main, ["log", "dump", *map(str, logs), "--print-data-log"])
    named = [f"{PARTITION}/{path.name}" for path in logs]
    of_tables = tables.log("dump", *named, "--print-data-log")
    assert of_tables.exit_code == of_files.exit_code == 0
    assert of_tables.output == of_files.output.replace(f"{tmp_path}/out/", "")
    everything = tables.log("dump", PARTITION).output
    assert f"{PARTITION}/{LOG_END:020d}.snapshot" in everything.splitlines()
    drawn = CliRunner().invoke(main, ["log", "map", str(directory)])
    assert tables.log("map", PARTITION).output == drawn.output
    assert drawn.exit_code == 0


@pytest.mark.parametrize("command", ["dump", "map"])
def test_partition_that_is_not_there_is_reported_with_those_that_are(tables: Tables, command: str) -> None:
    result = tables.log(command, "nothing-0")
    assert result.exit_code == 2
    assert PARTITION in result.output


def test_damaged_chunk_is_shown_where_it_is(tables: Tables) -> None:
    tables.run(DAMAGE["a bit of a chunk"][0].replace("70", "68"))  # of a first batch, whose checksum covers it
    for command in ("dump", "map"):
        result = tables.log(command, PARTITION)
        assert result.exit_code == 1, result.output
        assert "checksum" in result.output


def test_checkpoint_in_between_is_not_seen_in_halves(tables: Tables) -> None:
    """A read sees one moment, though rounds move into chunks meanwhile, and no journal can be truncated."""
    from oncelog.broker.storage.postgres.snapshot import PostgresSnapshot
    from oncelog.broker.storage.shared.tables import ReadCatalogue, ReadRounds

    snapshot = PostgresSnapshot(tables.dsn, tables.schema, NoLoop())
    before = snapshot.run_now(ReadCatalogue())
    tables.run("update oncelog_trim set number = number + 3")
    assert tuple(snapshot.journals) == JOURNALS
    for journal in JOURNALS:
        tables.run(f"delete from {journal}")
        with pytest.raises(asyncpg.LockNotAvailableError):
            tables.run(f"do $$begin lock table {journal} in access exclusive mode nowait; end$$")
    rounds = snapshot.run_now(ReadRounds(before.trimmed))
    assert [found.number for found in rounds] == [before.trimmed + 1 + slot for slot in range(len(rounds))]
    assert len(rounds) >= JOURNAL_ONLY
    snapshot.close()


# --- into files and back ----------------------------------------------------------------------------------------------


def test_exported_directory_is_what_the_tables_have(tables: Tables, database: Database, tmp_path: Path) -> None:
    """It has the bytes that the same tables give elsewhere, is whole, and a broker continues from it."""
    result = tables.log("export", tmp_path / "out")
    assert result.exit_code == 0, result.output
    wanted = files_of(exported(database))
    assert contents(tmp_path / "out") == {name: data for name, data in wanted.items() if name != ".lock"}
    verified = CliRunner().invoke(main, ["log", "verify", str(tmp_path / "out")])
    assert verified.exit_code == 0, verified.output
    assert list(tmp_path.iterdir()) == [tmp_path / "out"]
    broker = VirtualBroker(disk=load(tmp_path / "out"))
    seen = read_committed(broker)
    assert seen.is_right
    assert not seen.missing


def test_exported_directory_can_graduate(tables: Tables, tmp_path: Path) -> None:
    assert tables.log("export", tmp_path / "out").exit_code == 0
    listeners = "listeners=PLAINTEXT://127.0.0.1:9092"
    arguments = ["graduate", str(tmp_path / "out"), "--out", str(tmp_path / "kafka"), "--override", listeners]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output


def test_export_that_ends_in_the_middle_leaves_nothing(
    tables: Tables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No directory of that name is left, and the next attempt works."""
    from oncelog.tools.log.tables import export

    def end(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(export._Filling, "close", end)
        assert tables.log("export", tmp_path / "out").exit_code != 0
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "out.exporting").mkdir()
    (tmp_path / "out.exporting" / "left by a kill").touch()
    assert tables.log("export", tmp_path / "out").exit_code == 0
    assert not (tmp_path / "out" / "left by a kill").exists()


def test_directory_that_is_not_empty_is_left_alone(tables: Tables, tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    result = tables.log("export", tmp_path)
    assert result.exit_code == 2
    assert "not empty" in result.output
    assert list(tmp_path.iterdir()) == [tmp_path / "mine"]


@pytest.fixture(params=["clean stop", "kill -9"])
def directory(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    disk = MemoryDisk()
    disk.notes.is_possible = False  # they are in the memory of the machine
    broker = VirtualBroker(disk=disk)
    fill(broker, broker.time.wall_ms())
    if request.param == "clean stop":
        broker.broker.logs.close()
    (tmp_path / "data").mkdir()
    store(broker.disk, tmp_path / "data")
    return tmp_path / "data"


def test_imported_directory_comes_back(empty: Tables, directory: Path, tmp_path: Path) -> None:
    """Import changes nothing in the directory; what is exported then has the records to the byte, and another import
    and export the same files."""
    before = contents(directory)
    result = empty.bring(directory)
    assert result.exit_code == 0, result.output
    assert contents(directory) == before
    assert empty.log("verify").exit_code == 0
    assert empty.log("export", tmp_path / "once").exit_code == 0
    once = contents(tmp_path / "once")
    assert [data for name, data in once.items() if name.endswith(".log") and TOPIC in name] == [
        data for name, data in logs_of(directory).items() if TOPIC in name
    ]
    again = Tables.__new__(Tables)
    again.dsn, again.schema = empty.dsn, f"{empty.schema}_again"
    assert again.bring(tmp_path / "once", "--json").exit_code == 0
    assert again.log("export", tmp_path / "twice").exit_code == 0
    assert contents(tmp_path / "twice") == once


def logs_of(directory: Path) -> dict[str, bytes]:
    """The logs after a start, which restores records that only the journal has."""
    broker = VirtualBroker(disk=load(directory))
    broker.broker.logs.close()
    return {name: data for name, data in sorted(files_of(broker.disk).items()) if name.endswith(".log")}


def test_a_schema_that_is_not_empty_is_refused(tables: Tables, directory: Path) -> None:
    before = tables.everything()
    result = tables.bring(directory)
    assert result.exit_code == 2
    assert "has a broker's data already" in result.output
    assert tables.everything() == before


def test_a_schema_with_a_broker_at_work_is_refused(empty: Tables, directory: Path) -> None:
    assert empty.bring(directory / "nothing").exit_code == 2
    pour(Database(), empty.dsn, empty.schema)
    empty.run("update oncelog_lease set owner = 'another', until = clock_timestamp() + interval '1 hour'")
    result = empty.bring(directory)
    assert result.exit_code == 2
    assert "another is at work" in result.output


def test_a_directory_that_is_served_is_refused(empty: Tables, directory: Path) -> None:
    disk = RealDisk(directory)
    disk.lock()
    result = empty.bring(directory)
    disk.close()
    assert result.exit_code == 2
    assert "stop it first" in result.output


def test_a_damaged_directory_is_refused_and_nothing_is_imported(empty: Tables, directory: Path) -> None:
    broker = VirtualBroker(disk=load(directory))
    broker.broker.logs.close()
    store(broker.disk, directory)
    log = directory / PARTITION / f"{12:020d}.log"
    data = bytearray(log.read_bytes())
    data[100] ^= 1
    log.write_bytes(data)
    result = empty.bring(directory)
    assert result.exit_code == 1, result.output
    assert f"{12:020d}.log" in result.output
    assert "nothing was imported" in result.output
    assert empty.run("select * from oncelog_chunk") == []


def test_a_killed_import_has_not_happened(empty: Tables, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its connection is cut in the middle: nothing is there, no node has a lease, and the next attempt goes through."""
    from oncelog.tools.log.tables import filling

    def cut(source: Any, log: Any) -> Any:
        if log.topic == TOPIC:
            pids = "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'oncelog'"
            with ThreadPoolExecutor(1) as beside:  # a loop runs here
                assert len(beside.submit(empty.run, pids).result()) == 1
        return row_of(source, log)

    row_of = filling._row_of
    with monkeypatch.context() as patch:
        patch.setattr(filling, "_row_of", cut)
        result = empty.bring(directory)
        assert result.exit_code == 2, result.output
        assert "oncelog" in result.output
    assert empty.run("select * from oncelog_chunk") == []
    assert empty.run("select * from oncelog_log") == []
    assert empty.bring(directory).exit_code == 0


def test_an_import_whose_last_answer_is_lost_says_what_has_happened(
    empty: Tables, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from asyncpg.transaction import Transaction

    async def commit(self: Transaction) -> None:
        await done(self)
        raise ConnectionResetError("cut")

    done = Transaction.commit
    with monkeypatch.context() as patch:
        patch.setattr(Transaction, "commit", commit)
        assert empty.bring(directory).exit_code == 0
    assert empty.log("verify").exit_code == 0


# --- the output -------------------------------------------------------------------------------------------------------

COMMANDS: dict[str, Callable[[Path], tuple[str, ...]]] = {
    "verify": lambda _: (),
    "dump": lambda _: (PARTITION,),
    "map": lambda _: (PARTITION,),
    "export": lambda directory: (str(directory / "out"),),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_what_cannot_be_read_is_one_line_with_what_to_do(
    tables: Tables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """No server, no rights, no schema, a newer one, no driver: each ends with a sentence and 2, and never with the
    password."""
    arguments = COMMANDS[command](tmp_path)

    def told(dsn: str, schema: str) -> str:
        result = CliRunner().invoke(main, ["log", command, dsn, *arguments, "--schema", schema])
        assert result.exit_code == 2, result.output
        assert result.output.startswith("oncelog: ")
        assert result.output.count("\n") == 1
        assert "secret" not in result.output
        return result.output

    assert "is PostgreSQL running there?" in told("postgresql://somebody:secret@127.0.0.1:1/x", tables.schema)
    assert "this is no DSN" in told("postgresql://somebody@127.0.0.1:secret/x", tables.schema)
    assert "name another one with --schema" in told(tables.dsn, "elsewhere")
    tables.run("do $$begin if not exists (select from pg_roles where rolname = 'reader') then"
               " create role reader login; end if; end$$")  # fmt: skip
    assert "grant usage on schema" in told(tables.dsn.replace("postgres@", "reader@"), tables.schema)
    tables.run("insert into oncelog_schema values(1000)")
    assert "newer" in told(tables.dsn, tables.schema)
    for module in [name for name in sys.modules if name.startswith("oncelog.broker.storage.postgres.")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    assert how_to_install("postgres") in told(tables.dsn, tables.schema)
    assert list(tmp_path.iterdir()) == []


def test_a_reader_needs_no_more_than_to_read(tables: Tables) -> None:
    """A user with USAGE and SELECT alone may verify."""
    name = f"reader_of_{tables.schema}"
    for grant in (
        f"create role {name} login",
        f"grant usage on schema {tables.schema} to {name}",
        f"grant select on all tables in schema {tables.schema} to {name}",
    ):
        tables.run(grant)
    tables.dsn = tables.dsn.replace("postgres@", f"{name}@")
    result = tables.log("verify")
    assert result.exit_code == 0, result.output
