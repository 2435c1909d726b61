"""The table of positions, and the statements that read it and move it on.

Owns: what the table looks like; the compare-and-set of a batch. Does not own: connections, whose transaction it is.
Invariant: a row moves on only from where the batch begins that moves it, and in an order that is the same for all
instances, so that two of them never wait for each other.
"""

import re
from collections.abc import Mapping
from string import Template
from typing import NamedTuple

from oncelog.client.values.errors import AbortableError, ConfigError
from oncelog.client.values.records import TopicPartition
from oncelog.sql_offsets.connections import Library, Result, Value, check_transaction, is_postgres, library_of

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?")
# 249: the longest name of a topic.
_DDL = """create table if not exists $table (
    group_id varchar(255) not null,
    topic varchar(249) not null,
    partition_index integer not null,
    next_offset bigint not null,
    primary key (group_id, topic, partition_index)
)"""
_PLACE = (
    "select nspname, relname from pg_class join pg_namespace on pg_namespace.oid = relnamespace "
    "where pg_class.oid = to_regclass(cast($v1 as text))"
)
_READ = "select topic, partition_index, next_offset from $table where group_id = $v1"
_INSERT = (
    "insert into $table (group_id, topic, partition_index, next_offset) values ($v1, $v2, $v3, $v4) "
    "on conflict do nothing"
)
_MOVE = (
    "update $table set next_offset = $v1 "
    "where group_id = $v2 and topic = $v3 and partition_index = $v4 and next_offset = $v5"
)


class PositionMoved(AbortableError):
    """The table's position is not where the batch begins: another instance has processed the batch, or an earlier
    transaction of this one was rolled back. Nothing was written. The block of the batch does not raise it further; the
    loop continues at the table's position."""

    default_hint = "let it leave your transaction, which rolls it back, and the batch's block"


class Move(NamedTuple):
    """The offsets of one partition in a batch: the first that was not processed before it, and the one after it."""

    begin: int
    end: int


class OffsetsTable:
    """The positions of one group."""

    def __init__(self, name: str, group_id: str) -> None:
        if not _NAME.fullmatch(name):
            raise ConfigError(f"table={name!r} is no name of a table", hint="letters, digits and _: 'schema.table'")
        self.name = name
        self.ddl = Template(_DDL).substitute(table=name)
        self._group_id = group_id

    async def create(self, connection: object) -> None:
        """Make the table unless it is there. Raises ConfigError if it is there, and its owner is not trusted."""
        library = library_of(connection)
        await library.execute(connection, self.ddl, ())
        if is_postgres(connection):
            await self._check_owner(library, connection)

    async def _check_owner(self, library: Library, connection: object) -> None:
        """Raise ConfigError for a table of an untrusted owner: it could run that owner's code in the program's
        transactions."""
        from oncelog.broker.storage.postgres.owners import question, stranger_of, table_named

        place = await self._execute(library, connection, _PLACE, self.name)
        for schema, name in place.rows:
            statement = question("$v1", "$v2", reads=True, is_whole=False)
            rows = await self._execute(library, connection, statement, schema, table_named(name))
            found = stranger_of(rows.rows)
            if found is not None:
                raise ConfigError(found.sentence, hint="or keep the offsets elsewhere: table='schema.table'")

    async def read(self, connection: object) -> dict[TopicPartition, int]:
        """Return the next offset of each partition that has one."""
        found = await self._execute(library_of(connection), connection, _READ, self._group_id)
        return {TopicPartition(topic, partition): next_offset for topic, partition, next_offset in found.rows}

    async def insert(self, connection: object, starts: Mapping[TopicPartition, int]) -> None:
        """Write the positions of partitions that have none; those that have one keep it."""
        library = library_of(connection)
        for (topic, partition), start in sorted(starts.items()):
            await self._execute(library, connection, _INSERT, self._group_id, topic, partition, start)

    async def move(self, connection: object, moves: Mapping[TopicPartition, Move]) -> None:
        """Move on in the transaction that is open. Raises PositionMoved, InvalidState if none is open, ConfigError for
        a connection that is not known."""
        library = library_of(connection)
        await check_transaction(library, connection)
        for (topic, partition), (begin, end) in sorted(moves.items()):
            done = await self._execute(library, connection, _MOVE, end, self._group_id, topic, partition, begin)
            if done.row_count != 1:
                raise PositionMoved(f"{topic}-{partition}: {self.name} has another position than {begin}")

    async def _execute(self, library: Library, connection: object, statement: str, *values: Value) -> Result:
        places = {f"v{place}": library.placeholder.format(place) for place in range(1, len(values) + 1)}
        return await library.execute(connection, Template(statement).substitute(places, table=self.name), values)

    def set_statement(self, place: TopicPartition, next_offset: int) -> str:
        """Return the statement by which a person sets a position."""
        group_id, topic = self._group_id.replace("'", "''"), place.topic
        where = f"group_id = '{group_id}' and topic = '{topic}' and partition_index = {place.partition}"
        return f"update {self.name} set next_offset = {next_offset} where {where}"
