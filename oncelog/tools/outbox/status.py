"""How far a relay is, as the database and the target say, whether it runs or not."""

from typing import Any

from oncelog.tools.asking import Session
from oncelog.tools.outbox import sql
from oncelog.tools.outbox.feed import Backlog
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
       (select round(extract(epoch from clock_timestamp() - min(at)), 1)::float from oncelog.oncelog_outbox)"""


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
    """What a broker in the same database takes by itself."""
    rows, refused_rows, lag_s = await _row(connection, _IN_ROUNDS, [])
    return {"carrier": "round", "lag_rows": rows, "lag_seconds": lag_s, "refused_rows": refused_rows}


async def _row(connection: Any, statement: str, arguments: list[object]) -> Any:
    return await (await connection.execute(statement, arguments)).fetchone()
