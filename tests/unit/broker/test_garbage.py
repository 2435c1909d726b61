"""No life leaves cyclic garbage: what a daemon has frozen to keep collections short would stay in memory for ever."""

import gc
from collections.abc import Callable

import pytest

from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.create_topics_request import CreatableTopic, CreateTopicsRequest
from oncelog.protocol.generated.delete_groups_request import DeleteGroupsRequest
from oncelog.protocol.generated.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from oncelog.protocol.generated.delete_topics_request import DeleteTopicsRequest
from tests.clients.consumer_group_members import Consumer
from tests.clients.group_members import Member, started
from tests.clients.in_memory_connection import Server, api_versions, fetch, metadata, produce
from tests.clients.producer import Producer, broker_with_topic
from tests.fakes.broker import VirtualBroker
from tests.fakes.scheduler import ManualScheduler
from tests.support.requests.garbage import cyclic_garbage
from tests.support.requests.listed_versions import EVERY_VERSION
from tests.support.requests.messages import filled_request

TIMES = 3
DAY_MS = 86_400_000


@pytest.fixture(scope="module", autouse=True)
def _others() -> None:
    """Keep the objects of earlier tests out of the collections of these."""
    gc.freeze()


def expect_none(life: Callable[[], object]) -> None:
    life()  # what is imported or made once
    with cyclic_garbage() as found:
        for _ in range(TIMES):
            life()
    assert found == {}


@pytest.mark.parametrize("in_thread", [False, True])
def test_connections(in_thread: bool) -> None:
    thread = ManualScheduler()
    server = Server(run_in_thread=thread.run_in_thread if in_thread else None)

    def settle() -> None:
        for _ in range(3):
            thread.run()
            server.settle()

    def life() -> None:
        for bad in (b"", b"\xff\xff\xff\xff", b"\0\0\0\x0a\x27\x0f" + b"\0" * 8):
            transport = server.connect()
            server.send(transport, api_versions(1) + metadata(2, "t") + produce(3, "t") + bad)
            settle()
            transport.close()
        gone = server.connect()
        server.send(gone, metadata(1, "t") + produce(2, "t") + api_versions(3))
        gone.abort()
        unread = server.connect(is_read=False)
        server.send(unread, metadata(1, "t") + produce(2, "t"))
        settle()
        unread.read()
        unread.close()
        server.virtual.let_pass(60_000)

    expect_none(life)


def test_every_api() -> None:
    broker = started()

    def life() -> None:
        for api, version in EVERY_VERSION:
            if api.key is not ApiKey.FETCH:
                broker.send(filled_request(api), version)
        broker.let_pass(400_000)

    expect_none(life)


def test_transactions() -> None:
    broker = broker_with_topic()

    def life() -> None:
        for commit in (True, False):
            producer = Producer(broker).init()
            producer.add(0)
            producer.produce()
            producer.end(commit)
        fenced = Producer(broker).init()
        Producer(broker).init()
        fenced.add(0)
        fenced.end()
        fenced.produce()
        fenced.ask_end(True, 5)
        modern = Producer(broker).init()
        modern.produce(version=12)
        modern.end(version=5)
        left = Producer(broker, "left").init()
        left.add(0, 1)
        left.produce(1)
        broker.let_pass(60_000)
        left.end()
        broker.let_pass(8 * DAY_MS)
        broker.broker.transactions.step()
        broker.broker.logs.step()

    expect_none(life)


def test_classic_groups() -> None:
    broker = started()

    def life() -> None:
        for join_version, name in ((1, None), (5, "instance")):
            member = Member(broker, join_version=join_version, group_instance_id=name)
            member.join()
            broker.let_pass(4_000)
            member.learn()
            member.sync({member.member_id: b"assignment"})
            member.heartbeat()
            other = Member(broker, "other", join_version=join_version)
            other.join()
            member.heartbeat()
            broker.let_pass(200_000)
        broker.ask(DeleteGroupsRequest(groups_names=["group", "none"]), 2)

    expect_none(life)


def test_consumer_groups() -> None:
    broker = started()

    def life() -> None:
        one, two = Consumer(broker), Consumer(broker, "two", regex="t.*", topics=None)
        one.join()
        two.join()
        one.heartbeat()
        two.heartbeat()
        one.heartbeat()
        one.heartbeat(member_epoch=99)
        two.leave()
        broker.let_pass(100_000)
        broker.ask(DeleteGroupsRequest(groups_names=["group"]), 2)

    expect_none(life)


def test_topics() -> None:
    server = Server("log.segment.bytes=1048576", "log.retention.ms=60000", "log.roll.ms=60000")
    broker: VirtualBroker = server.virtual

    def life() -> None:
        creatable = CreatableTopic(name="t", num_partitions=2, replication_factor=1)
        assert broker.ask(CreateTopicsRequest(topics=[creatable]), 4).topics[0].error_code == ErrorCode.NONE
        broker.ask(CreateTopicsRequest(topics=[creatable]), 4)
        transport = server.connect()
        for number in range(6):
            server.send(transport, produce(number, "t", value_bytes=300_000))
            server.settle()
        partition = DeleteRecordsPartition(partition_index=0, offset=3)
        broker.ask(DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="t", partitions=[partition])]), 2)
        broker.let_pass(600_000)
        broker.broker.logs.step()
        broker.ask(DeleteTopicsRequest(topic_names=["t", "none"]), 5)
        broker.let_pass(600_000)
        broker.broker.logs.step()
        transport.close()

    expect_none(life)


def test_fetches() -> None:
    server = Server()
    setup = server.connect()
    server.send(setup, metadata(1, "t") + produce(2, "t"))
    server.settle()

    def life() -> None:
        transport = server.connect()
        server.send(transport, fetch(1, "t") + fetch(2, "none") + fetch(3, "t", offset=9, max_wait_ms=1_000))
        server.settle()
        transport.abort()
        server.virtual.let_pass(10_000)

    expect_none(life)
