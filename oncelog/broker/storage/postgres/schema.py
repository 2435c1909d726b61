"""The tables as they are made, version by version."""

VERSIONS = (
    """
    create table oncelog_leader(
      id int primary key check (id = 1), epoch bigint not null, place text not null, written xid8 not null);
    insert into oncelog_leader values(1, 0, '', pg_current_xact_id());
    create table oncelog_lease(id int primary key check (id = 1), owner text not null, until timestamptz not null);
    insert into oncelog_lease values(1, '', '-infinity');
    create table oncelog_answer(id int primary key check (id = 1), number bigint not null);
    insert into oncelog_answer values(1, 0);
    create table oncelog_written(id int primary key check (id = 1), number bigint not null);
    insert into oncelog_written values(1, 0);
    create table oncelog_trim(id int primary key check (id = 1), number bigint not null);
    insert into oncelog_trim values(1, 0);
    create table oncelog_journal_0(
      number bigint, part int, epoch bigint not null, body bytea not null, primary key (number, part))
      with (autovacuum_enabled = false, toast.autovacuum_enabled = false);
    alter table oncelog_journal_0 alter body set storage external;
    create table oncelog_journal_1(like oncelog_journal_0 including all)
      with (autovacuum_enabled = false, toast.autovacuum_enabled = false);
    create view oncelog_journal as
      select *, 0 as half from oncelog_journal_0 union all select *, 1 as half from oncelog_journal_1;
    create table oncelog_log(
      topic_id uuid, partition int, topic text not null, next_offset bigint not null, epochs bigint[] not null,
      snapshot bytea not null, producer_batches bytea not null, primary key (topic_id, partition));
    create table oncelog_chunk(
      id bigint primary key, topic_id uuid not null, partition int not null, segment_base bigint not null,
      base_offset bigint not null, next_offset bigint not null, checksum bigint not null,
      first_timestamp bigint not null, max_timestamp bigint not null, aborted bytea not null,
      open_producers bigint[] not null, size_bytes int not null, body bytea not null);
    alter table oncelog_chunk alter body set storage external;
    create index on oncelog_chunk(topic_id, partition, next_offset);
    create table oncelog_aside(id bigint primary key);
    create table oncelog_start(
      topic_id uuid, partition int, start_offset bigint not null, primary key (topic_id, partition));
    create table oncelog_blob(path text primary key, data bytea not null);
    """,
    """
    alter table oncelog_lease
      add column node_id int not null default -1, add column successor int not null default -1,
      add column wanted int not null default -1, add column since timestamptz not null default '-infinity';
    create table oncelog_node(
      node_id int primary key, owner text not null, addresses text not null, followed bigint not null,
      until timestamptz not null);
    drop view oncelog_journal;
    alter table oncelog_journal_0 add column is_followed boolean not null default false;
    alter table oncelog_journal_1 add column is_followed boolean not null default false;
    create view oncelog_journal as
      select *, 0 as half from oncelog_journal_0 union all select *, 1 as half from oncelog_journal_1;
    """,
    """
    create table oncelog_outbox(
      id bigint generated always as identity primary key, topic text not null, partition int, key bytea, value bytea,
      headers jsonb, at timestamptz not null default clock_timestamp());
    create table oncelog_outbox_refused(
      id bigint primary key, topic text not null, partition int, key bytea, value bytea, headers jsonb,
      at timestamptz not null, reason text not null, refused_at timestamptz not null default clock_timestamp());
    """,
)
"""The statements that lead from each version to the next, forward only."""
LOCK_VERSION = "select pg_advisory_xact_lock{}(hashtextextended('oncelog ' || current_schema(), 0))"
"""The lock by which an upgrade and a take-over exclude each other, so that the new owner of the lease knows its tables;
a take-over inserts `_shared`."""
