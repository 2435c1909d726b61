"""One way from a script to the cluster: an open Admin, with Kafka's patience of a minute.

Owns: opening, and what an error of the cluster becomes. Does not own: what is asked.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from oncelog.tools.kafka_scripts.arguments import Options, Wrong, client_security

if TYPE_CHECKING:
    from oncelog.client.admin.client import Admin
    from oncelog.client.values.errors import KafkaError

_PATIENCE_MS = 60_000.0
"""The timeout of Java's admin client."""


def bootstrap_of(options: Options) -> str:
    found = options.get("bootstrap-server") or options.get("broker-list")
    if found is None:
        raise Wrong("--bootstrap-server must be specified")
    return found


def words_of(error: "KafkaError") -> str:
    """Return the broker's own words, without what the client puts before them."""
    text = error.message.removeprefix(f"{error.name}: ")
    return re.sub(r"^(topic|group) '[^']*': (?=.)", "", text)


def ask(options: Options, work: "Callable[[Admin], Awaitable[int]]") -> int:
    """Return the exit code that `work` returns. Raises Wrong with the cluster's message."""
    from oncelog.client.admin.client import Admin
    from oncelog.client.values.errors import KafkaError

    patience = {"default_api_timeout_ms": _PATIENCE_MS, "bootstrap_timeout_ms": _PATIENCE_MS}

    async def call() -> int:
        settings: Any = {**patience, **client_security(options)}
        async with Admin(bootstrap_of(options), **settings) as admin:
            return await work(admin)

    try:
        return asyncio.run(call())
    except KafkaError as error:
        raise Wrong(f"{options.script}: {error.name}: {words_of(error)}") from error
    except OSError as error:
        raise Wrong(f"{options.script}: {bootstrap_of(options)} does not respond: {error}") from error
