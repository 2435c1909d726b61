"""`oncelog`, with one of the relay's functions patched to kill the process (-9) at its n-th call.

python -m tests.proofs.outbox.dying 'the position is stored' before 2 outbox run DSN -b HOST:PORT
"""

import asyncio
import inspect
import os
import signal
import sys
from collections.abc import Mapping
from importlib import import_module
from random import SystemRandom
from typing import Any

from oncelog.tools.outbox import relay

MOMENTS = ("before", "during", "after")
_DURING_S = 0.003
_COMMON = {
    "the topic of positions is made": ("target", "Target", "prepare"),
    "the position is read": ("target", "Target", "stored"),
    "an event is sent": ("relay", "Life", "_send"),
    "the position is stored": ("target", "Target", "store"),
    "Kafka's transaction is committed": ("relay", "Life", "_commit"),
}
_OF_SLOT = {
    "the database is asked where to begin": ("slot_feed", "SlotFeed", "open"),
    "the slot is started": ("slot_feed", "SlotFeed", "start"),
    "the slot is read": ("slot_feed", "SlotFeed", "next"),
    "the feed is told what Kafka has": ("slot_feed", "SlotFeed", "on_stored"),
    "the server is told what Kafka has": ("stream", "ReplicationStream", "report"),
}
STEPS: Mapping[str, Mapping[str, tuple[str, str, str]]] = {
    "wal": {**_COMMON, **_OF_SLOT},
    "table": {**_COMMON, **_OF_SLOT, "rows of the table are deleted": ("slot_feed", "SlotFeed", "_until_stored")},
    "poll": {
        **_COMMON,
        "the database is asked where to begin": ("table_feed", "TableFeed", "open"),
        "the last batch is asked for": ("table_feed", "TableFeed", "start"),
        "a batch is made": ("table_feed", "TableFeed", "_make_batch"),
        "a batch is read": ("table_feed", "TableFeed", "_whole"),
        "its rows become events": ("table_feed", "TableFeed", "_events"),
        "rows of the table are deleted": ("table_feed", "TableFeed", "on_stored"),
    },
}
"""The steps of each carrier: module, class and method that do it."""


def plant(module: str, owner: str, name: str, moment: str, nth: int) -> None:
    target = getattr(import_module(f"oncelog.tools.outbox.{module}"), owner)
    original = getattr(target, name)
    calls = iter(range(1, sys.maxsize))

    async def patched(*arguments: Any, **others: Any) -> Any:
        is_due = next(calls) == nth
        if is_due and moment == "before":
            _die()
        if is_due and moment == "during":
            asyncio.get_running_loop().call_later(SystemRandom().uniform(0, _DURING_S), _die)
        found = await original(*arguments, **others)
        if is_due:
            _die()
        return found

    def patched_call(*arguments: Any, **others: Any) -> Any:
        is_due = next(calls) == nth
        if is_due and moment == "before":
            _die()
        found = original(*arguments, **others)
        if is_due:
            _die()
        return found

    setattr(target, name, patched if inspect.iscoroutinefunction(original) else patched_call)


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    from oncelog.cli import main as run

    relay._STORE_S = 0.0  # a place without an event is stored at once, so that it is what the next relay begins with
    step, moment, nth, *arguments = sys.argv[1:]
    carriers = [steps for steps in STEPS.values() if step in steps]
    for place in {steps[step] for steps in carriers}:  # of both feeds, one of which runs
        plant(*place, moment, int(nth))
    run(arguments, prog_name="oncelog")


if __name__ == "__main__":
    main()
