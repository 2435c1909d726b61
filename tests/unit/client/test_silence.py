"""A broker that says nothing is waited for as long as the options allow, wherever a client meets it, and where several
addresses are known, those that say nothing take no time from the others.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from oncelog.client import Admin, AuthenticationFailed, ConnectionLost, Consumer, Producer, RequestTimedOut
from oncelog.client.consuming.following import BatchFollower
from oncelog.client.consuming.ranges import RangeReader
from oncelog.client.values.waiting import Deadline
from oncelog.client.wire import transport
from oncelog.client.wire.cluster import Cluster
from oncelog.client.wire.connections import Purpose
from oncelog.protocol.api_keys import ApiKey
from tests.fakes.scripted_answers import OF_A_MEMBER, OF_A_PRODUCER
from tests.fakes.virtual_loop import ScriptedBroker, pass_time, virtually

HOST = "host:1"
REQUEST_S = 30.0
"""request.timeout.ms, by default."""
SETUP_S = 10.0
"""socket.connection.setup.timeout.ms of Java's clients, by default."""
SOON_S = 1.0
CLIENTS: dict[str, Callable[[float], Any]] = {
    "Admin": lambda ms: Admin(HOST, default_api_timeout_ms=ms),
    "BatchFollower": lambda ms: BatchFollower(bootstrap_servers=HOST, default_api_timeout_ms=ms),
    "Consumer": lambda ms: Consumer(bootstrap_servers=HOST, default_api_timeout_ms=ms),
    "Producer": lambda ms: Producer(HOST, max_block_ms=ms),
    "RangeReader": lambda ms: RangeReader(bootstrap_servers=HOST, default_api_timeout_ms=ms),
}
each_client = pytest.mark.parametrize("kind", CLIENTS)


def now_s() -> float:
    return asyncio.get_running_loop().time()


@each_client
@pytest.mark.parametrize("timeout_s", [2.0, 12.0, 45.0, 200.0])
@virtually
async def test_a_client_that_opens_before_silence_gives_up_at_the_deadline_of_its_options(
    kind: str, timeout_s: float
) -> None:
    broker = ScriptedBroker(OF_A_MEMBER)
    broker.reads = False
    with pytest.raises(RequestTimedOut):
        await CLIENTS[kind](timeout_s * 1000).__aenter__()
    assert timeout_s - SOON_S < now_s() < timeout_s + SOON_S


@each_client
@pytest.mark.parametrize("stopped_s", [12.0, 35.0])
@virtually
async def test_a_client_opens_when_a_stopped_broker_resumes(kind: str, stopped_s: float) -> None:
    broker = ScriptedBroker(OF_A_MEMBER)
    broker.reads = False
    opening = asyncio.ensure_future(CLIENTS[kind](60_000).__aenter__())
    await pass_time(stopped_s)
    broker.read_on()
    client = await opening
    assert now_s() < stopped_s + SOON_S
    await client.__aexit__(None, None, None)


@virtually
async def test_a_broker_that_takes_long_to_answer_is_reached_if_requests_may_take_so_long() -> None:
    broker = ScriptedBroker(OF_A_PRODUCER)
    broker.delays_s[ApiKey.API_VERSIONS] = 12.0
    async with Producer(HOST):
        assert now_s() < 12 + SOON_S
    with pytest.raises(RequestTimedOut):
        await Producer(HOST, request_timeout_ms=11_000).__aenter__()


@virtually
async def test_an_address_that_accepts_no_connection_is_given_up_earlier_and_tried_again() -> None:
    broker = ScriptedBroker(OF_A_PRODUCER)
    broker.unreachable.add("host")
    opening = asyncio.ensure_future(Producer(HOST).__aenter__())
    await pass_time(SETUP_S + SOON_S)
    broker.unreachable.clear()
    producer = await opening
    assert now_s() < 2 * SETUP_S + SOON_S
    await producer.close()


async def opened(servers: str, timeout_s: float) -> Cluster:
    cluster = Cluster(servers, client_id="client")
    await cluster.bootstrap(Deadline.after(timeout_s * 1000), 0)
    return cluster


@pytest.mark.parametrize("way", ["silent", "unreachable"])
@virtually
async def test_addresses_that_say_nothing_take_no_time_from_the_others(way: str) -> None:
    broker = ScriptedBroker(OF_A_PRODUCER)
    getattr(broker, way).update(f"silent{number}" for number in range(5))
    cluster = await opened("silent0:1,silent1:1,silent2:1,silent3:1,silent4:1,host:1", 10)
    assert now_s() < 6
    assert broker.open_count == 1
    await cluster.close()
    await pass_time(60)
    assert broker.open_count == 0


@pytest.mark.parametrize("is_connected", [False, True])
@virtually
async def test_a_node_that_has_left_a_question_open_is_asked_after_the_others(is_connected: bool) -> None:
    """A leader that is cut off from its database does so: it answers all else."""
    broker = ScriptedBroker(OF_A_PRODUCER)
    broker.withheld["cut"] = {ApiKey.METADATA}
    cluster = Cluster("cut:1,host:1", client_id="client")
    cluster.metadata.nodes = {1: ("cut", 1), 2: ("host", 1)}
    deadline = Deadline.after(1_000_000)
    if is_connected:
        for purpose in (Purpose.DATA, Purpose.COORDINATOR):
            await cluster.connections.transport(1, purpose, deadline)
    await cluster.refresh((), deadline)
    assert now_s() < REQUEST_S + SOON_S
    cluster.metadata.nodes = {1: ("cut", 1), 2: ("host", 1)}
    cluster.connections.disconnect()
    if is_connected:
        await cluster.connections.transport(1, Purpose.DATA, deadline)
    await cluster.refresh((), deadline)
    assert now_s() < REQUEST_S + 2 * SOON_S
    await cluster.close()


