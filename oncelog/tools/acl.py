"""`oncelog acl`: who may do what, as access control lists of any Kafka-compatible cluster.

Owns: the options and rows. Does not own: connecting, printing, errors (`asking`), the rules (`oncelog.client.Acl`).
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from oncelog.protocol.acls import CLUSTER_NAME, OPERATIONS, AclOperation, PatternType, ResourceType
from oncelog.tools.asking import Answer, NotFound, Session, Shown, asks, planned, principal_of
from oncelog.tools.names import GROUPS, TOPICS, TRANSACTIONAL_IDS
from oncelog.tools.terminal import Row

if TYPE_CHECKING:
    from oncelog.client.admin.descriptions import Acl, AclFilter

_OPERATIONS = sorted(each.name for each in AclOperation if each > AclOperation.ANY)
_NONE = "There is no such rule."
_Command = TypeVar("_Command", bound=Callable[..., Any])


def _resource_options(function: _Command) -> _Command:
    for option in (
        click.option("--prefixed", is_flag=True, help="The name is a prefix of the names meant."),
        click.option(
            "--user-principal",
            metavar="USER",
            help="A user for whom tokens are created: CREATE_TOKENS, DESCRIBE_TOKENS.",
        ),
        click.option("--delegation-token", metavar="ID", help="A token, to DESCRIBE it."),
        click.option("--cluster", is_flag=True, help="The cluster itself."),
        click.option("--transactional-id", metavar="ID", shell_complete=TRANSACTIONAL_IDS, help="'*' for all of them."),
        click.option("-g", "--group", "group_id", metavar="GROUP", shell_complete=GROUPS, help="'*' for all groups."),
        click.option("-t", "--topic", metavar="TOPIC", shell_complete=TOPICS, help="'*' for all topics."),
    ):
        function = option(function)
    return function


def _who_options(function: _Command) -> _Command:
    for option in (
        click.option("--host", metavar="ADDRESS", help="Only from there.  [default: everywhere]"),
        click.option("--deny", is_flag=True, help="Rules that forbid; they count more than any that allow."),
        click.option(
            "-o", "--operation", "operations", type=click.Choice(_OPERATIONS, case_sensitive=False), multiple=True
        ),
        click.option("-p", "--principal", metavar="USER", help="User:NAME, or NAME; '*' for everybody."),
    ):
        function = option(function)
    return function


class _Resource:
    """The resource that --topic, --group and the others name; every one if none is given."""

    def __init__(
        self,
        topic: str | None,
        group_id: str | None,
        transactional_id: str | None,
        user_principal: str | None,
        delegation_token: str | None,
        cluster: bool,
        prefixed: bool,
    ) -> None:
        named = {
            ResourceType.TOPIC: topic,
            ResourceType.GROUP: group_id,
            ResourceType.TRANSACTIONAL_ID: transactional_id,
            ResourceType.USER: _principal(user_principal),
            ResourceType.DELEGATION_TOKEN: delegation_token,
            ResourceType.CLUSTER: CLUSTER_NAME if cluster else None,
        }
        given = [(kind, name) for kind, name in named.items() if name is not None]
        if len(given) > 1:
            raise NotFound("name one resource at a time: --topic, --group, ...")
        self.kind = given[0][0] if given else ResourceType.ANY
        self.name = given[0][1] if given else None
        self.prefixed = prefixed
        if prefixed and (self.name is None or self.kind is ResourceType.CLUSTER):
            raise NotFound("--prefixed needs a name: --topic, --group, ...")


def _principal(name: str | None) -> str | None:
    return None if name is None else principal_of(name)


def _row(rule: "Acl") -> Row:
    return {
        "resource": rule.resource_type,
        "name": rule.resource_name,
        "pattern": rule.pattern_type,
        "principal": rule.principal,
        "host": rule.host,
        "operation": rule.operation,
        "permission": rule.permission,
    }


@click.group()
def acl() -> None:
    """Rights: list, add and remove access control rules."""


@asks(acl, "list")
@_resource_options
@click.option("--match", is_flag=True, help="Every rule that counts for this name: prefixes of it, and '*'.")
@click.option("-p", "--principal", metavar="USER", help="User:NAME, or NAME; '*' for the rules about everybody.")
async def list_(session: Session, principal: str | None, match: bool, **resource: Any) -> Shown:
    """List the rules of the cluster, or those of a resource or a user."""
    from oncelog.client.admin.descriptions import AclFilter

    of = _Resource(**resource)
    if match and (of.name is None or of.prefixed):
        raise NotFound("--match needs a name: --topic, --group, ..., without --prefixed")
    pattern = "MATCH" if match else PatternType.PREFIXED.name if of.prefixed else PatternType.ANY.name
    found = await session.admin.describe_acls(
        AclFilter(
            principal=_principal(principal), resource_type=of.kind.name, resource_name=of.name, pattern_type=pattern
        )
    )
    is_all = principal is None and of.name is None
    return Answer([_row(each) for each in found], "There is no rule." if is_all else _NONE)


@asks(acl)
@_who_options
@_resource_options
@click.option("--dry-run", is_flag=True, help="Show the rules, and stop there.")
async def add(
    session: Session,
    principal: str | None,
    operations: tuple[str, ...],
    deny: bool,
    host: str | None,
    dry_run: bool,
    **resource: Any,
) -> Shown:
    """Allow a user operations on a resource, or --deny them.

    A rule that exists already is left as it is.
    """
    from oncelog.client.admin.descriptions import Acl

    of, who = _Resource(**resource), _principal(principal)
    if of.name is None or who is None or not operations:
        raise NotFound("name a resource (--topic TOPIC, ...), a --principal USER and an --operation")
    for operation in operations:
        _check(of.kind, operation)
    rules = [
        Acl(
            principal=who,
            operation=operation,
            resource_type=of.kind.name,
            resource_name=of.name,
            pattern_type=(PatternType.PREFIXED if of.prefixed else PatternType.LITERAL).name,
            permission="DENY" if deny else "ALLOW",
            host=host or "*",
        )
        for operation in operations
    ]
    if not dry_run:
        await session.admin.create_acls(*rules)
    return planned([_row(each) for each in rules], dry_run)


def _check(kind: ResourceType, operation: str) -> None:
    """Raise NotFound for an operation that the resource does not have: the broker takes any, and the rule would have no
    effect."""
    known = [each.name for each in OPERATIONS[kind]]
    if operation not in (*known, AclOperation.ALL.name):
        raise NotFound(f"{kind.name} has no operation {operation}: ALL, {', '.join(sorted(known))}")


@asks(acl, question=lambda **_: "Remove every rule that matches (--dry-run shows them)?")
@_who_options
@_resource_options
@click.option("--dry-run", is_flag=True, help="Show the rules that would be removed, and stop there.")
async def remove(
    session: Session,
    principal: str | None,
    operations: tuple[str, ...],
    deny: bool,
    host: str | None,
    dry_run: bool,
    **resource: Any,
) -> Shown:
    """Remove rules: those of a resource, or of a user, or both.

    Without --operation, rules of every operation; with --deny only those that forbid.
    """
    from oncelog.client.admin.descriptions import AclFilter

    of, who = _Resource(**resource), _principal(principal)
    if of.name is None and who is None:
        raise NotFound("name the resource (--topic TOPIC, ...) or the --principal USER whose rules to remove")
    any_pattern = PatternType.ANY if of.name is None else PatternType.LITERAL
    filters = [
        AclFilter(
            principal=who,
            operation=operation,
            resource_type=of.kind.name,
            resource_name=of.name,
            pattern_type=(PatternType.PREFIXED if of.prefixed else any_pattern).name,
            permission="DENY" if deny else "ANY",
            host=host,
        )
        for operation in operations or ("ANY",)
    ]
    found = await _selected(session, filters) if dry_run else await session.admin.delete_acls(*filters)
    if not found:
        raise NotFound("no rule matches: `oncelog acl list` shows all of them")
    return planned([_row(each) for each in found], dry_run)


async def _selected(session: Session, filters: "list[AclFilter]") -> "list[Acl]":
    found: dict[Acl, None] = {}
    for wanted in filters:
        found.update(dict.fromkeys(await session.admin.describe_acls(wanted)))
    return list(found)
