"""The statements of `storage.shared.tables` in SQL.

Owns: the SQL, and which connection takes what: rounds have one of their own, as every producer waits for them.
Invariants
- Every statement that writes holds a lock on the row of the epoch, shared with other writers, until it is committed.
- A round that was found is as durable as one that was answered: `FindRound` writes itself, so that its commit waits for
  all that commits wait for, such as a synchronous standby. A row is visible before its own commit has waited, if that
  wait was cut short.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from itertools import groupby, islice
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from asyncpg import (
    Connection,
    DataError,
    InternalServerError,
    LockNotAvailableError,
    ProgramLimitExceededError,
)

from oncelog.broker.storage.postgres import nodes
from oncelog.broker.storage.postgres.asked import PROMISE, check_promise
from oncelog.broker.storage.postgres.outbox_rows import MEASURED, READ, read_texts
from oncelog.broker.storage.postgres.pool import Pool
from oncelog.broker.storage.postgres.produce import CHANNEL
from oncelog.broker.storage.postgres.session import Ask, Server, Session
from oncelog.broker.storage.sections import LogKey
from oncelog.broker.storage.shared.statements import RoundsLost
from oncelog.broker.storage.shared.tables import (
    AddAside,
    AppendRound,
    AttendLease,
    Catalogue,
    Checkpoint,
    ChunkRow,
    DeleteLogs,
    DropAside,
    DropChunks,
    DropNode,
    FetchChunk,
    FindRound,
    FoundRound,
    GiveBackLease,
    KeepNode,
    ListOutbox,
    LogRow,
    LookAtLease,
    LookAtOutbox,
    MeasureTables,
    MoveStarts,
    NewChunk,
    OutboxRow,
    ReadCatalogue,
    ReadRounds,
    RefuseRows,
    RenewLease,
    ReplaceChunks,
    Round,
    Statement,
    TakeLease,
    WaitingRows,
    WriteBlob,
)
from oncelog.broker.turns.completion import Completion

T = TypeVar("T")
_ROUNDS_A_PIECE = 4_096
_ROUND_BYTES_A_PIECE = 4 * 1024 * 1024
"""The size of a piece of the journal that a start reads: one is replayed in memory while the next is on its way."""
_FETCHING = 2
"""Connections that fetch chunks: a second one gives half as much again, a third one nothing."""
_OF_OWNER = 2
"""Connections that show that the owner of the lease is alive: the second is made when the first is silent."""
_PIECE_BYTES = 1024 * 1024
_PIECE_ROWS = 64
"""The part of a checkpoint that is made in one turn."""
_HALVES = ("oncelog_journal_0", "oncelog_journal_1")
_APPENDS = {
    (half, half_before): f"""
with ok as (select 1 from oncelog_leader where id = 1 and epoch = $1 for share)
insert into {_HALVES[half]}(number, part, epoch, body, is_followed)
select $2::bigint, row.part, $1, row.body, $4 from ok, unnest($3::bytea[]) with ordinality as row(body, part)
where exists (select from {_HALVES[half_before]} where number = $2::bigint - 1)
or (select number from oncelog_trim where id = 1) >= $2::bigint - 1
on conflict do nothing returning {PROMISE}
"""
    for half in (0, 1)
    for half_before in (0, 1)
}
"""The statements that append a round, by the halves of the journal: none waits for a half that a checkpoint empties."""
_APPENDS_TAKEN = {
    (half, half_before): f"""
with ok as (select 1 from oncelog_leader where id = 1 and epoch = $1 for share),
there as (select id from oncelog_outbox where id = any($5::bigint[]) and exists (select from ok) for update),
may as (
  select 1 from ok
  where (select count(*) from there) = cardinality($5::bigint[])
  and (exists (select from {_HALVES[half_before]} where number = $2::bigint - 1)
    or (select number from oncelog_trim where id = 1) >= $2::bigint - 1)
  and not exists (select from {_HALVES[half]} where number = $2::bigint)),
