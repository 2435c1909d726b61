"""A relay of a slot that confirms what was produced, with an idempotent producer and without transactions: at
least once, and here for comparison.

It loses nothing. What was produced and not yet confirmed when it is killed is produced again.

python -m tests.proofs.outbox.at_least_once DSN NAME HOST:PORT
"""

import asyncio
import sys

from oncelog.client import Producer
from oncelog.tools.outbox.events import Committed
from oncelog.tools.outbox.slot_feed import SlotFeed

_WAIT_S = 1.0


async def relay(dsn: str, name: str, bootstrap: str) -> None:
    feed = SlotFeed(dsn, name)
    async with Producer(bootstrap, enable_idempotence=True) as producer:
        await feed.start(await feed.open(None, goes_on=True, counts=False))
        sys.stdout.write("Relaying\n")
        sys.stdout.flush()
        while True:
            done = None
            for item in await feed.next(_WAIT_S):
                if isinstance(item, Committed):
                    done = item.position
                else:
                    place = {"key": item.key, "partition": item.partition}
                    await producer.send_soon(item.topic, item.value, headers=item.headers, **place)
            if done is not None:
                await producer.flush()
                await feed.on_stored(done)


if __name__ == "__main__":
    asyncio.run(relay(*sys.argv[1:4]))