@pytest.mark.parametrize("is_connected", [False, True])
@virtually
async def test_a_node_that_has_named_one_that_cannot_be_reached_is_asked_after_the_others(is_connected: bool) -> None:
    """A standby that is cut off does so: it knows only the old leader. Each is asked again in its turn."""
    broker = ScriptedBroker(OF_A_PRODUCER)
    broker.refusing.add("gone")
    cluster = Cluster("one:1,two:1", client_id="client")
    connections, deadline = cluster.connections, Deadline.after(60_000)
    nodes = {1: ("one", 1), 2: ("two", 1), 3: ("gone", 1)}
    cluster.metadata.nodes = nodes
    if is_connected:
        for node_id in (1, 2):
            await connections.transport(node_id, Purpose.DATA, deadline)
    asked = []
    for _ in range(4):
        await cluster.refresh((), deadline)
        asked.append(connections.answered_by[ApiKey.METADATA])
        connections.answered_by[ApiKey.FIND_COORDINATOR] = "three:1"
        cluster.metadata.nodes = nodes
        with pytest.raises(ConnectionLost):
            await connections.transport(3, Purpose.DATA, deadline)
    assert asked == ["one:1", "two:1"] * 2
    await cluster.close()
    await pass_time(60)
    assert broker.open_count == 0


@virtually
async def test_a_node_that_is_doubted_is_trusted_where_no_other_can_be_reached() -> None:
    """Else each question would cost a connection, and a second where the other's machine is gone."""
    broker = ScriptedBroker(OF_A_PRODUCER)
    broker.unreachable.add("gone")
    cluster = Cluster("gone:1,host:1", client_id="client")
    deadline = Deadline.after(60_000)
    cluster.metadata.nodes = {1: ("gone", 1), 2: ("host", 1)}
    await cluster.refresh((), deadline)
    cluster.metadata.nodes = {1: ("gone", 1), 2: ("host", 1)}
    with pytest.raises(RequestTimedOut):
        await cluster.connections.transport(1, Purpose.DATA, deadline)
    await cluster.refresh((), deadline)
    before_s, count = now_s(), broker.connect_count
    await cluster.refresh((), deadline)
    assert now_s() < before_s + SOON_S / 2
    assert broker.connect_count == count
    await cluster.close()


@virtually
async def test_all_addresses_are_tried_within_the_time_for_a_request() -> None:
    broker = ScriptedBroker(OF_A_PRODUCER)
    broker.silent.update(f"silent{number}" for number in range(99))
    cluster = await opened(",".join([f"silent{number}:1" for number in range(99)] + [HOST]), 60)
    assert now_s() < REQUEST_S
    await cluster.close()


@virtually
async def test_an_address_that_refuses_is_followed_by_the_next_at_once() -> None:
    broker = ScriptedBroker(OF_A_PRODUCER)
    broker.refusing.update(("one", "two"))
    cluster = await opened("one:1,two:1,host:1", 10)
    assert now_s() < 0.1
    await cluster.close()


@pytest.mark.parametrize("servers", ["silent:1,refusing:1", "refusing:1,silent:1"])
@virtually
async def test_silence_of_one_address_is_waited_for_though_another_refuses(servers: str) -> None:
    broker = ScriptedBroker(OF_A_PRODUCER)
    broker.silent.add("silent")
    broker.refusing.add("refusing")
    with pytest.raises(RequestTimedOut):
        await opened(servers, 45)
    assert 45 - SOON_S < now_s() < 45 + SOON_S


@virtually
async def test_refusal_alone_is_waited_for_as_long_as_its_own_option_says() -> None:
    broker = ScriptedBroker(OF_A_PRODUCER)
    broker.refusing.update(("one", "two"))
    with pytest.raises(ConnectionLost):
        await opened("one:1,two:1", 45)
    assert now_s() < SOON_S


@virtually
async def test_a_client_that_is_closed_while_it_tries_several_addresses_keeps_no_connection() -> None:
    broker = ScriptedBroker(OF_A_PRODUCER)
    broker.silent.update(("one", "two"))
    cluster = Cluster("one:1,two:1", client_id="client")
    opening = asyncio.ensure_future(cluster.bootstrap(Deadline.after(60_000)))
    await pass_time(2)
    assert broker.open_count == 2
    await cluster.close()
    await asyncio.gather(opening, return_exceptions=True)
    assert broker.open_count == 0
    assert asyncio.all_tasks() == {asyncio.current_task()}


@virtually
async def test_a_login_that_one_address_refuses_is_not_tried_at_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    ScriptedBroker(OF_A_PRODUCER)
    tried: list[str] = []

    async def refuse(host: str, *_: Any, **__: Any) -> transport.Transport:
        tried.append(host)
        raise AuthenticationFailed("wrong password")

    monkeypatch.setattr("oncelog.client.wire.connections.connect", refuse)
    with pytest.raises(AuthenticationFailed):
        await opened("one:1,two:1", 45)
    assert tried == ["one"]