gone as (delete from oncelog_outbox where id = any($5::bigint[]) and exists (select from may))
insert into {_HALVES[half]}(number, part, epoch, body, is_followed)
select $2::bigint, row.part, $1, row.body, $4 from may, unnest($3::bytea[]) with ordinality as row(body, part)
returning {PROMISE}
"""
    for half in (0, 1)
    for half_before in (0, 1)
}
"""The statements that append a round with rows of the outbox. One that is sent again waits for the locks of the first
on these rows: then it finds them gone, or the first one is rolled back."""
_FIND = f"""
with answer as (update oncelog_answer set number = number + 1 where id = 1)
select coalesce((select epoch from oncelog_journal where number = $1 limit 1), -1), epoch,
exists (select from oncelog_journal where number = $1::bigint - 1)
or (select number from oncelog_trim where id = 1) >= $1::bigint - 1, {PROMISE}
from oncelog_leader where id = 1
"""
_WAITING = f"""
with first as (
  select {MEASURED.format(largest="$3")} from oncelog_outbox
  where ($4::bigint[] is null or id = any($4::bigint[])) and id <> all($5::bigint[]) order by id limit $1),
sums as (select *, sum(size) over (order by id) - size as before from first)
select {READ.format(largest="$3")}, extract(epoch from clock_timestamp() - at)::float * 1000
from sums where before < $2 order by id
"""
_IDS = "select id from oncelog_outbox where id <> all($2::bigint[]) order by id limit $1"
_UNREADABLE = (DataError, ProgramLimitExceededError, InternalServerError)
"""Errors that a value causes, rather than the connection or the server."""
_REFUSE = """
with gone as (
  delete from oncelog_outbox using unnest($1::bigint[], $2::text[]) as refused(id, reason)
  where oncelog_outbox.id = refused.id returning oncelog_outbox.*, refused.reason)
insert into oncelog_outbox_refused(id, topic, partition, key, value, headers, at, reason)
select id, topic, partition, {0}, at, reason from gone
"""
_WHOLE, _BARE = "key, value, headers", "null, null, null"
_ROUNDS = """
with above as (select greatest($1, number) as number from oncelog_trim where id = 1),
sizes as (
  select number, sum(octet_length(body)) as size from oncelog_journal
  where number > (select number from above) group by number order by number limit $2),
piece as (
  select max(number) as number
  from (select number, sum(size) over (order by number) - size as before from sizes) as sums where before < $3)
select number, half, body from oncelog_journal
where number > (select number from above) and number <= (select number from piece) order by number, part
"""
_MEASURE = """
select coalesce(sum(pg_total_relation_size(oid)), 0)::bigint from pg_class
where relkind = 'r' and relnamespace = (select relnamespace from pg_class where oid = 'oncelog_leader'::regclass)
"""
_CHUNK_COLUMNS = (
    "id, topic_id, partition, segment_base, base_offset, next_offset, size_bytes, checksum, first_timestamp,"
    " max_timestamp, aborted, open_producers"
)
_CHUNKS = f"""
select {_CHUNK_COLUMNS} from oncelog_chunk as chunk
where not exists (select from oncelog_aside as aside where aside.id = chunk.id)
"""
_ADD_CHUNK = f"""
insert into oncelog_chunk({_CHUNK_COLUMNS}, body)
values($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) on conflict do nothing
"""
_ADD_ASIDE = f"with added as ({_ADD_CHUNK} returning id) insert into oncelog_aside select id from added"
_KEEP_LOG = """
insert into oncelog_log values($1, $2, $3, $4, $5, $6, $7)
on conflict (topic_id, partition) do update set
next_offset = excluded.next_offset, epochs = excluded.epochs, snapshot = excluded.snapshot,
producer_batches = excluded.producer_batches where oncelog_log.next_offset <= excluded.next_offset
"""
_MOVE_START = """
insert into oncelog_start values($1, $2, $3) on conflict (topic_id, partition) do update
set start_offset = greatest(oncelog_start.start_offset, excluded.start_offset)
"""
_DELETE = """
delete from {0} using unnest($1::uuid[], $2::int[]) as gone(topic_id, partition)
where {0}.topic_id = gone.topic_id and {0}.partition = gone.partition
"""
_DROP_CHUNKS = """
delete from oncelog_chunk using unnest($1::uuid[], $2::int[], $3::bigint[]) as gone(topic_id, partition, below)
where oncelog_chunk.topic_id = gone.topic_id and oncelog_chunk.partition = gone.partition and next_offset <= below
"""


async def _read_catalogue(connection: Connection, _: ReadCatalogue) -> Catalogue:
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        logs = await connection.fetch("select * from oncelog_log")
        chunks = await connection.fetch(_CHUNKS)
        starts = await connection.fetch("select * from oncelog_start")
        blobs = await connection.fetch("select * from oncelog_blob")
        trimmed = await connection.fetchval("select number from oncelog_trim where id = 1")
    keys = _Keys()
    found = [_chunk_row(keys, row) for row in chunks]
    found.sort(key=attrgetter("base_offset"))
    return Catalogue(
        [_log_row(keys, *row) for row in logs],
        found,
        {keys[topic_id, partition]: start for topic_id, partition, start in starts},
        dict(blobs),
        trimmed,
    )


class _Keys(dict[LogKey, LogKey]):
    """One key for each log, however many chunks it has."""

    def __missing__(self, key: LogKey) -> LogKey:
        """Make the key. asyncpg has its own class of UUIDs, which are equal to Python's."""
        topic_id, partition = key
        self[key] = made = UUID(bytes=topic_id.bytes), partition
        return made


