"""`produce`: the SQL function that an application calls in its own transaction, as text.

Owns: its arguments and its refusals, which are the same wherever it carries the records: into the outbox of a broker in
the same database, or to a relay (`oncelog.tools.outbox`). A refusal fails the transaction of the caller, and nothing is
lost. The right to call it is granted with GRANT.

pg_temp is last in the search path: types and functions that a caller has there are not taken for PostgreSQL's. Headers
become pairs of text, so that a number stays as it was written. They are UTF-8, whatever the database has: one of
SQL_ASCII takes any bytes for text, and no record could have them.

The size is that of what is carried, before PostgreSQL compresses it: a few megabytes of a table may be hundreds.

A notification only makes it faster: the broker or relay polls for rows as well. PostgreSQL prepares no transaction
that has notified (PREPARE TRANSACTION), so where transactions can be prepared none is sent, unless `oncelog.notify` is
on.
"""

from oncelog.broker.storage.shared.tables import LARGEST_BYTES

CHANNEL = "oncelog_outbox"
"""The channel of the notification that there are rows."""
_BASE = """
create or replace function {schema}.produce(
    topic text, key bytea, value bytea, headers jsonb default null, partition integer default null
) returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $produce$
declare
    pairs jsonb;
    size bigint := coalesce(octet_length(key), 0)::bigint + coalesce(octet_length(value), 0);
begin
    if topic is null or topic !~ '^[a-zA-Z0-9._-]{1,249}$' or topic in ('.', '..') then
        raise exception 'oncelog.produce: % is no name of a topic', coalesce(quote_literal(topic), 'null');
    end if;
    if starts_with(topic, '__') then
        raise exception 'oncelog.produce: % is an internal topic', topic;
    end if;
    if partition < 0 then
        raise exception 'oncelog.produce: there is no partition %', partition;
    end if;
    if jsonb_typeof(headers) = 'object' then
        select jsonb_agg(jsonb_build_array(each.key, each.value)) into pairs from jsonb_each_text(headers) as each;
    elsif headers is not null then
        if jsonb_typeof(headers) <> 'array' or exists (
            select from jsonb_array_elements(headers) as pair
            where jsonb_typeof(pair) <> 'array' or jsonb_array_length(pair) <> 2 or jsonb_typeof(pair -> 0) <> 'string'
        ) then
            raise exception 'oncelog.produce: headers are an object of JSON, or an array of pairs';
        end if;
        select jsonb_agg(jsonb_build_array(pair ->> 0, pair ->> 1)) into pairs
        from jsonb_array_elements(headers) as pair;
    end if;
    if pairs is not null then
        begin
            size := size + octet_length(convert_to(pairs::text, 'UTF8'));
        exception when character_not_in_repertoire or untranslatable_character then
            raise exception 'oncelog.produce: headers are text in UTF-8: %', sqlerrm using errcode = sqlstate;
        end;
    end if;
    if size > {largest} then
        raise exception 'oncelog.produce: the record has % bytes, and at most {largest} are taken', size
        using errcode = 'program_limit_exceeded';
    end if;
    {carry}
end
$produce$"""
_TEXT = """
create or replace function {schema}.produce(
    topic text, key text, value {kind}, headers jsonb default null, partition integer default null
) returns void language sql as $produce$
    select {schema}.produce(
        topic, pg_catalog.convert_to(key, 'UTF8'), pg_catalog.convert_to(value::pg_catalog.text, 'UTF8'),
        headers, partition
    )
$produce$"""
_ARGUMENTS = (
    "text, bytea, bytea, jsonb, integer",
    "text, text, text, jsonb, integer",
    "text, text, jsonb, jsonb, integer",
)
NOTIFY = f"""if current_setting('max_prepared_transactions') = '0'
            or lower(coalesce(current_setting('oncelog.notify', true), '')) in ('on', 'true', 'yes', '1') then
            perform pg_notify('{CHANNEL}', '');
        end if;"""
_TO_OUTBOX = f"""insert into {{schema}}.oncelog_outbox (topic, key, value, headers, partition)
        values (topic, key, value, pairs, partition);
        {NOTIFY}"""


def functions(schema: str) -> tuple[str, ...]:
    """Return the names of the functions with their arguments; `schema` is quoted."""
    return tuple(f"{schema}.produce({arguments})" for arguments in _ARGUMENTS)


def definitions(schema: str, carry: str) -> tuple[str, ...]:
    """Return the statements that make or replace the functions; `carry` is the SQL that takes a record."""
    base = _BASE.replace("{carry}", carry).replace("{schema}", schema).replace("{largest}", str(LARGEST_BYTES))
    return base, *(_TEXT.replace("{schema}", schema).replace("{kind}", kind) for kind in ("text", "jsonb"))


def into_outbox(schema: str) -> tuple[str, ...]:
    """Return the statements that make or replace the functions of a broker whose tables are in `schema`."""
    return definitions(schema, _TO_OUTBOX.replace("{schema}", schema))
