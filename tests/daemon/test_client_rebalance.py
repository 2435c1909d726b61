"""What a consumer does while its group rebalances."""

import asyncio

import pytest

from oncelog.client import Admin, Consumer, ConsumerOptions, Producer, TopicPartition
from oncelog.client.groups.subscriptions import Subscription, encode_cooperative_subscription
from oncelog.faults import Action, ApiKey, Point, Rule, Selector
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.find_coordinator_request import FindCoordinatorRequest
from tests.clients.group_members import Member
from tests.clients.topics import new_topic
from tests.clients.wire import WireBroker
from tests.conftest import Start
from tests.daemon.test_spark_sink import with_faults
from tests.support.patience import PATIENCE_MS, PATIENCE_S
from tests.support.processes.daemon import Daemon
from tests.support.requests.sent_requests import sent_requests

FOR_GOOD_MS = 4 * PATIENCE_MS
"""A session that does not expire while a test waits."""


async def test_a_cooperative_member_reads_and_commits_while_the_group_waits_for_another_one(daemon: Daemon) -> None:
    topic = await new_topic(daemon.bootstrap, 4)
    subscription = encode_cooperative_subscription(Subscription([topic]))
    wire = WireBroker(daemon.bootstrap)
    silent = Member(
        wire, group_id=topic, protocols=[("cooperative-sticky", subscription)], session_timeout_ms=FOR_GOOD_MS
    )
    revoked: list[int] = []

    async def on_revoke(partitions: object) -> None:
        revoked.append(len(partitions))  # type: ignore[arg-type]

    async with Consumer(
        topic,
        bootstrap_servers=daemon.bootstrap,
        group_id=topic,
        auto_offset_reset="earliest",
        heartbeat_interval_ms=50,
        partition_assignment_strategy=["cooperative-sticky"],
        on_revoke=on_revoke,
    ) as consumer:
        while len(consumer.assignment()) < 4:
            await consumer.poll(50)
        await asyncio.to_thread(silent.join)
        while len(consumer.assignment()) > 2:
            await consumer.poll(50)
        # The other one has joined once and will not join again: the group waits for it.
        async with Producer(daemon.bootstrap) as producer:
            for partition in range(4):
                await producer.send(topic, b"value", partition=partition)
        read = []
        async with asyncio.timeout(PATIENCE_S):
            while len(read) < 2:
                read += await consumer.poll(1_000)
            await consumer.commit_sync()
        assert sorted({each.topic_partition for each in read}) == consumer.assignment()
        assert set((await consumer.committed()).values()) == {(1, "", -1)}
        assert revoked == [2]
    wire.close()


@pytest.mark.interpreted  # sent_requests replaces a method of the connection
async def test_a_commit_of_a_cooperative_member_that_comes_in_the_middle_of_its_join_is_sent_again(
    start_daemon: Start,
) -> None:
    daemon, faults = with_faults(start_daemon, "group.initial.rebalance.delay.ms=0")
    topic = await new_topic(daemon.bootstrap, 4)
    place = TopicPartition(topic, 0)
    wire = WireBroker(daemon.bootstrap)
    subscription = encode_cooperative_subscription(Subscription([topic]))
    other = Member(wire, group_id=topic, protocols=[("cooperative-sticky", subscription)])
    async with Consumer(
        topic,
        bootstrap_servers=daemon.bootstrap,
        group_id=topic,
        client_id="first",
        heartbeat_interval_ms=50,
        partition_assignment_strategy=["cooperative-sticky"],
    ) as first:
        while len(first.assignment()) < 4:
            await first.poll(50)
        # Between the new generation and its assignment the coordinator refuses every commit.
        held = faults.plant(Rule(Point.REQUEST, Action.HOLD, Selector(api=ApiKey.SYNC_GROUP, client_id="first")))
        refused = faults.plant(Rule(Point.ANSWER, Action.DELAY, Selector(api=ApiKey.OFFSET_COMMIT), delay_ms=0))
        await asyncio.to_thread(other.join)
        while not (await asyncio.to_thread(faults.status, held)).fired_count:
            await first.poll(50)
        with sent_requests() as sent:
            committing = asyncio.ensure_future(first.commit_sync({place: 1}))
            assert (await asyncio.to_thread(faults.wait_fired, refused)).fired_count == 1
            faults.release(held)
            await committing
        assert [each.key for each in sent].count(ApiKey.OFFSET_COMMIT) == 2
        assert (await first.committed(place))[place].offset == 1
    wire.close()


