"""Topics of a daemon or of Apache Kafka, made and awaited with our client.

Owns: a new topic for a test, and the wait for the markers of a transaction. Does not own: who starts the broker.
"""

import asyncio

from oncelog.client import Admin, NewTopic, TopicPartition
from tests.support.foreign.interop import unique
from tests.support.patience import PATIENCE_S


async def new_topic(bootstrap: str, partitions: int = 1, **configs: str) -> str:
    """Create a topic and return its name; the names of its settings have underscores for dots."""
    name = unique("topic")
    settings = {key.replace("_", "."): value for key, value in configs.items()}
    async with Admin(bootstrap) as admin:
        await admin.create_topics(NewTopic(name, partitions, 1, settings))
    return name


async def until_stable(bootstrap: str, *places: TopicPartition) -> None:
    """EndTxn is answered when the outcome is certain, and the markers follow: wait for them."""
    async with Admin(bootstrap) as admin, asyncio.timeout(PATIENCE_S):
        while True:
            stable = await admin.list_offsets(places, isolation_level="read_committed")
            if stable == await admin.list_offsets(places):
                return