def _log_row(
    keys: _Keys,
    topic_id: UUID,
    partition: int,
    topic: str,
    next_offset: int,
    epochs: list[int],
    snapshot: bytes,
    producer_batches: bytes,
) -> LogRow:
    pairs = tuple(zip(epochs[::2], epochs[1::2], strict=True))
    return LogRow(keys[topic_id, partition], topic, next_offset, pairs, snapshot, producer_batches)


def _chunk_row(keys: _Keys, row: Sequence[Any]) -> ChunkRow:
    chunk_id, topic_id, partition, *facts, open_producers = row
    return ChunkRow._make((keys[topic_id, partition], chunk_id, *facts, tuple(open_producers)))


async def _read_rounds(connection: Connection, statement: ReadRounds) -> list[Round]:
    parts = await connection.fetch(_ROUNDS, statement.above, _ROUNDS_A_PIECE, _ROUND_BYTES_A_PIECE)
    rounds: list[Round] = []
    for (number, half), rows in groupby(parts, key=itemgetter(0, 1)):
        bodies = [body for _, _, body in rows]
        rounds.append(Round(number, bodies[0] if len(bodies) == 1 else b"".join(bodies), half))
    return rounds


async def _measure_tables(connection: Connection, _: MeasureTables) -> int:
    size_bytes: int = await connection.fetchval(_MEASURE)
    return size_bytes


class _Promised(NamedTuple):
    """An answer after which a record is acknowledged, with the settings under which it was committed."""

    answer: Any
    settings: Sequence[tuple[str, str]]


async def _append_round(connection: Connection, statement: AppendRound) -> _Promised:
    halves = statement.half, statement.half_before
    row = statement.epoch, statement.number, statement.bodies, statement.is_followed
    if statement.taken:
        added = await connection.fetch(_APPENDS_TAKEN[halves], *row, statement.taken)
    else:
        added = await connection.fetch(_APPENDS[halves], *row)
    return _Promised(len(added) == len(statement.bodies), added)


async def _find_round(connection: Connection, statement: FindRound) -> _Promised:
    *found, fsync, synchronous_commit = await connection.fetchrow(_FIND, statement.number)
    return _Promised(FoundRound(*found), [(fsync, synchronous_commit)])


async def _look_at_outbox(connection: Connection, statement: LookAtOutbox) -> WaitingRows:
    limits = statement.row_count, statement.size_bytes, statement.largest_bytes
    try:
        found = await connection.fetch(_WAITING, *limits, statement.ids, statement.left)
    except _UNREADABLE as error:
        return WaitingRows((), 0, f"PostgreSQL: {error}")
    encoding = connection.get_settings().server_encoding
    return WaitingRows([_outbox_row(encoding, *row[:-1]) for row in found], found[0][-1] if found else 0)


