"""`oncelog config`: the settings of topics, groups and brokers.

Owns: the options and rows. Does not own: connecting, printing, errors (`asking`).
"""

from collections.abc import Callable
from typing import Any, Literal

import click

from oncelog.tools.asking import (
    NUMBER,
    Answer,
    NotFound,
    Session,
    Shown,
    asks,
    did_you_mean,
    not_empty,
    pairs,
    planned,
    require_broker,
    settings,
    with_setting_text,
)
from oncelog.tools.names import GROUPS, TOPICS


@click.group()
def config() -> None:
    """Describe and alter the settings of a topic, a group, a broker, or all brokers."""


def _resource(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option("--all-brokers", is_flag=True, help="What is set for all brokers at once."),
        click.option("--broker", metavar="ID", type=NUMBER),
        click.option("--group", metavar="NAME", type=not_empty, shell_complete=GROUPS),
        click.option("--topic", metavar="NAME", type=not_empty, shell_complete=TOPICS),
    ):
        function = option(function)
    return function


def _named(topic: str | None, group: str | None, broker: int | None, all_brokers: bool) -> dict[str, Any]:
    if [topic is not None, group is not None, broker is not None, all_brokers].count(True) != 1:
        raise click.UsageError("Name one: --topic, --group, --broker or --all-brokers.")
    node_id: int | Literal["all"] | None = "all" if all_brokers else broker
    return {"topic": topic, "group": group, "node_id": node_id}


async def _require_broker(session: Session, broker: int | None) -> None:
    if broker is not None:
        await require_broker(session.admin, broker)


@asks(config)
@_resource
@click.option("--changed", is_flag=True, help="Only settings that were set.")
async def describe(
    session: Session, topic: str | None, group: str | None, broker: int | None, all_brokers: bool, changed: bool
) -> Shown:
    """Show every setting, its value, and where the value comes from."""
    resource = _named(topic, group, broker, all_brokers)
    await _require_broker(session, broker)
    entries = await session.admin.describe_config_entries(**resource)
    if group is not None and all(each.is_default for each in entries):  # a group may have settings before it exists
        known = {each.group_id for each in await session.admin.list_groups()}
        if group not in known:
            raise NotFound(
                f"group {group!r} does not exist, and nothing is set for it{did_you_mean(group, known)}; "
                "`oncelog group list` shows those there are"
            )
    return Answer(
        [
            {"name": each.name, "value": each.value, "source": each.source, "read_only": each.is_read_only}
            for each in sorted(entries, key=lambda each: each.name)
            if not (changed and each.is_default)
        ],
        "Nothing is set.",
        in_table=with_setting_text,
        gives_way=("source",),
    )


@asks(config)
@_resource
@click.option(
    "--set",
    "values",
    metavar="NAME=VALUE",
    multiple=True,
    callback=settings,
    help="Such as retention.ms=7d, segment.bytes=1GiB; may be repeated, as all.",
)
@click.option("--reset", metavar="NAME", multiple=True, help="Back to the default.")
@click.option(
    "--append", metavar="NAME=VALUE", multiple=True, callback=pairs, help="Add to a list, such as cleanup.policy."
)
@click.option("--subtract", metavar="NAME=VALUE", multiple=True, callback=pairs, help="Take from a list.")
@click.option("--dry-run", is_flag=True, help="Let the broker check it, and change nothing.")
async def alter(
    session: Session,
    topic: str | None,
    group: str | None,
    broker: int | None,
    all_brokers: bool,
    values: dict[str, str],
    reset: tuple[str, ...],
    append: dict[str, str],
    subtract: dict[str, str],
    dry_run: bool,
) -> Shown:
    """Change settings: all that is named, or nothing."""
    if not (values or reset or append or subtract):
        raise click.UsageError("Name a change: --set, --reset, --append or --subtract.")
    resource = _named(topic, group, broker, all_brokers)
    await _require_broker(session, broker)
    if not all_brokers:  # which has what was set alone
        known = {each.name for each in await session.admin.describe_config_entries(**resource)} if reset else set()
        for name in reset:  # the brokers ignore a name that they do not know
            if name not in known:
                raise NotFound(f"--reset: there is no setting {name!r}{did_you_mean(name, known)}")
    await session.admin.alter_configs(
        values, **resource, reset=reset, append=append, subtract=subtract, validate_only=dry_run
    )
    changes = {"set": values, "append": append, "subtract": subtract}
    rows: list[dict[str, Any]] = [
        {"name": name, "change": change, "value": value}
        for change, named in changes.items()
        for name, value in named.items()
    ]
    rows += [{"name": name, "change": "reset", "value": None} for name in reset]
    return planned(rows, dry_run, with_setting_text)
