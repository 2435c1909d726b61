"""The tables that a broker in memory has left, in a schema of a real PostgreSQL."""

from random import Random

from oncelog.broker.storage.shared.statements import Statements
from oncelog.broker.storage.shared.store import SharedSizes, open_store
from oncelog.broker.storage.shared.tables import AppendRound, Checkpoint, MoveStarts, NewChunk, WriteBlob
from oncelog.broker.system.clock import SystemClock
from oncelog.broker.turns.slices import Slices
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.records.batch import encode_batch
from oncelog.protocol.records.record import Record
from oncelog.tools.log.stopped_directory import NoLoop
from tests.fakes.broker import VirtualBroker
from tests.fakes.database import Database
from tests.fakes.tables import FakeTables
from tests.fakes.virtual_time import VirtualTime
from tests.support.logs.damage import END_OFFSET, fill, produce

JOURNAL_ONLY = 5
"""Number of records that are in the journal, and in no chunk."""
LOG_END = END_OFFSET + JOURNAL_ONLY
_CHECKPOINT_DUE_MS = 11_000
_CHECKPOINT_BYTES = 250_000
"""Enough for what is written to wait for its time, and little enough for that to be soon."""
_CHUNK_BYTES, _ROW_BYTES = 150, 100


def filled_database() -> Database:
    """The table of damaged files (`tests.support.logs.damage`) in chunks, and a few records behind it in the
    journal."""
    database, time = Database(), VirtualTime()
    tables = FakeTables(database, time, time, Random(1), takes_time=False)
    sizes = SharedSizes(chunk_bytes=_CHUNK_BYTES, checkpoint_bytes=_CHECKPOINT_BYTES)
    opening = Slices(time).run_own(open_store(tables, time, time, _fail, sizes=sizes))
    while not opening.done:
        time.advance(1)
    broker = VirtualBroker(store=opening.result(), time=time)
    fill(broker, time.wall_ms())
    time.advance(_CHECKPOINT_DUE_MS)
    broker.broker.logs.step()
    time.advance(1_000)
    for number in range(JOURNAL_ONLY):
        record = Record(0, time.wall_ms() + 4 * 60_000, None, b"in the journal, and only there: %d" % number)
        assert produce(broker, encode_batch([record])) == (ErrorCode.NONE, END_OFFSET + number)
    time.advance(100)
    assert database.chunks
    assert database.trimmed + JOURNAL_ONLY in database.journal
    return database


def pour(database: Database, dsn: str, schema: str) -> None:
    """Make the schema, and write all of it there."""
    from oncelog.broker.storage.postgres.snapshot import PostgresImport

    tables = PostgresImport(dsn, schema, NoLoop(), "poured")
    write, epoch = Statements(tables, NoLoop(), SystemClock()).write_now, tables.epoch
    chunks = [NewChunk(*chunk) for chunk in database.chunks.values()]
    write(Checkpoint(epoch, database.trimmed, 0, list(database.logs.values()), chunks))
    write(MoveStarts(epoch, database.starts))
    for path, data in database.blobs.items():
        write(WriteBlob(epoch, path, data))
    for number, (_, body) in sorted(database.journal.items()):
        if number > database.trimmed:
            parts = tuple(body[at : at + _ROW_BYTES] for at in range(0, len(body), _ROW_BYTES))
            assert tables.run_now(AppendRound(epoch, number, parts))
    tables.commit()
    tables.close()


def _fail(error: OSError) -> None:
    raise error
