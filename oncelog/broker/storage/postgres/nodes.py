"""The lease and the nodes in SQL.

Owns: the row of the lease, the locks by which a connection shows that its owner is alive, and the queries of a node
that stands by. Does not own: which connection takes each statement (`tables`), what follows from the answers
(`storage.shared.lease`, `succession`).

The row of the epoch also says where the database was when it was written last: on which server and timeline, in which
transaction. A row that was restored from a dump is of another transaction than it says.
"""

import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from asyncpg import Connection, InsufficientPrivilegeError

from oncelog.broker.storage.postgres.schema import LOCK_VERSION, VERSIONS
from oncelog.broker.storage.shared.tables import (
    Attendance,
    AttendLease,
    DropNode,
    Followed,
    FollowMetadata,
    ForgetPlace,
    GiveBackLease,
    KeepNode,
    KeepPlace,
    KeptNode,
    Lease,
    LookAtLease,
    LookAtNodes,
    NewerTables,
    NodeAddress,
    NodeRow,
    ReadBlobs,
    RenewLease,
    SeenNodes,
    TakeLease,
    TakenLease,
    WantLeader,
)
from oncelog.protocol.topics import METADATA_TOPIC_ID

_OURS = "'oncelog_leader'::regclass::oid"
"""The first half of the keys of our advisory locks: of these tables, and of no others."""
_EPOCH_KEY = "(epoch & 2147483647)::int"
_IS_OURS = f"locktype = 'advisory' and classid = {_OURS}"
_OF_EPOCH = f"{_IS_OURS} and objsubid = 2 and objid = {_EPOCH_KEY}::oid"
"""The lock with a key of two ints, which shows that the owner of the lease in this epoch is alive."""
_OF_NODE = f"{_IS_OURS} and objsubid = 1 and objid = $1::int::oid"
"""The lock with a key of one bigint, which shows that this node is alive."""
_OUR_DATABASE = "database = (select oid from pg_database where datname = current_database())"
_RENEWED = "(extract(epoch from nullif(until, '-infinity')) * 1000000)::bigint"
_LOOK = f"""
select epoch, owner, coalesce({_RENEWED}, 0),
coalesce(extract(epoch from nullif(until, '-infinity') - clock_timestamp()) * 1000, 0)::float,
exists (select from pg_locks where {_OF_EPOCH} and {_OUR_DATABASE}), node_id, successor,
coalesce(extract(epoch from clock_timestamp() - nullif(since, '-infinity')) * 1000, 0)::float, wanted
from oncelog_leader as leader, oncelog_lease as lease where leader.id = 1 and lease.id = 1
"""
"""The query for the lease. It names the keys, as all queries of tables with one row: before their first ANALYZE these
look large to the planner."""
_PLACE = """
(select system_identifier || '/' from pg_control_system()) || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)
"""
_IS_SAME_HISTORY = "xmin::text::numeric = mod(written::text::numeric, 4294967296::numeric)"
"""False of a row that was restored from a dump. The casts make PostgreSQL's own functions exact matches: no function of
the schema can be a better one."""
_FOUND = f"{_PLACE} || ' ' || ({_IS_SAME_HISTORY})"
_WHERE = f"select {_FOUND} from oncelog_leader where id = 1"
_VERSION = "select max(version) from oncelog_schema"
_UNKEPT = "'unkept '"
"""The prefix of a place in which the epoch has moved past the lost ones already, but which no `KeepPlace` has kept: a
broker that fails at each start must not use up all epochs."""
_EPOCH = f"""
select epoch, place = {_PLACE} and {_IS_SAME_HISTORY}, place = {_UNKEPT} || {_PLACE} and {_IS_SAME_HISTORY}
from oncelog_leader where id = 1 for update
"""
_END_OTHERS = f"""
select pg_terminate_backend(pid) from pg_locks, oncelog_lease
where relation = 'oncelog_leader'::regclass and mode = 'RowShareLock' and pid <> pg_backend_pid()
and id = 1 and coalesce({_RENEWED}, 0) = $1
"""
"""The statement that ends the transactions of the owner before: a broker that is suspended in the middle of one would
hold its lock on the epoch for as long."""
_OWNER = f"select owner, coalesce({_RENEWED}, 0) from oncelog_lease where id = 1"
_TAKE_EPOCH = f"""
update oncelog_leader set epoch = $2, written = pg_current_xact_id(),
place = case when $1 then '' else {_UNKEPT} end || {_PLACE} where id = 1
"""
_TAKE_LEASE = """
update oncelog_lease set owner = $1, until = clock_timestamp() + $2 * interval '1 ms', node_id = $3, successor = -1,
wanted = -1, since = clock_timestamp() where id = 1
"""
_DEPOSE = "update oncelog_node set until = clock_timestamp() where owner = $1 and until > clock_timestamp()"
"""The statement that marks the node of the owner before as ended, for clients; if it is alive, it renews its row."""
_RENEW = """
update oncelog_lease set until = clock_timestamp() + $1 * interval '1 ms' where id = 1 and until > '-infinity'
"""
_KEEP_PLACE = f"""
update oncelog_leader set written = pg_current_xact_id(), place = {_PLACE} where id = 1 and {_FOUND} = $1
"""
_ATTEND = f"""
select case when epoch <> $1 then 'NONE'
when exists (select from pg_locks where {_OF_EPOCH} and pid = pg_backend_pid()) then 'KEPT'
when pg_try_advisory_lock({_OURS}::int, {_EPOCH_KEY}) then 'BEGUN'
when (select bool_and(pg_terminate_backend(pid)) from pg_locks where {_OF_EPOCH} and {_OUR_DATABASE}) then 'NONE'
else 'NONE' end from oncelog_leader where id = 1
"""
"""The statement that takes the lock of the epoch, which only its owner takes. Another connection that has it is a lost
one of the same owner: it is ended, as the server would keep the lock until it notices the loss."""
_HAS_NODE = f"""
select exists (select from pg_locks where {_OF_NODE} and pid = pg_backend_pid())
or pg_try_advisory_lock({_OURS}::bigint << 32 | $1::int)
"""
_KEEP_NODE = """
insert into oncelog_node values($1, $2, $3, $4, clock_timestamp() + $5 * interval '1 ms')
on conflict (node_id) do update set owner = excluded.owner, followed = excluded.followed, until = excluded.until,
addresses = coalesce(nullif(excluded.addresses, '[]'), oncelog_node.addresses)
"""
_NODES = """
select node_id, owner, addresses, followed, until <= clock_timestamp(),
(extract(epoch from until - clock_timestamp()) * 1000)::float from oncelog_node order by node_id
"""
_NEWEST = "select coalesce((select max(number) from oncelog_journal), 0), number from oncelog_trim where id = 1"
_FOLLOWED_CHUNKS = """
select body from oncelog_chunk as chunk where topic_id = $1 and partition = 0 and next_offset > $2
and not exists (select from oncelog_aside as aside where aside.id = chunk.id) order by base_offset
"""
_FOLLOWED_ROUNDS = """
select string_agg(body, ''::bytea order by part) from oncelog_journal
where number > $1 and is_followed group by number order by number
"""
_LOCK_JOURNAL = "lock table oncelog_journal_0, oncelog_journal_1 in access share mode"