def _outbox_row(
    encoding: str,
    row_id: int,
    topic: bytes | None,
    key: bytes | None,
    value: bytes | None,
    headers: bytes | None,
    partition: int | None,
    at_ms: int,
    size_bytes: int,
) -> OutboxRow:
    name, text, problem = read_texts(topic, headers, encoding)
    return OutboxRow(row_id, name, partition, key, value, text, at_ms, size_bytes, problem)


async def _list_outbox(connection: Connection, statement: ListOutbox) -> list[int]:
    rows = await connection.fetch(_IDS, statement.row_count, statement.left)
    return [row_id for (row_id,) in rows]


async def _refuse_rows(connection: Connection, statement: RefuseRows) -> None:
    with suppress(InternalServerError):
        await _move_refused(connection, statement.reasons)
        return
    for row_id, reason in statement.reasons:  # a move reads what is out of line
        try:
            await _move_refused(connection, [(row_id, reason)])
        except InternalServerError as error:
            why = f"{reason}; its key, value and headers are not kept, as PostgreSQL cannot read them: {error}"
            await _move_refused(connection, [(row_id, why)], _BARE)


async def _move_refused(connection: Connection, reasons: Sequence[tuple[int, str]], columns: str = _WHOLE) -> None:
    async with connection.transaction():
        await connection.execute(_REFUSE.format(columns), *map(list, zip(*reasons, strict=True)))


async def _fetch_chunk(connection: Connection, statement: FetchChunk) -> bytes | None:
    body: bytes | None = await connection.fetchval("select body from oncelog_chunk where id = $1", statement.id)
    return body


async def _add_new_chunks(connection: Connection, statement: Checkpoint) -> None:
    """Send as many chunks at a time as one message holds: only these are in memory, and the loop is free in between."""
    piece: list[NewChunk] = []
    size_bytes = 0
    for chunk in statement.chunks:
        piece.append(chunk)
        size_bytes += len(chunk.body)
        if size_bytes >= _PIECE_BYTES or len(piece) == _PIECE_ROWS:
            await _add_chunks(connection, piece)
            piece, size_bytes = [], 0
    await _add_chunks(connection, piece)


async def _checkpoint(connection: Connection, statement: Checkpoint) -> None:
    rows = iter(statement.logs)
    while piece := list(islice(rows, _PIECE_ROWS)):
        await connection.executemany(
            _KEEP_LOG,
            [
                (*row.key, row.topic, row.next_offset, [number for pair in row.epochs for number in pair], *row[4:])
                for row in piece
            ],
        )
    await connection.execute("update oncelog_trim set number = $1 where id = 1 and number < $1", statement.trimmed)
    await _trim(connection, statement)


async def _trim(connection: Connection, statement: Checkpoint) -> None:
    """Delete the rounds that the checkpoint covers. They are not read any more: a broker writes a checkpoint only once
    it has found its last round there.

    TRUNCATE takes no time and leaves nothing to VACUUM, but needs an exclusive lock. It is not waited for, as a dump or
    an export may hold the table for hours."""
    kept, emptied = _HALVES[statement.half], _HALVES[1 - statement.half]
    await connection.execute(f"delete from {kept} where number <= $1", statement.trimmed)  # at most after a start
    if not await connection.fetchval("select pg_relation_size($1::text::regclass)", emptied):
        return
    try:
        async with connection.transaction():
            await connection.execute(f"lock table {emptied} in access exclusive mode nowait")
            is_more = await connection.fetchval(
                f"select exists (select from {emptied} where number > $1)", statement.trimmed
            )
            if not is_more:
                await connection.execute(f"truncate {emptied}")
                return
    except LockNotAvailableError:
        pass
    await connection.execute(f"delete from {emptied} where number <= $1", statement.trimmed)


async def _add_chunks(connection: Connection, chunks: Sequence[NewChunk]) -> None:
    await connection.executemany(_ADD_CHUNK, _rows_of(chunks))


def _rows_of(chunks: Sequence[NewChunk]) -> list[tuple[Any, ...]]:
    return [(row.id, *row.key, *row[2:10], list(row.open_producers), body) for row, body in chunks]


async def _add_aside(connection: Connection, statement: AddAside) -> None:
    await connection.executemany(_ADD_ASIDE, _rows_of(statement.chunks))


