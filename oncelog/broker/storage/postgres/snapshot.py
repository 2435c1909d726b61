"""One transaction over all tables, for commands: it reads all of them as of one moment, or fills all of them at once.

Owns: such a transaction. Does not own: the statements (`tables`), the use of their answers.
Invariants
- `PostgresSnapshot` writes nothing and takes no lease: it works beside a broker that serves, and on a standby of
  PostgreSQL. A checkpoint in between is seen as a whole or not at all: TRUNCATE is not, so the journal is locked
  against it before anything is read.
- `PostgresImport` is committed as a whole when `commit` returns, or not at all; a broker that had the lease before can
  write nothing after it.
"""

from typing import TypeVar

from asyncpg import Connection
from asyncpg.transaction import Transaction

from oncelog.broker.storage.postgres.asked import quoted
from oncelog.broker.storage.postgres.preparing import Unusable, connect, look, prepare
from oncelog.broker.storage.postgres.session import Ask, Server, Session, close_connection
from oncelog.broker.storage.postgres.tables import within
from oncelog.broker.storage.shared.lease import LeaseHeld, epoch_jump
from oncelog.broker.storage.shared.tables import (
    GiveBackLease,
    KeepPlace,
    LookAtLease,
    Statement,
    TakeLease,
    Unanswered,
)
from oncelog.broker.system.clock import SystemEntropy
from oncelog.broker.system.coroutines import BlockingCoroutines
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.ports import Scheduler

T = TypeVar("T")
_JOURNALS = """
select relname from pg_class where relnamespace = to_regnamespace($1) and relkind = 'r'
and relname like 'oncelog\\_journal%' order by relname
"""
_USED = ("oncelog_log", "oncelog_chunk", "oncelog_start", "oncelog_blob")
_TORN_ROUNDS = "select number from {} where number > $1 group by number having count(*) <> max(part) order by number"
_LEASE_MS = 1_000


class _OneTransaction:
    def __init__(self, dsn: str, schema: str, scheduler: Scheduler, role: str) -> None:
        self._coroutines = BlockingCoroutines()
        self._server = Server(dsn, schema, self._coroutines, scheduler, role)
        self._session = Session(self._server)
        self._transaction: Transaction | None = None

    def _ask(self, ask: Ask[T]) -> T:
        """Run `ask` in the transaction. Raises OSError, after which the transaction is over."""
        return self._session.run(ask).result()

    async def _begin(self, connection: Connection, *, is_snapshot: bool) -> None:
        isolation = "repeatable_read" if is_snapshot else "read_committed"
        self._transaction = connection.transaction(isolation=isolation, readonly=is_snapshot)
        await self._transaction.start()

    async def _journals(self, connection: Connection) -> list[str]:
        return [name for (name,) in await connection.fetch(_JOURNALS, quoted(self._server.schema))]

    async def _within(self, connection: Connection, statement: Statement[T]) -> T:
        if not connection.is_in_transaction():
            raise OSError("PostgreSQL: the connection was lost")
        return await within(statement)(connection)

    def run(self, statement: Statement[T]) -> Completion[T]:
        """`run_now` as a Completion, which is done when it returns."""
        try:
            return Completion.of(self.run_now(statement))
        except OSError as error:
            return Completion.failed(error)

    def run_now(self, statement: Statement[T]) -> T:
        """Run the statement in the transaction. Raises OSError."""
        try:
            return self._ask(lambda connection: self._within(connection, statement))
        except Unanswered as error:
            raise OSError(str(error)) from error  # not to be sent again: a part of the transaction cannot be repeated

    def close(self) -> None:
        """Close the connection, and roll back unless `commit` has returned."""
        self._coroutines.run_now(self._session.close())
        self._coroutines.close()


class PostgresSnapshot(_OneTransaction):
    """Tables that are only read."""

    def __init__(self, dsn: str, schema: str, scheduler: Scheduler) -> None:
        """Connect, and begin the snapshot. Raises Unusable, OSError."""
        super().__init__(dsn, schema, scheduler, "any")
        self.journals: list[str] = []
        try:
            self._coroutines.run_now(self._look())
            self._ask(self._open)
        except (Unusable, OSError):
            self.close()
            raise

    async def _look(self) -> None:
        connection = await connect(self._server)
        try:
            await look(self._server, connection)
        finally:
            await close_connection(connection)

    async def _open(self, connection: Connection) -> None:
        self.journals = await self._journals(connection)
        await self._begin(connection, is_snapshot=True)
        await connection.execute(f"lock table {', '.join(self.journals)} in access share mode")

    def torn_rounds(self, above: int) -> list[int]:
        """List the rounds of the journal that lack one of their rows. Raises OSError."""

        async def ask(connection: Connection) -> list[int]:
            found = [await connection.fetch(_TORN_ROUNDS.format(name), above) for name in self.journals]
            return sorted(number for rows in found for (number,) in rows)

        return self._ask(ask)


class PostgresImport(_OneTransaction):
    """Empty tables that are filled."""

    def __init__(self, dsn: str, schema: str, scheduler: Scheduler, owner: str) -> None:
        """Make the tables unless they are there, and take the lease. Raises Unusable, LeaseHeld, OSError."""
        super().__init__(dsn, schema, scheduler, "primary")
        self._transaction_id = ""
        try:
            self._coroutines.run_now(prepare(self._server, may_lose=False))
            self._ask(lambda connection: self._begin(connection, is_snapshot=False))
            seen = self.run_now(LookAtLease())
            taking = TakeLease(seen, owner, _LEASE_MS, epoch_jump(SystemEntropy().random))
            taken = self.run_now(taking) if seen.left_ms <= 0 else None
            if taken is None:
                raise LeaseHeld(seen.owner)
            self.epoch, self._place = taken.epoch, taken.place
            if self._ask(self._is_used):
                raise Unusable("it has a broker's data already: name another one with --schema.")
        except (Unusable, OSError):
            self.close()
            raise

    async def _is_used(self, connection: Connection) -> bool:
        self._transaction_id = await connection.fetchval("select pg_current_xact_id()::text")
        names = (*_USED, *await self._journals(connection))
        return bool(await connection.fetchval("select " + " or ".join(f"exists(select from {name})" for name in names)))

    def commit(self) -> None:
        """Commit the import. Raises OSError; then nothing is committed, unless the message says "outcome unknown"."""

        async def ask(_: Connection) -> None:
            if self._transaction is not None:
                await self._transaction.commit()

        self.run_now(KeepPlace(self.epoch, self._place))
        self.run_now(GiveBackLease(self.epoch))
        try:
            self._ask(ask)
        except Unanswered as error:
            if not self._has_happened():
                raise OSError(str(error)) from error

    def _has_happened(self) -> bool:
        """Ask over another connection whether the import was committed. Raises OSError."""

        async def ask(connection: Connection) -> bool:
            status = await connection.fetchval("select pg_xact_status($1::text::xid8)", self._transaction_id)
            return bool(status == "committed")

        try:
            return self._ask(ask)
        except OSError as error:
            raise OSError(
                f"outcome unknown ({error}): run it again; it reports whether the first try was committed"
            ) from error
