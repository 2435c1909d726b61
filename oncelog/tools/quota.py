"""`oncelog quota`: how much clients may have, in any Kafka-compatible cluster (KIP-546).

Owns: the options and rows. Does not own: connecting, printing, errors (`asking`), what a quota means: that is the
broker's.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from oncelog.protocol.printable import printable_names
from oncelog.tools.asking import (
    Answer,
    NotFound,
    Session,
    Shown,
    asks,
    did_you_mean,
    planned,
    settings,
    with_setting_text,
)
from oncelog.tools.terminal import Row

if TYPE_CHECKING:
    from oncelog.client.admin.security import ClientQuota

_DEFAULT = "<default>"
"""The text by which Kafka's tools show users and client ids without a quota of their own."""
Entity = dict[str, str | None]
"""The entity of a quota, as the client has it: None is the default."""


@click.group()
def quota() -> None:
    """Quotas of users, client ids and addresses: list, set and remove them."""


def _entity_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option("--ip-defaults", is_flag=True, help="Every address without one of its own."),
        click.option("--ip", metavar="ADDRESS"),
        click.option("--client-defaults", is_flag=True, help="Every client id without one of its own."),
        click.option("--client-id", metavar="ID"),
        click.option("--user-defaults", is_flag=True, help="Every user without one of its own."),
        click.option("--user", metavar="USER", help="With --client-id: that client of this user alone."),
    ):
        function = option(function)
    return function


def _entity(
    user: str | None,
    user_defaults: bool,
    client_id: str | None,
    client_defaults: bool,
    ip: str | None,
    ip_defaults: bool,
) -> Entity:
    """Raises UsageError for a name beside its default."""
    entity: Entity = {}
    for kind, name, is_default in (
        ("user", user, user_defaults),
        ("client-id", client_id, client_defaults),
        ("ip", ip, ip_defaults),
    ):
        if name is not None and is_default:
            raise click.UsageError(f"Name one {kind}, or its defaults.")
        if name is not None or is_default:
            entity[kind] = name
    return entity


def _named(**options: Any) -> Entity:
    entity = _entity(**options)
    if not entity:
        raise click.UsageError("Name the entity: --user, --client-id, both, or --ip, or one of the defaults.")
    return entity


def _row(entity: Mapping[str, str | None], name: str, value: float) -> Row:
    return {
        **{kind.replace("-", "_"): _shown(entity, kind) for kind in ("user", "client-id", "ip")},
        "quota": name,
        "value": int(value) if value.is_integer() else value,
    }


def _shown(entity: Mapping[str, str | None], kind: str) -> str | None:
    if kind not in entity:
        return None
    name = entity[kind]
    return _DEFAULT if name is None else name


def _rows(quotas: "list[ClientQuota]") -> list[Row]:
    rows = [_row(each.entity, name, value) for each in quotas for name, value in each.values.items()]
    return sorted(rows, key=lambda row: [str(value or "") for value in row.values()])


@asks(quota, "list")
@_entity_options
async def list_(session: Session, **options: Any) -> Shown:
    """List the quotas that are set.

    Or those in which a user, a client id or an address has a part.
    """
    entity = _entity(**options)
    found = await session.admin.describe_client_quotas(entity)
    nothing = "No quota is like that." if entity else "No quota is set."
    return Answer(_rows(found), nothing, in_table=with_setting_text)


def _numbers(context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> dict[str, float]:
    """Parse NAME=NUMBER, repeated, as a click callback."""
    try:
        return {name: float(text) for name, text in settings(context, parameter, texts).items()}
    except ValueError as error:
        raise click.BadParameter(f"a quota is a number: {error}") from error


@asks(quota, "set")
@click.argument("values", metavar="QUOTA=NUMBER...", nargs=-1, required=True, callback=_numbers)
@_entity_options
@click.option("--dry-run", is_flag=True, help="Let the broker check it, and change nothing.")
async def set_(session: Session, values: dict[str, float], dry_run: bool, **options: Any) -> Shown:
    """Set quotas, such as producer_byte_rate=1MiB; others stay.

    Names: producer_byte_rate and consumer_byte_rate (bytes a second), request_percentage, controller_mutation_rate
    (partitions a second); of addresses connection_creation_rate (connections a second).
    """
    entity = _named(**options)
    await session.admin.alter_client_quotas(entity, values, validate_only=dry_run)
    return planned([_row(entity, name, value) for name, value in values.items()], dry_run, with_setting_text)


def _remove_question(names: tuple[str, ...], **_: Any) -> str:
    return f"Remove {printable_names(names)} there?" if names else "Remove all quotas there?"


@asks(quota, question=_remove_question)
@click.argument("names", metavar="[QUOTA]...", nargs=-1)
@_entity_options
@click.option("--dry-run", is_flag=True, help="Show the quotas that would be removed, and stop there.")
async def remove(session: Session, names: tuple[str, ...], dry_run: bool, **options: Any) -> Shown:
    """Remove quotas of a user, a client id or an address.

    All of them, or those that are named.
    """
    entity = _named(**options)
    found = await session.admin.describe_client_quotas(entity, strict=True)
    there = {name: value for each in found for name, value in each.values.items()}
    for name in names:
        if name not in there:
            raise NotFound(f"{name!r} is not set there{did_you_mean(name, there)}; `oncelog quota list` shows what is")
    if not there:
        raise NotFound("no quota is set for that entity; `oncelog quota list` shows what is")
    chosen = names or tuple(there)
    if not dry_run:
        await session.admin.alter_client_quotas(entity, dict.fromkeys(chosen))
    return planned([_row(entity, name, there[name]) for name in chosen], dry_run, with_setting_text)