async def _look_at_lease(connection: Connection, _: LookAtLease) -> Lease:
    return Lease(*await connection.fetchrow(_LOOK))


async def _take_lease(connection: Connection, statement: TakeLease) -> TakenLease | None:
    seen = statement.seen
    await _check_version(connection)  # a release that is too old to lead must end no transactions
    with suppress(InsufficientPrivilegeError):  # the broker before had another role; its transactions end by themselves
        await connection.execute(_END_OTHERS, seen.renewed)
    async with connection.transaction():
        await connection.execute(LOCK_VERSION.format("_shared"))
        await _check_version(connection)  # once more: now it stays
        epoch, is_here, has_jumped = await connection.fetchrow(_EPOCH)  # the epoch first, as all who write
        owner, renewed = await connection.fetchrow(_OWNER)
        if owner == statement.owner:  # an answer was lost
            return TakenLease(epoch, not is_here, await connection.fetchval(_WHERE))
        if (epoch, renewed) != (seen.epoch, seen.renewed):
            return None
        is_here = is_here or not epoch
        epoch += 1 if is_here or has_jumped else statement.jump
        await connection.execute(_TAKE_EPOCH, is_here, epoch)
        await connection.execute(_TAKE_LEASE, statement.owner, statement.lease_ms, statement.node_id)
        if renewed:  # it was not given back
            await connection.execute(_DEPOSE, owner)
        place = await connection.fetchval(_WHERE)
    return TakenLease(epoch, not is_here, place)


async def _check_version(connection: Connection) -> None:
    """Raises NewerTables."""
    version = await connection.fetchval(_VERSION)
    if version > len(VERSIONS):
        raise NewerTables(version, len(VERSIONS))