async def _replace_chunks(connection: Connection, statement: ReplaceChunks) -> None:
    await connection.execute("delete from oncelog_chunk where id = any($1)", statement.ids)
    await connection.execute("delete from oncelog_aside where id = any($1)", statement.added)


async def _drop_aside(connection: Connection, _: DropAside) -> None:
    await connection.execute("delete from oncelog_chunk where id in (select id from oncelog_aside)")
    await connection.execute("delete from oncelog_aside")


async def _drop_chunks(connection: Connection, statement: DropChunks) -> None:
    await connection.execute(_DROP_CHUNKS, *_columns(statement.below), list(statement.below.values()))


async def _move_starts(connection: Connection, statement: MoveStarts) -> None:
    await connection.executemany(_MOVE_START, [(*key, offset) for key, offset in statement.starts.items()])


async def _delete_logs(connection: Connection, statement: DeleteLogs) -> None:
    for table in ("oncelog_log", "oncelog_chunk", "oncelog_start"):
        await connection.execute(_DELETE.format(table), *_columns(statement.keys))


def _columns(keys: Iterable[LogKey]) -> tuple[list[UUID], list[int]]:
    return [topic_id for topic_id, _ in keys], [partition for _, partition in keys]


async def _write_blob(connection: Connection, statement: WriteBlob) -> None:
    if statement.data is None:
        await connection.execute("delete from oncelog_blob where path = $1", statement.path)
    else:
        await connection.execute(
            "insert into oncelog_blob values($1, $2) on conflict (path) do update set data = excluded.data",
            statement.path,
            statement.data,
        )


_ASKED: dict[type, Callable[[Connection, Any], Awaitable[Any]]] = {
    **nodes.ASKED,
    ReadCatalogue: _read_catalogue,
    ReadRounds: _read_rounds,
    MeasureTables: _measure_tables,
    AppendRound: _append_round,
    FindRound: _find_round,
    LookAtOutbox: _look_at_outbox,
    ListOutbox: _list_outbox,
    FetchChunk: _fetch_chunk,
}
_WRITTEN: dict[type, Callable[[Connection, Any], Awaitable[str | None]]] = {
    Checkpoint: _checkpoint,
    AddAside: _add_aside,
    ReplaceChunks: _replace_chunks,
    DropAside: _drop_aside,
    DropChunks: _drop_chunks,
    MoveStarts: _move_starts,
    DeleteLogs: _delete_logs,
    WriteBlob: _write_blob,
    **nodes.WRITTEN,
    RefuseRows: _refuse_rows,
}
"""The functions that run in a transaction that holds the lease; their answer, if any, takes the place of True."""
_WRITTEN_BEFORE: dict[type, Callable[[Connection, Any], Awaitable[None]]] = {Checkpoint: _add_new_chunks}
"""The functions that run in the same transaction before it has the lease: they take long, and a take-over waits for
transactions that have it."""


_COUNT = """
update oncelog_written set number = number + 1 where id = 1
returning number, coalesce((select max(number) from oncelog_journal), 0), (select number from oncelog_trim where id = 1)
"""


class _LeaseLost(Exception):
    """Raised to roll the transaction back."""


def within(statement: Statement[T]) -> Ask[T]:
    """Return the function that runs the statement in a transaction which has the lease already, or writes nothing."""

    async def ask(connection: Connection) -> Any:
        write = _WRITTEN.get(type(statement))
        if write is None:
            return await _ASKED[type(statement)](connection, statement)
        write_before = _WRITTEN_BEFORE.get(type(statement))
        if write_before is not None:
            await write_before(connection, statement)
        return await write(connection, statement) or True

    return ask


