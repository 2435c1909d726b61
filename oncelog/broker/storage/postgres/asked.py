"""The settings that each of our sessions asks of PostgreSQL, and the check that it has them.

Owns: the settings, and the message that names those that differ. Does not own: a driver: `LOOK` has no parameters, so
that each can send it.

A server, a database, a role or a pooler may have set anything else. A pooler that ignores the settings of a connection
leaves its session in another schema, where another cluster may be: so each new connection compares what it asked for
with what it has.
"""

from collections.abc import Iterable, Mapping

SETTINGS: Mapping[str, str] = {
    "default_transaction_isolation": "read committed",
    "default_transaction_read_only": "off",
    "idle_in_transaction_session_timeout": "15s",
    "lock_timeout": "0",
    "statement_timeout": "0",
}
"""Settings that are sent as a connection begins. A take-over waits for transactions that hold the lease, so that of a
broker which was stopped in the middle must end."""
WISHES: Mapping[str, str] = {
    "application_name": "oncelog",
    "tcp_keepalives_idle": "5",  # what a machine that is gone had begun holds locks
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": "3",
}
"""Settings that are sent as well, and not compared: a name is only for people, and only TCP has keepalives."""
_SET_LATER: Mapping[str, str] = {
    "jit": "off",  # our statements read a few rows; a table that was never analyzed looks large, and is compiled for
    "idle_session_timeout": "0",
    "transaction_timeout": "0",
}
"""Settings that are made once there is a connection: a server that is older than one of them (17 for the last), or a
PgBouncer that does not know it, would refuse a connection that sends it."""
LOOK = f"""
select later.name, set_config(later.name, value, false)
from unnest(array{[*_SET_LATER]}, array{[*_SET_LATER.values()]}) as later(name, value)
where later.name in (select name from pg_settings)
union all select name, current_setting(name) from unnest(array{[*SETTINGS, "search_path"]}) as sent(name)
union all select 'current_schema', nullif(current_schema()::text, pg_my_temp_schema()::regnamespace::text)
"""
"""The query whose rows `check_session` takes. While the schema does not exist yet, the search path falls through to the
one for temporary tables."""
LONGEST_NAME_BYTES = 63
PROMISE = "current_setting('fsync'), current_setting('synchronous_commit')"
"""The columns that `check_promise` takes. They are the DBA's choice, so no session sets them; a reload may change them
at any time."""


class NotAsAsked(Exception):
    """Raised when a session lacks what it asked for; the message says what to do."""


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def search_path(schema: str) -> str:
    """Return the search path to the tables. The temporary schema, which comes first unless it is named, comes last."""
    return f"{quoted(schema)}, pg_temp"


def check_session(schema: str, rows: Iterable[tuple[str, str | None]]) -> None:
    """Raise NotAsAsked unless the rows of `LOOK` have all that a session in this schema asked for."""
    wanted = {**SETTINGS, **_SET_LATER, "search_path": search_path(schema), "current_schema": schema}
    others = [
        f"{name} is {value!r}"
        for name, value in rows
        if value != wanted[name] and not (name == "current_schema" and value is None)  # it is not there yet
    ]
    if others:
        raise NotAsAsked(
            f"for the schema {schema} a session has other settings than it asked for: {', '.join(others)}. Name "
            "PostgreSQL itself, or have the pooler before it pass on what a connection sets (PgBouncer: none of these "
            "in ignore_startup_parameters)."
        )


def check_name(schema: str) -> None:
    """Raise NotAsAsked for a schema name that PostgreSQL would truncate: two could become the same."""
    size_bytes = len(schema.encode())
    if size_bytes > LONGEST_NAME_BYTES:
        raise NotAsAsked(
            f"the schema {schema} has a name of {size_bytes} bytes, and PostgreSQL takes at most "
            f"{LONGEST_NAME_BYTES}: choose a shorter one with --schema."
        )


def loss_by(fsync: str, synchronous_commit: str) -> str | None:
    """Return how a crash may lose acknowledged records under these settings; None if it may not."""
    if fsync == "off":
        return "a crash of its machine may lose anything (fsync=off)"
    if synchronous_commit == "off":
        return "a crash of PostgreSQL may lose what was acknowledged last (synchronous_commit=off)"
    return None


def check_promise(fsync: str, synchronous_commit: str) -> None:
    """Raise NotAsAsked if a crash may lose acknowledged records."""
    if (loss := loss_by(fsync, synchronous_commit)) is not None:
        raise NotAsAsked(
            f"{loss}: turn it on, or start with --override oncelog.postgres.allow.loss=true if that is wanted."
        )
