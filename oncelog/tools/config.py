"""`oncelog config`: the settings of topics, groups and brokers.

Owns: the options and rows. Does not own: connecting, printing, errors (`asking`).
"""

from collections.abc import Callable
from typing import Any, Literal

import click

from oncelog.tools.asking import Answer, Session, Shown, asks, pairs, planned


@click.group()
def config() -> None:
    """Describe and alter the settings of a topic, a group, a broker, or all brokers."""


def _resource(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option("--all-brokers", is_flag=True, help="What is set for all brokers at once."),
        click.option("--broker", metavar="ID", type=int),
        click.option("--group", metavar="NAME"),
        click.option("--topic", metavar="NAME"),
    ):
        function = option(function)
    return function


def _named(topic: str | None, group: str | None, broker: int | None, all_brokers: bool) -> dict[str, Any]:
    if [topic is not None, group is not None, broker is not None, all_brokers].count(True) != 1:
        raise click.UsageError("Name one: --topic, --group, --broker or --all-brokers.")
    node_id: int | Literal["all"] | None = "all" if all_brokers else broker
    return {"topic": topic, "group": group, "node_id": node_id}


@asks(config)
@_resource
@click.option("--changed", is_flag=True, help="Only settings that somebody has set.")
async def describe(
    session: Session, topic: str | None, group: str | None, broker: int | None, all_brokers: bool, changed: bool
) -> Shown:
    """Every setting, its value, and where the value comes from."""
    resource = _named(topic, group, broker, all_brokers)
    entries = await session.admin.describe_config_entries(**resource)
    return Answer(
        [
            {"name": each.name, "value": each.value, "source": each.source, "read_only": each.is_read_only}
            for each in sorted(entries, key=lambda each: each.name)
            if not (changed and each.is_default)
        ],
        "Nothing is set.",
    )


@asks(config)
@_resource
@click.option("--set", "values", metavar="NAME=VALUE", multiple=True, help="May be repeated, as the others.")
@click.option("--reset", metavar="NAME", multiple=True, help="Back to the default.")
@click.option("--append", metavar="NAME=VALUE", multiple=True, help="Add to a list, such as cleanup.policy.")
@click.option("--subtract", metavar="NAME=VALUE", multiple=True, help="Take from a list.")
@click.option("--dry-run", is_flag=True, help="Let the broker check it, and change nothing.")
async def alter(
    session: Session,
    topic: str | None,
    group: str | None,
    broker: int | None,
    all_brokers: bool,
    values: tuple[str, ...],
    reset: tuple[str, ...],
    append: tuple[str, ...],
    subtract: tuple[str, ...],
    dry_run: bool,
) -> Shown:
    """Change settings: all that is named, or nothing."""
    if not (values or reset or append or subtract):
        raise click.UsageError("Name a change: --set, --reset, --append or --subtract.")
    changes = {
        "set": pairs(values, "--set"),
        "append": pairs(append, "--append"),
        "subtract": pairs(subtract, "--subtract"),
    }
    await session.admin.alter_configs(
        changes["set"],
        **_named(topic, group, broker, all_brokers),
        reset=reset,
        append=changes["append"],
        subtract=changes["subtract"],
        validate_only=dry_run,
    )
    rows: list[dict[str, Any]] = [
        {"name": name, "change": change, "value": value}
        for change, named in changes.items()
        for name, value in named.items()
    ]
    rows += [{"name": name, "change": "reset", "value": None} for name in reset]
    return planned(rows, dry_run)