class _Progress:
    """The number of statements that were written beside rounds, and the newest round, as far as this broker knows."""

    def __init__(self, *, may_lose: bool = False) -> None:
        self.newest = self.newest_round = 0
        self._may_lose = may_lose

    def accept(self, statement: Statement[Any], promised: _Promised) -> Any:
        """Return the answer. Raises NotAsAsked if a crash may lose it, because a reload has changed the settings since
        the start."""
        if not self._may_lose:
            for settings in promised.settings:
                check_promise(*settings)
        if promised.answer and isinstance(statement, AppendRound):
            self.newest_round = max(self.newest_round, statement.number)
        return promised.answer

    async def count(self, connection: Connection) -> int:
        """Count the statement, at the end of its transaction. Raises RoundsLost if there is less than there was: the
        next checkpoint would trim rounds that a lost one had covered, and a snapshot would have records of lost rounds.
        """
        newest_round = self.newest_round  # as of now: more may be answered while this is on its way
        number, *rounds = await connection.fetchrow(_COUNT)
        if number <= self.newest or max(rounds) < newest_round:
            raise RoundsLost
        return int(number)


def _asked(statement: Statement[T], progress: _Progress) -> Ask[T]:
    write, write_before = _WRITTEN.get(type(statement)), _WRITTEN_BEFORE.get(type(statement))

    async def ask(connection: Connection) -> Any:
        if write is None:
            answer = await _ASKED[type(statement)](connection, statement)
            return progress.accept(statement, answer) if isinstance(answer, _Promised) else answer
        try:
            async with connection.transaction():
                if write_before is not None:
                    await write_before(connection, statement)
                epoch = await connection.fetchval("select epoch from oncelog_leader where id = 1 for share")
                if epoch != statement.epoch:  # type: ignore[attr-defined]
                    raise _LeaseLost
                answer = await write(connection, statement)
                number = progress.newest if type(statement) in _UNCOUNTED else await progress.count(connection)
        except _LeaseLost:
            return False
        progress.newest = max(progress.newest, number)
        return answer or True

    return ask


_UNCOUNTED = (RenewLease, GiveBackLease, RefuseRows)
"""Statements that are not counted: they wait for no other writer, and no checkpoint depends on them."""
_OF_LEASE = (LookAtLease, TakeLease, RenewLease)
"""Statements with connections of their own, so that they never queue behind one that takes long."""
_BESIDE_MS = 600_000
"""The time limit of a checkpoint, which moves all that was produced since the last one."""


class PostgresTables:
    def __init__(self, server: Server, *, may_lose: bool = False) -> None:
        """`may_lose` accepts that a crash of the server loses acknowledged records."""
        self._rounds, self._reads, self._node = [Session(server) for _ in range(3)]
        self._lease, self._attending = [Pool([Session(server) for _ in range(_OF_OWNER)]) for _ in range(2)]
        self._outbox = Session(server, on_connected=self._listen)
        self._on_rows: Callable[[], None] | None = None
        self._fetches = Pool([Session(server) for _ in range(_FETCHING)])
        self._beside = Session(server, answer_ms=_BESIDE_MS)
        self._sessions = (
            *(*self._attending.sessions, self._node, self._rounds, self._reads, *self._lease.sessions, self._beside),
            self._outbox,
            *self._fetches.sessions,
        )
        self._progress = _Progress(may_lose=may_lose)

    def run(self, statement: Statement[T]) -> Completion[T]:
        session: Session | Pool
        if isinstance(statement, AppendRound | FindRound):
            session = self._rounds
        elif isinstance(statement, _OF_LEASE):
            session = self._lease
        elif isinstance(statement, AttendLease):
            session = self._attending
        elif isinstance(statement, KeepNode | DropNode):
            session = self._node
        elif isinstance(statement, FetchChunk):
            session = self._fetches
        elif isinstance(statement, LookAtOutbox | ListOutbox | RefuseRows):
            session = self._outbox
        else:
            session = self._reads if type(statement) in _ASKED else self._beside
        return session.run(_asked(statement, self._progress))

    def run_now(self, statement: Statement[T]) -> T:
        return self._beside.run_now(_asked(statement, self._progress))

    def watch_outbox(self, on_rows: Callable[[], None]) -> None:
        """Call `on_rows` after a transaction with rows was committed; a call may be missed."""
        self._on_rows = on_rows

    async def _listen(self, connection: Connection) -> None:
        def on_notification(*_: object) -> None:
            if self._on_rows is not None:
                self._on_rows()

        await connection.add_listener(CHANNEL, on_notification)

    async def close(self) -> None:
        for session in self._sessions:
            await session.close()