async def test_closing_does_not_wait_for_a_join_that_waits_for_others(daemon: Daemon) -> None:
    topic = await new_topic(daemon.bootstrap, 1)
    wire = WireBroker(daemon.bootstrap)
    subscription = encode_cooperative_subscription(Subscription([topic]))
    silent = Member(wire, group_id=topic, protocols=[("range", subscription)], session_timeout_ms=FOR_GOOD_MS)

    def take_part() -> None:
        while wire.ask(FindCoordinatorRequest(key=topic), 2).error_code:
            pass  # the first question creates what the coordinator keeps
        silent.join()
        silent.learn()
        assert silent.sync({silent.member_id: b""}).message.error_code == ErrorCode.NONE

    await asyncio.to_thread(take_part)
    async with Consumer(topic, bootstrap_servers=daemon.bootstrap, group_id=topic) as consumer:
        await consumer.poll(300)
        assert consumer.assignment() == []
        async with asyncio.timeout(PATIENCE_S):
            await consumer.close()
    wire.close()


QUICK_SESSIONS = ("group.initial.rebalance.delay.ms=0", "group.min.session.timeout.ms=100")
IMPATIENT = ConsumerOptions(session_timeout_ms=2_000, heartbeat_interval_ms=100, request_timeout_ms=2_000)
"""It repeats a join soon, and yet not while the others of a busy machine join."""


async def test_a_join_whose_response_got_lost_is_sent_again_and_answered(start_daemon: Start) -> None:
    daemon, faults = with_faults(start_daemon, *QUICK_SESSIONS)
    topic = await new_topic(daemon.bootstrap, 4)
    joins = Selector(api=ApiKey.JOIN_GROUP, client_id="second")
    lost = faults.plant(Rule(Point.ANSWER, Action.HOLD, joins))
    options = ConsumerOptions(bootstrap_servers=daemon.bootstrap, group_id=topic)
    async with (
        Consumer(topic, **options, heartbeat_interval_ms=100) as first,
        Consumer(topic, **options, **IMPATIENT, client_id="second", group_instance_id="second") as second,
        asyncio.timeout(PATIENCE_S),
    ):
        while [len(each.assignment()) for each in (first, second)] != [2, 2]:
            await asyncio.gather(first.poll(50), second.poll(50))
        assert (await asyncio.to_thread(faults.status, lost)).fired_count == 1
    await asyncio.to_thread(faults.remove_all)


async def test_a_join_that_is_sent_again_and_again_waits_for_the_other_members_all_the_same(
    start_daemon: Start,
) -> None:
    daemon, faults = with_faults(start_daemon, *QUICK_SESSIONS)
    topic = await new_topic(daemon.bootstrap, 4)
    joins = Selector(api=ApiKey.JOIN_GROUP, client_id="second")
    seen = faults.plant(Rule(Point.REQUEST, Action.DELAY, joins, delay_ms=0, times=None))
    options = ConsumerOptions(bootstrap_servers=daemon.bootstrap, group_id=topic)
    async with (
        Consumer(topic, **options, heartbeat_interval_ms=100) as first,
        Consumer(topic, **options, **IMPATIENT, client_id="second") as second,
        asyncio.timeout(PATIENCE_S),
    ):
        while len(first.assignment()) < 4:
            await first.poll(50)
        while (await asyncio.to_thread(faults.status, seen)).fired_count < 3:  # the first asks for an id
            await second.poll(50)
        while [len(each.assignment()) for each in (first, second)] != [2, 2]:
            await asyncio.gather(first.poll(50), second.poll(50))
        async with Admin(daemon.bootstrap) as admin:
            (described,) = await admin.describe_groups(topic)
        assert len(described.members) == 2, "it is the same member each time"