async def _renew_lease(connection: Connection, statement: RenewLease) -> str:
    await connection.execute(_RENEW, statement.lease_ms)
    place: str = await connection.fetchval(_WHERE)
    return place


async def _attend_lease(connection: Connection, statement: AttendLease) -> Attendance:
    return Attendance[await connection.fetchval(_ATTEND, statement.epoch)]


async def _give_back_lease(connection: Connection, statement: GiveBackLease) -> None:
    await connection.execute(
        "update oncelog_lease set until = '-infinity', successor = $1 where id = 1", statement.successor
    )


async def _keep_node(connection: Connection, statement: KeepNode) -> KeptNode:
    row = statement.row
    is_kept = await connection.fetchval(_HAS_NODE, row.node_id)
    if is_kept:
        addresses = json.dumps(row.addresses)
        await connection.execute(_KEEP_NODE, row.node_id, row.owner, addresses, row.followed, statement.lease_ms)
        await connection.execute("delete from oncelog_node where until < clock_timestamp() - interval '10 min'")
        return KeptNode(is_kept, row.owner, 0)
    found = await connection.fetchrow(
        "select owner, (extract(epoch from until) * 1000000)::bigint from oncelog_node where node_id = $1", row.node_id
    )
    return KeptNode(is_kept, *(found or ("", 0)))


async def _drop_node(connection: Connection, statement: DropNode) -> None:
    await connection.execute(
        "update oncelog_node set until = clock_timestamp(), followed = -1 where node_id = $1 and owner = $2",
        *(statement.node_id, statement.owner),
    )


async def _look_at_nodes(connection: Connection, _: LookAtNodes) -> SeenNodes:
    nodes = [
        NodeRow(node_id, owner, tuple(NodeAddress(*each) for each in json.loads(addresses)), *rest)
        for node_id, owner, addresses, *rest in await connection.fetch(_NODES)
    ]
    newest, trimmed = await connection.fetchrow(_NEWEST)
    return SeenNodes(
        nodes, max(newest, trimmed), await connection.fetchval("select wanted from oncelog_lease where id = 1")
    )


async def _want_leader(connection: Connection, statement: WantLeader) -> None:
    await connection.execute("update oncelog_lease set wanted = $1 where id = 1", statement.node_id)


async def _read_blobs(connection: Connection, statement: ReadBlobs) -> dict[str, bytes]:
    return dict(await connection.fetch("select * from oncelog_blob where starts_with(path, $1)", statement.prefix))


async def _follow_metadata(connection: Connection, statement: FollowMetadata) -> Followed:
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        # Before there is a snapshot: one that is older than the lock lacks what a checkpoint has moved, and finds the
        # journal empty.
        await connection.execute(_LOCK_JOURNAL)
        newest, trimmed = await connection.fetchrow(_NEWEST)
        chunks: list[Any] = []
        if trimmed > statement.above:
            chunks = await connection.fetch(_FOLLOWED_CHUNKS, METADATA_TOPIC_ID, statement.from_offset)
        rounds = await connection.fetch(_FOLLOWED_ROUNDS, max(statement.above, trimmed))
        start_offset = await connection.fetchval(
            "select start_offset from oncelog_start where topic_id = $1 and partition = 0", METADATA_TOPIC_ID
        )
    return Followed(max(newest, trimmed), start_offset or 0, [body for (body,) in chunks], [body for (body,) in rounds])


async def _keep_place(connection: Connection, statement: KeepPlace) -> None:
    await connection.execute(_KEEP_PLACE, statement.place)


async def _forget_place(connection: Connection, _: ForgetPlace) -> None:
    await connection.execute("update oncelog_leader set place = '' where id = 1")


ASKED: dict[type, Callable[[Connection, Any], Awaitable[Any]]] = {
    LookAtLease: _look_at_lease,
    TakeLease: _take_lease,
    AttendLease: _attend_lease,
    KeepNode: _keep_node,
    DropNode: _drop_node,
    LookAtNodes: _look_at_nodes,
    WantLeader: _want_leader,
    ReadBlobs: _read_blobs,
    FollowMetadata: _follow_metadata,
    ForgetPlace: _forget_place,
}
WRITTEN: dict[type, Callable[[Connection, Any], Awaitable[str | None]]] = {
    RenewLease: _renew_lease,
    GiveBackLease: _give_back_lease,
    KeepPlace: _keep_place,
}
"""The functions that run in a transaction that holds the lease; their answer, if any, takes the place of True."""
