"""How far a relay is, as the database and the target say, whether it runs or not."""

from typing import Any, Literal

from oncelog.broker.storage.postgres.outbox_rows import MEASURED, READ
from oncelog.broker.storage.shared.tables import LARGEST_BYTES
from oncelog.tools.asking import Session
from oncelog.tools.outbox import sql
from oncelog.tools.outbox.feed import Backlog, text_of
from oncelog.tools.outbox.position import OutboxError, lsn_text
from oncelog.tools.outbox.reporting import lag_seconds, place_text
from oncelog.tools.outbox.target import read_position
from oncelog.tools.terminal import Row

_SLOT = """
select active, confirmed_flush_lsn::text, (pg_current_wal_flush_lsn() - %s::pg_lsn)::bigint,
       (pg_current_wal_flush_lsn() - restart_lsn)::bigint, wal_status, safe_wal_size
from pg_replication_slots where slot_name = %s"""

_IN_ROUNDS = """
select (select count(*) from oncelog.oncelog_outbox), (select count(*) from oncelog.oncelog_outbox_refused),
       (select round(extract(epoch from clock_timestamp() - min(at) filter (where isfinite(at))), 1)::float
        from oncelog.oncelog_outbox),
       (select reason from oncelog.oncelog_outbox_refused order by refused_at desc limit 1)"""
_LOOK = f"""
with first as (select {MEASURED.format(largest=LARGEST_BYTES)} from oncelog.oncelog_outbox order by id limit 1000)
select sum(octet_length(topic) + octet_length(headers) + at + size)
from (select {READ.format(largest=LARGEST_BYTES)} from first)
as read(id, topic, key, value, headers, partition, at, size)"""
"""Reads what the broker reads when it looks for rows."""
_LATE_S = 60.0
"""How long a row that waits is in trouble: a take-over by another node takes less."""


async def status_of(session: Session, dsn: str, name: str) -> Row:
    """Return one row. Raises OutboxError if nothing is installed, psycopg.Error, KafkaError."""
    async with await sql.connect(dsn, name) as connection:
        relay = await sql.find_relay(connection, name)
        if relay is None and await sql.has_broker(connection):
            return await _in_rounds(connection)
        position = await read_position(session.admin, session.bootstrap, name, session.security)
        if relay is None:
            raise OutboxError(f"no relay {name} is installed in this database: `oncelog outbox install DSN`")
        shown: dict[str, Any] = {"name": name, "carrier": relay.carrier}
        shown["position"] = None if position is None else place_text(position)
        if relay.carrier == "poll":
            done = 0 if position is None else position.place
            rows = await _row(
                connection, "select count(*) from oncelog.outbox where batch is null or batch > %s", [done]
            )
            backlog = Backlog(rows=rows[0])
            shown["lag_rows"] = rows[0]
        else:
            place = lsn_text(relay.slot_lsn if position is None else position.place)
            slot = await _row(connection, _SLOT, [place, name])
            trouble = await sql.slot_trouble(connection, name)
            backlog = Backlog() if slot is None else Backlog(size_bytes=max(0, slot[2]), held_bytes=slot[3])
            shown["slot"] = trouble[0] if trouble else "read" if slot[0] else "idle"
            shown["lag_bytes"], shown["held_wal_bytes"] = backlog.size_bytes, backlog.held_bytes
            shown["safe_wal_bytes"] = None if slot is None else slot[5]
        lag_s = lag_seconds(position, backlog)
        shown["lag_seconds"] = None if lag_s is None else round(lag_s, 1)
        error = await _row(
            connection, "select last_error, last_error_at::text from oncelog.relays where name = %s", [name]
        )
        shown["last_error"], shown["last_error_at"] = (error[0], error[1]) if error[0] else (None, None)
    return shown


async def _in_rounds(connection: Any) -> Row:
    """Return the status of rows that a broker in the same database takes by itself."""
    rows, refused_rows, lag_s, reason = await _row(connection, _IN_ROUNDS, [])
    shown = {"carrier": "round", "lag_rows": rows, "lag_seconds": lag_s, "refused_rows": refused_rows}
    return {**shown, "last_refused": reason, "trouble": await _trouble_of(connection, lag_s or 0.0)}


async def _trouble_of(connection: Any, lag_s: float) -> str | None:
    """Return why rows are not taken, as far as the database shows it."""
    try:
        await _row(connection, _LOOK, [])
    except sql.database_error() as error:
        return f"the rows cannot be read: {text_of(error)}"
    if lag_s > _LATE_S:
        events = "outbox.look_failed, outbox.row_left, database.away"
        return f"the oldest row waits: the broker's log says why ({events}), or no broker leads"
    return None


async def troubles_of(dsn: str) -> list[tuple[str, Literal["ok", "look", "wrong"], str]]:
    """Return for each relay of a database, and for a broker in it, its name, how it is, and a sentence. Raises
    OutboxError, psycopg.Error."""
    found: list[tuple[str, Literal["ok", "look", "wrong"], str]] = []
    async with await sql.connect(dsn) as connection:
        await sql.check_owners(connection, reads=True)
        if await sql.has_broker(connection):
            row = await _in_rounds(connection)
            said = f"{row['lag_rows']} rows wait, {row['refused_rows']} are refused"
            said += f", the last one: {row['last_refused']}" if row["last_refused"] else ""
            result: Any = "wrong" if row["trouble"] else "look" if row["refused_rows"] else "ok"
            found.append(("outbox in rounds", result, row["trouble"] or said))
        for name, carrier, error in await sql.relays(connection):
            lost = None if carrier == "poll" else await sql.slot_trouble(connection, name)
            trouble = error or (lost and f"its slot is {lost[0]}")
            fine = "it has ended for no reason of its own"
            found.append((f"relay {name}", "wrong" if trouble else "ok", trouble or fine))
    return found


async def _row(connection: Any, statement: str, arguments: list[object]) -> Any:
    return await (await connection.execute(statement, arguments)).fetchone()
