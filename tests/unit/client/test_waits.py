"""How long a client waits when the network swallows something and keeps the connections open: what is lost is noticed
within one timeout, and not within one timeout for each connection, or within that of something larger.
"""

import asyncio
from typing import Any

import pytest

from oncelog.client import Consumer, ConsumerGroupMetadata, ConsumerOptions, Producer, RequestTimedOut, TopicPartition
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.generated.fetch_response import FetchResponse
from tests.fakes.scripted_answers import OF_A_MEMBER, OF_A_PRODUCER, TOPIC
from tests.fakes.virtual_loop import ScriptedBroker, pass_time, virtually

HOST = "host:1"
PLACE = TopicPartition(TOPIC, 0)
REQUEST_S = 30.0
"""request.timeout.ms, by default."""
SESSION_S = 45.0
"""session.timeout.ms, by default."""
SOON_S = 1.0
"""The time that pauses between attempts may add."""
GROUP = ConsumerGroupMetadata("group")


def swallows_once(broker: ScriptedBroker, key: ApiKey) -> None:
    """The first response to such a request does not arrive."""
    usual = broker.answers[key]

    def answer(_: Any) -> None:
        broker.answers[key] = usual

    broker.answers[key] = answer


def now_s() -> float:
    return asyncio.get_running_loop().time()


@pytest.mark.parametrize("key", [ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP], ids=lambda each: each.name)
@virtually
async def test_a_member_whose_join_got_lost_joins_again_when_the_coordinator_would_have_removed_it(key: ApiKey) -> None:
    """The member does not wait for max.poll.interval.ms, which is what a join may take."""
    broker = ScriptedBroker(OF_A_MEMBER)
    swallows_once(broker, key)
    async with Consumer(TOPIC, bootstrap_servers=HOST, group_id="group") as consumer:
        while not consumer.assignment():
            await consumer.poll(100)
        assert SESSION_S <= now_s() < SESSION_S + SOON_S
        assert broker.count(key) == 2


@virtually
async def test_a_join_is_waited_for_as_long_as_requests_are_at_least() -> None:
    broker = ScriptedBroker(OF_A_MEMBER)
    swallows_once(broker, ApiKey.JOIN_GROUP)
    options = ConsumerOptions(session_timeout_ms=6_000, group_id="group")
    async with Consumer(TOPIC, bootstrap_servers=HOST, **options) as consumer:
        while not consumer.assignment():
            await consumer.poll(100)
        assert REQUEST_S <= now_s() < REQUEST_S + SOON_S


@virtually
async def test_a_connection_that_says_nothing_at_first_is_given_up_after_the_time_for_a_request() -> None:
    broker = ScriptedBroker(OF_A_PRODUCER)
    async with Producer(HOST, request_timeout_ms=1_500) as producer:
        begun_s = now_s()
        broker.answers[ApiKey.API_VERSIONS] = lambda _: None
        sending = asyncio.ensure_future(producer.send(TOPIC, b"value"))
        await pass_time(1)
        del broker.answers[ApiKey.API_VERSIONS]
        await sending
        assert now_s() - begun_s < 1.5 + SOON_S


@virtually
async def test_a_consumer_is_opened_as_soon_as_a_second_connection_answers() -> None:
    broker = ScriptedBroker(OF_A_MEMBER)
    broker.answers[ApiKey.API_VERSIONS] = lambda _: None
    addresses = "dead:1,host:1"
    opening = asyncio.ensure_future(Consumer(bootstrap_servers=addresses, request_timeout_ms=1_500).__aenter__())
    await pass_time(1)
    del broker.answers[ApiKey.API_VERSIONS]
    consumer = await opening
    assert now_s() < 1.5 + SOON_S
    await consumer.close()


@virtually
async def test_a_client_is_opened_although_its_first_connection_says_nothing() -> None:
    broker = ScriptedBroker(OF_A_PRODUCER)
    broker.answers[ApiKey.API_VERSIONS] = lambda _: None
    opening = asyncio.ensure_future(Producer(HOST, request_timeout_ms=1_500).__aenter__())
    await pass_time(1)
    del broker.answers[ApiKey.API_VERSIONS]
    producer = await opening
    assert now_s() < 1.5 + SOON_S
    await producer.close()


@pytest.mark.parametrize("request_timeout_ms", [1_500, 30_000])
@virtually
async def test_what_never_says_anything_is_given_up_when_a_call_may_block_no_longer(request_timeout_ms: int) -> None:
    ScriptedBroker({ApiKey.API_VERSIONS: lambda _: None})
    with pytest.raises(RequestTimedOut):
        await Producer(HOST, request_timeout_ms=request_timeout_ms).__aenter__()
    assert 60 <= now_s() < 60 + 1.5


@virtually
async def test_when_all_connections_are_forgotten_a_commit_takes_one_request_timeout() -> None:
    """Not one for each connection: they would use up max.block.ms, and the transaction would stay open until the
    coordinator aborts it, a minute and more later."""
    broker = ScriptedBroker(OF_A_PRODUCER)
    async with Producer(HOST, transactional_id="id") as producer:
        async with producer.transaction() as transaction:
            await transaction.send_offsets({PLACE: 1}, group=GROUP)
            broker.silence()
            begun_s = now_s()
        assert transaction.state == "committed"
        assert REQUEST_S <= now_s() - begun_s < REQUEST_S + SOON_S


@virtually
async def test_when_all_connections_are_forgotten_a_record_takes_one_request_timeout() -> None:
    broker = ScriptedBroker(OF_A_PRODUCER)
    async with Producer(HOST) as producer:
        await producer.send(TOPIC, b"value")
        broker.silence()
        begun_s = now_s()
        await producer.send(TOPIC, b"value")
        assert REQUEST_S <= now_s() - begun_s < REQUEST_S + SOON_S


@pytest.mark.parametrize("committed", [False, True], ids=["abort", "commit"])
@virtually
async def test_a_cancelled_transaction_ends_over_a_new_connection_if_the_old_ones_are_silent(committed: bool) -> None:
    """The end takes seconds: otherwise the transaction would stay open until the coordinator aborts it, and readers
    wait so long.
    """
    broker = ScriptedBroker(OF_A_PRODUCER)
    async with Producer(HOST, transactional_id="id") as producer:
        sent = asyncio.Event()

        async def work() -> None:
            async with producer.transaction() as transaction:
                await transaction.send_offsets({PLACE: 1}, group=GROUP)
                broker.silence()
                sent.set()
                await pass_time(0 if committed else 60)

        working = asyncio.ensure_future(work())
        await sent.wait()
        await pass_time(1)
        begun_s = now_s()
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working
        assert now_s() - begun_s < 5
        assert [request.committed for key, request in broker.seen if key is ApiKey.END_TXN] == [committed]


@virtually
async def test_a_request_that_is_slow_takes_no_other_connection_with_it() -> None:
    """A connection that waits for nothing, and has got answers since, stays."""
    broker = ScriptedBroker({**OF_A_PRODUCER, ApiKey.FETCH: lambda _: FetchResponse()})
    async with Producer(HOST, request_timeout_ms=2_000) as producer:
        await producer.send(TOPIC, b"value")
        connected = broker.connect_count
        swallows_once(broker, ApiKey.PRODUCE)
        sending = asyncio.ensure_future(producer.send(TOPIC, b"value"))
        await pass_time(1)
        assert await producer.partitions_for("topic") == 1
        producer._cluster.metadata.forget_leaders([TOPIC])
        assert await producer.partitions_for("topic") == 1
        await sending
        assert broker.connect_count == connected + 1, "that of the data alone"
