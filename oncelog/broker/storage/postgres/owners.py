"""Ownership of objects that oncelog finds in a database: a start uses none that an untrusted owner could change.

Owns: which owners are trusted, and the sentence for the others. Does not own: when it is asked (`preparing`,
`oncelog.tools.outbox.sql`, `oncelog.sql_offsets`), over which library. It imports none.

What is written to a table, or read from a view, runs code of its owner with the rights of the role that writes or
reads: triggers, rules, defaults, policies, functions. So an object that was there first is a way to these rights, and
to the records (CVE-2020-14350 was the same in PostgreSQL's extensions).

Trusted are the role that connects; superusers, who may do everything anyway; and, for a role that is no superuser, the
owner of the database, who can replace what is in it. To read and to relay, the owner of the schema is trusted as well
by a role that is no superuser: the one who installs is another there. Membership is no trust: up to PostgreSQL 14 any
role that logs in may make another its member, unasked.
"""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

OF_BROKER = "^(oncelog_.*|relays)$"
OF_OUTBOX = "^(oncelog_.*|relays|secret|outbox)$"
"""The names of our tables and views, as regular expressions: others in the same schema are not ours to judge."""
_OBJECTS_OF_SCHEMA = """
  union all select 'function', nspname, proname || '(' || oidvectortypes(proargtypes) || ')', proowner
  from pg_proc, space where pronamespace = space.oid
  union all select 'operator', nspname, oprname::text, oprowner from pg_operator, space where oprnamespace = space.oid
  union all select 'type', nspname, typname, typowner from pg_type, space
  where typnamespace = space.oid and typcategory <> 'A'
  and not exists (select from pg_class c where c.oid = typrelid and relkind <> 'c')
  union all select 'publication', null, pubname, pubowner from pg_publication, asked
  where pubname = 'oncelog_outbox' and asked.schema = 'oncelog'
  union all select 'grant', null, space.nspname, granted.grantee
  from space, aclexplode(space.nspacl) as granted
  where not {reads} and granted.privilege_type = 'CREATE'
"""
_STRANGERS = """
select kind, name, coalesce(pg_get_userbyid(nullif(owner, 0))::text, 'public'), current_user::text from (
with recursive asked as (select cast({schema} as text) as schema, cast({names} as text) as names),
me as (
  select array_agg(oid) as oids, bool_or(rolsuper) as is_super from pg_roles
  where rolname in (current_user, session_user)),
space as (select n.oid, nspname, nspowner, nspacl from pg_namespace n, asked where nspname = asked.schema),
family(oid) as (
  select c.oid from pg_class c, space, asked
  where relnamespace = space.oid and relname ~ asked.names and relkind in ('r', 'p', 'v', 'm', 'f', 'S')
  union select inhrelid from pg_inherits join family on inhparent = family.oid),
parts(class, id, relation) as (
  select 'pg_trigger'::regclass::oid, t.oid, tgrelid from pg_trigger t join family on tgrelid = family.oid
  union all select 'pg_rewrite'::regclass::oid, r.oid, ev_class from pg_rewrite r join family on ev_class = family.oid
  union all select 'pg_attrdef'::regclass::oid, a.oid, adrelid from pg_attrdef a join family on adrelid = family.oid
  union all select 'pg_policy'::regclass::oid, p.oid, polrelid from pg_policy p join family on polrelid = family.oid
  union all select 'pg_constraint'::regclass::oid, c.oid, conrelid
  from pg_constraint c join family on conrelid = family.oid
  union all select 'pg_class'::regclass::oid, indexrelid, indrelid from pg_index join family on indrelid = family.oid),
found(kind, place, name, owner) as (
  select 'schema', null::name, nspname::text, nspowner from space
  union all select case relkind when 'v' then 'view' when 'm' then 'view' when 'S' then 'sequence' else 'table' end,
  nspname, relname, relowner from pg_class c join family on c.oid = family.oid
  join pg_namespace n on n.oid = relnamespace
  union all select 'function', nspname, proname || '(' || oidvectortypes(proargtypes) || ')', proowner from parts
  join pg_depend d on d.classid = parts.class and d.objid = parts.id and d.refclassid = 'pg_proc'::regclass::oid
  join pg_proc p on p.oid = d.refobjid join pg_namespace n on n.oid = pronamespace
  {objects}),
owned as (
  select kind, coalesce(place || '.', '') || name as name,
  case when pg_get_userbyid(owner) = 'pg_database_owner' then datdba else owner end as owner,
  datdba from found, pg_database where datname = current_database())
select kind, name, owner from owned, me
where owner <> all(me.oids) and not exists (select from pg_roles where oid = owner and rolsuper)
and not (not me.is_super and owner = datdba)
and not ({reads} and not me.is_super and owner = (select nspowner from space))
) as strangers
order by array_position(array['schema', 'table', 'view', 'sequence', 'function'], kind), name limit 1
"""
PINNED_PATH = "set search_path = pg_catalog, pg_temp"
"""The search path of a session whose statements name schemas. No object of another role takes the place of one of
PostgreSQL's own, not even in the session's temporary schema, which comes first unless it is named."""


class Stranger(NamedTuple):
    """An object that cannot be used, as a row of `question`."""

    kind: str
    name: str
    owner: str
    user: str

    @property
    def sentence(self) -> str:
        """Return the problem and its remedy, as a sentence without its full stop."""
        owner, user = _quoted(self.owner), _quoted(self.user)
        if self.kind == "grant":
            whose = "every role" if self.owner == "public" else f"the role {owner}"
            grantee = "public" if self.owner == "public" else owner
            return (
                f"{whose} may create objects in the schema {self.name}, which would run with the rights of {user}: "
                f"`revoke create on schema {_quoted(self.name)} from {grantee}`"
            )
        return (
            f"the {self.kind} {self.name} belongs to {owner}, and what its owner puts there runs with the rights of "
            f"{user}: connect as {owner} if it was made for oncelog, or have an administrator look at it and drop it"
        )


def question(schema: str, names: str, *, reads: bool, is_whole: bool = True) -> str:
    """Return the statement that finds the first object of an untrusted owner; `schema` and `names` are its two values
    as the library writes them. `reads`: nothing is made. Without `is_whole` it asks for these tables alone."""
    objects = _OBJECTS_OF_SCHEMA if is_whole else ""
    text = _STRANGERS.strip().replace("{objects}", objects).replace("{reads}", "true" if reads else "false")
    return text.replace("{schema}", schema).replace("{names}", names)


def table_named(name: str) -> str:
    """Return the regular expression of one table's name."""
    return f"^{re.escape(name)}$"


def stranger_of(rows: Sequence[Any]) -> Stranger | None:
    """Return what the rows of `question` say; None if all is ours."""
    return Stranger(*rows[0]) if rows else None


def _quoted(role: str) -> str:
    return role if re.fullmatch(r"[a-z_][a-z0-9_$]*", role) else '"' + role.replace('"', '""') + '"'
