"""A batch of records, and the move of its positions in the user's transaction.

Owns: the operations on a batch, and its outcome at the end of its block. Does not own: the transaction, which is the
user's; reading (`offsets`). Invariant: a batch counts as processed only if its block, which is around the transaction,
has ended without an exception; else the table is read again.
"""

import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, overload

from oncelog.client.values.errors import ConfigError, InvalidState
from oncelog.client.values.records import ConsumerRecords, K, Record, TopicPartition, V
from oncelog.sql_offsets.connections import library_of
from oncelog.sql_offsets.table import Move, OffsetsTable, PositionMoved

T = TypeVar("T")
_log = logging.getLogger("oncelog.client")


class SqlBatch(Sequence[Record[K, V]], Generic[K, V]):
    """Some records, processed once: `async with batch, <your transaction>: await batch.advance(connection)`.

    The block of the batch is around that of the transaction, so that it sees whether it was committed. An exception in
    it is raised, and if the loop continues, the same records come again; PositionMoved is not raised further.
    """

    def __init__(
        self,
        records: ConsumerRecords[K, V],
        moves: Mapping[TopicPartition, Move],
        table: OffsetsTable,
        on_end: Callable[["SqlBatch[Any, Any]"], None],
    ) -> None:
        self.records = records
        """The records, with the offsets behind them: `records.next_offsets`."""
        self.moves = moves
        """The positions of each partition before and after the batch."""
        self.committed = False
        """True once the block has ended without an exception: the transaction was committed."""
        self.error: PositionMoved | None = None
        """Why the batch was not committed, if it was not raised."""
        self.has_ended = False
        """True once the block was left."""
        self._table = table
        self._on_end = on_end
        self._is_entered = False
        self._has_advanced = False

    async def advance(self, connection: object) -> None:
        """Move the table's positions from the batch's begin to its end, in the transaction that is open on
        `connection`: at best before anything else, since it waits here for an instance that does the same.

            await batch.advance(connection)

        Raises PositionMoved, InvalidState if no transaction is open or the batch was not entered, ConfigError for a
        connection of another library, and what the connection raises.
        """
        if not self._is_entered or self.has_ended:
            raise InvalidState("the batch's block is not open", hint="`async with batch:` around the transaction")
        self._has_advanced = False
        await self._table.move(connection, self.moves)
        self._has_advanced = True

    async def __aenter__(self) -> Self:
        self._enter()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        return self._end(error)

    def _enter(self) -> None:
        if self._is_entered:
            raise InvalidState("a batch can be entered only once: one that is not committed comes again by itself")
        self._is_entered = True

    def _end(self, error: BaseException | None) -> bool:
        """End the block; returns whether the error is not raised further."""
        self.has_ended = True
        self.committed = error is None and self._has_advanced
        self._on_end(self)
        if isinstance(error, PositionMoved):
            self.error = error
            _log.info("a batch of %d records was rolled back: %s", len(self.records), error.message)
            return True
        if error is None and not self._has_advanced:
            text = "the batch's block ended without advance(): what was written is committed, and not the position"
            raise InvalidState(text, hint="await batch.advance(connection) in each transaction of a batch")
        return False

    def __len__(self) -> int:
        return len(self.records)

    @overload
    def __getitem__(self, index: int) -> Record[K, V]: ...

    @overload
    def __getitem__(self, index: slice) -> list[Record[K, V]]: ...

    def __getitem__(self, index: int | slice) -> Record[K, V] | list[Record[K, V]]:
        return self.records[index]


class BlockingSqlBatch(Sequence[Record[K, V]], Generic[K, V]):
    """`SqlBatch` for a consumer of `oncelog.sync`: `with batch, <your transaction>: batch.advance(connection)`."""

    def __init__(self, batch: SqlBatch[K, V]) -> None:
        self._batch = batch

    def advance(self, connection: object) -> None:
        """Move the table's positions on in the transaction that is open on `connection`. Raises as
        `SqlBatch.advance`, and ConfigError for an asynchronous connection."""
        if library_of(connection).is_async:
            raise ConfigError("a blocking program cannot use an asynchronous connection", hint="oncelog.Consumer can")
        _result_of(self._batch.advance(connection))

    def __enter__(self) -> Self:
        self._batch._enter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        return self._batch._end(error)

    @property
    def records(self) -> ConsumerRecords[K, V]:
        """The records, with the offsets behind them: `records.next_offsets`."""
        return self._batch.records

    @property
    def moves(self) -> Mapping[TopicPartition, Move]:
        """The positions of each partition before and after the batch."""
        return self._batch.moves

    @property
    def committed(self) -> bool:
        """True once the block has ended without an exception: the transaction was committed."""
        return self._batch.committed

    @property
    def error(self) -> PositionMoved | None:
        """Why the batch was not committed, if it was not raised."""
        return self._batch.error

    def __len__(self) -> int:
        return len(self._batch)

    @overload
    def __getitem__(self, index: int) -> Record[K, V]: ...

    @overload
    def __getitem__(self, index: slice) -> list[Record[K, V]]: ...

    def __getitem__(self, index: int | slice) -> Record[K, V] | list[Record[K, V]]:
        return self._batch.records[index]


def _result_of(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that waits for nothing, since its connection is a blocking one."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    work.close()
    raise InvalidState("a blocking connection has waited for an event loop")
