"""The commands that there are, and what each that asks a cluster must be given: for tests of all of them."""

from collections.abc import Iterator
from typing import Any

import click

from oncelog.cli import main


def commands(group: click.Group = main, prefix: str = "") -> Iterator[str]:
    """Such as `topic list`."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands(command, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}"


def command_at(name: str) -> click.Command:
    command: Any = main
    for word in name.split():
        command = command.get_command(click.Context(command), word)
    return command  # type: ignore[no-any-return]


ARGUMENTS = {
    "cluster alter": ("--feature", "a=1"),
    "config alter": ("--topic", "t", "--set", "a=1"),
    "config describe": ("--topic", "t"),
    "group reset": ("g", "--to", "start"),
    "quota remove": ("--user", "x"),
    "quota set": ("--user", "x", "producer_byte_rate=1"),
    "record consume": ("t",),
    "record delete": ("t", "--before", "end"),
    "record produce": ("t", "v"),
    "topic alter": ("t", "-p", "2"),
    "txn abort": ("--topic", "t", "--partition", "0", "--start-offset", "1"),
    "txn producers": ("--topic", "t", "--partition", "0"),
    **dict.fromkeys(("group delete", "group describe", "group lag", "group offsets"), ("x",)),
    **dict.fromkeys(("token expire", "token renew", "user add", "user remove"), ("x",)),
    **dict.fromkeys(("topic create", "topic delete", "topic describe", "txn describe", "txn fence"), ("x",)),
}
"""The arguments that each command must be given."""


def asking() -> Iterator[str]:
    """Every command that asks a cluster, by the options that all of these share; the console asks for each page."""
    for name in commands():
        if name != "console" and "profile" in [parameter.name for parameter in command_at(name).params]:
            yield name


ASKING = sorted(asking())
