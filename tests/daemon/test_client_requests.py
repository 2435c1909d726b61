"""What a consumer asks its broker, and how much of it."""

import uuid

from oncelog.client import Admin, Consumer, NewTopic
from oncelog.protocol.api_keys import ApiKey
from tests.support.daemon import Daemon
from tests.support.sent_requests import sent_requests


async def new_topics(daemon: Daemon, count: int, partitions: int = 1) -> list[str]:
    names = [f"topic-{uuid.uuid4().hex[:8]}" for _ in range(count)]
    async with Admin(daemon.bootstrap) as admin:
        await admin.create_topics(*(NewTopic(name, partitions, 1) for name in names))
    return names


async def test_the_first_poll_of_a_group_asks_once_for_the_metadata_of_all_its_topics(daemon: Daemon) -> None:
    topics = await new_topics(daemon, 20)
    async with Consumer(*topics, bootstrap_servers=daemon.bootstrap, group_id=topics[0]) as consumer:
        with sent_requests() as sent:
            while len(consumer.assignment()) < len(topics):
                await consumer.poll(100)
    asked = [sorted(each.name for each in sent.message.topics) for sent in sent if sent.key == ApiKey.METADATA]
    # The leader's assignment is made of what the brokers say at that moment, so it asks again.
    assert asked == [sorted(topics), sorted(topics)]


async def test_a_reader_of_topics_asks_once_for_their_metadata(daemon: Daemon) -> None:
    topics = await new_topics(daemon, 20)
    with sent_requests() as sent:
        async with Consumer(*topics, bootstrap_servers=daemon.bootstrap) as consumer:
            assert len(consumer.assignment()) == len(topics)
    asked = [len(sent.message.topics) for sent in sent if sent.key == ApiKey.METADATA]
    assert asked == [0, len(topics)]
