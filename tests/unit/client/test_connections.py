"""Which connections a client opens, and that it closes them all."""

import asyncio

import pytest

from oncelog.client import InvalidState, Producer
from oncelog.client.consuming.ranges import RangeReader
from oncelog.client.values.waiting import Deadline
from oncelog.client.wire.cluster import Cluster
from oncelog.client.wire.connections import Purpose
from oncelog.protocol.api_keys import ApiKey
from tests.fakes.scripted_answers import OF_A_PRODUCER, TOPIC
from tests.fakes.virtual_loop import ScriptedBroker, pass_time, virtually

HOST = "host:1"


@virtually
async def test_records_that_wait_for_metadata_after_all_connections_were_lost_share_one_connection() -> None:
    broker = ScriptedBroker(OF_A_PRODUCER)
    async with Producer(HOST) as producer:
        await producer.send(TOPIC, b"first")
        for each in broker.connections:
            each.close()
        await pass_time(0.001)
        producer._cluster.metadata.forget_leaders([TOPIC])
        before = broker.connect_count
        await asyncio.gather(*(producer.send(TOPIC, b"value") for _ in range(50)))
        # One for the metadata, and one for the records.
        assert broker.connect_count - before == 2
    assert broker.open_count == 0


@virtually
async def test_a_client_that_is_closed_while_it_connects_keeps_no_connection() -> None:
    broker = ScriptedBroker(OF_A_PRODUCER)
    broker.delays_s[ApiKey.API_VERSIONS] = 1.0
    cluster = Cluster(HOST, client_id="client")
    connecting = asyncio.ensure_future(cluster.connections.any_transport(Deadline.after(60_000)))
    await pass_time(0.5)
    await cluster.close()
    await asyncio.gather(connecting, return_exceptions=True)
    await pass_time(60)
    assert broker.connect_count == 1
    assert broker.open_count == 0


@pytest.mark.parametrize("node_id", [0, None], ids=["one node", "any node"])
@virtually
async def test_a_waiter_for_a_connection_gets_an_error_and_is_not_cancelled_when_the_client_is_closed(
    node_id: int | None,
) -> None:
    broker = ScriptedBroker(OF_A_PRODUCER)
    broker.delays_s[ApiKey.API_VERSIONS] = 1.0
    cluster = Cluster(HOST, client_id="client")
    cluster.metadata.nodes = {0: ("host", 1)}
    connections, deadline = cluster.connections, Deadline.after(60_000)
    connecting = asyncio.ensure_future(
        connections.any_transport(deadline)
        if node_id is None
        else connections.transport(node_id, Purpose.DATA, deadline)
    )
    await pass_time(0.5)
    await cluster.close()
    with pytest.raises(InvalidState):
        await connecting


@virtually
async def test_a_waiter_that_gives_up_leaves_the_connection_to_the_others() -> None:
    broker = ScriptedBroker(OF_A_PRODUCER)
    broker.delays_s[ApiKey.API_VERSIONS] = 1.0
    cluster = Cluster(HOST, client_id="client")
    any_transport = cluster.connections.any_transport
    first, second = (asyncio.ensure_future(any_transport(Deadline.after(60_000))) for _ in range(2))
    await pass_time(0.5)
    first.cancel()
    assert (await second).is_open
    assert broker.connect_count == 1
    await cluster.close()


@virtually
async def test_a_reader_that_is_cancelled_while_it_opens_keeps_no_connection() -> None:
    broker = ScriptedBroker(OF_A_PRODUCER)
    broker.delays_s[ApiKey.API_VERSIONS] = 1.0
    opening = asyncio.ensure_future(RangeReader(bootstrap_servers=HOST).__aenter__())
    await pass_time(0.5)
    opening.cancel()
    await asyncio.gather(opening, return_exceptions=True)
    await pass_time(60)
    assert broker.open_count == 0
