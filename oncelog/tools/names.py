"""Names of a cluster for a shell's completion: its topics, groups and transactional ids.

Owns: what is asked for, and silence when nothing answers. Does not own: which cluster (`profiles`), the script for the
shell (`completion`). Each is a `shell_complete` of click's: `click.argument("topic", shell_complete=TOPICS)`.
Invariant: a name with a character that means something to a shell or a terminal is not offered. Clients choose names,
and a shell puts what is offered into the command as it is.
"""

import os
import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from oncelog.client.admin.client import Admin
    from oncelog.tools.profiles import Target

_HARMLESS = re.compile(r"[A-Za-z0-9._@%+=:,/-]+")
_TIMEOUT_S = 1.0
"""Completion must answer within this time."""
Completion = Callable[[click.Context, click.Parameter, str], list[str]]


async def _topics(admin: "Admin") -> list[str]:
    return await admin.list_topics(include_internal=True)


async def _groups(admin: "Admin") -> list[str]:
    return [each.group_id for each in await admin.list_groups()]


async def _transactional_ids(admin: "Admin") -> list[str]:
    return [each.transactional_id for each in await admin.find_transactions()]


def _completion(ask: "Callable[[Admin], Awaitable[list[str]]]") -> Completion:
    def names(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
        from oncelog.health import NotHealthy, check_health
        from oncelog.tools.profiles import ProfileError, target

        given = context.params
        try:
            chosen = target(
                given.get("bootstrap"), given.get("profile"), _TIMEOUT_S, os.environ, given.get("command_config")
            )
            if not chosen.security:
                check_health(*chosen.addresses[0], chosen.timeout_s)
        except (ProfileError, NotHealthy):
            return []
        return sorted(
            each
            for each in _asked(chosen, ask)
            if each.startswith(incomplete)
            and _HARMLESS.fullmatch(each)
            and (not each.startswith("__") or incomplete.startswith("_"))
        )

    return names


def _asked(chosen: "Target", ask: "Callable[[Admin], Awaitable[list[str]]]") -> list[str]:
    import asyncio

    from oncelog.client.admin.client import Admin
    from oncelog.client.values.errors import KafkaError
    from oncelog.protocol.errors import ProtocolError

    async def call() -> list[str]:
        timeout_ms = chosen.timeout_s * 1000
        async with Admin(
            chosen.bootstrap, default_api_timeout_ms=timeout_ms, client_id="oncelog", **chosen.security
        ) as admin:
            return await ask(admin)

    try:
        return asyncio.run(call())
    except (KafkaError, ProtocolError, OSError):
        return []


TOPICS = _completion(_topics)
GROUPS = _completion(_groups)
TRANSACTIONAL_IDS = _completion(_transactional_ids)
