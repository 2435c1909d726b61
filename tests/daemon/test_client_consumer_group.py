"""Our client as a member of a consumer group (KIP-848), where heartbeats and their answers get lost."""

import asyncio
from collections.abc import Iterator, Sequence

import pytest

from oncelog.client import Admin, ConfigError, Consumer, ConsumerOptions, FatalError, Producer, TopicPartition
from oncelog.faults import Action, ApiKey, ErrorCode, FaultClient, Point, Rule, Selector
from tests.clients.topics import new_topic
from tests.support.foreign.interop import QUICK_GROUPS
from tests.support.patience import PATIENCE_MS, PATIENCE_S
from tests.support.processes.daemon import Daemon
from tests.support.processes.faults import faults_of
from tests.support.requests.sent_requests import sent_requests

HEARTBEATS = Selector(api=ApiKey.CONSUMER_GROUP_HEARTBEAT, client_id="first")
COMMITS = Selector(api=ApiKey.OFFSET_COMMIT, client_id="first")
LOOKUPS = Selector(api=ApiKey.OFFSET_FETCH, client_id="first")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    daemon = Daemon(tmp_path_factory.mktemp("daemon") / "data", "oncelog.admin.listen=127.0.0.1:0", *QUICK_GROUPS)
    yield daemon
    daemon.stop()


@pytest.fixture
def started(running: Daemon) -> Iterator[tuple[Daemon, FaultClient]]:
    """One daemon for all: each test has a topic and a group of its own, and leaves no rule behind."""
    faults = faults_of(running)
    yield running, faults
    faults.remove_all()


async def filled_topic(daemon: Daemon, partitions: int = 4) -> str:
    name = await new_topic(daemon.bootstrap, partitions)
    async with Producer(daemon.bootstrap) as producer:
        for partition in range(partitions):
            await producer.send(name, b"value", partition=partition)
    return name


def member(daemon: Daemon, topic: str, **options: object) -> Consumer:
    given = {
        "bootstrap_servers": daemon.bootstrap,
        "group_id": topic,
        "group_protocol": "consumer",
        "auto_offset_reset": "earliest",
        **options,
    }
    return Consumer(topic, **ConsumerOptions(**given))  # type: ignore[typeddict-item]


async def share(*sizes: int, among: Sequence[Consumer]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while sorted(len(each.assignment()) for each in among) != list(sizes):
            await asyncio.gather(*(each.poll(50) for each in among))


@pytest.mark.interpreted  # sent_requests replaces a method of the connection
async def test_a_commit_under_an_epoch_whose_successor_got_lost_is_sent_again_under_the_new_one(
    started: tuple[Daemon, FaultClient],
) -> None:
    daemon, faults = started
    topic = await filled_topic(daemon)
    planted: list[int] = []

    async def on_revoke(_: object) -> None:
        # The heartbeat that reports it raises the epoch, and its answer does not arrive.
        planted.append(await asyncio.to_thread(faults.plant, Rule(Point.ANSWER, Action.DROP, HEARTBEATS)))

    async with (
        member(daemon, topic, client_id="first", on_revoke=on_revoke, retry_backoff_ms=500) as first,
        member(daemon, topic) as second,
    ):
        await share(4, among=[first])
        joining = asyncio.ensure_future(share(2, among=[second]))
        await share(2, among=[first])
        assert (await asyncio.to_thread(faults.wait_fired, planted[0])).fired_count == 1
        stale = Rule(Point.REQUEST, Action.ERROR, COMMITS, error=ErrorCode.STALE_MEMBER_EPOCH)
        await asyncio.to_thread(faults.plant, stale)
        with sent_requests() as sent:
            await first.commit_sync(dict.fromkeys(first.assignment(), 1))
        commits = [each.message.generation_id_or_member_epoch for each in sent if each.key == ApiKey.OFFSET_COMMIT]
        assert len(commits) == 2
        assert commits[0] < commits[1]
        assert {each.offset for each in (await first.committed()).values()} == {1}
        await joining


async def test_an_offset_that_is_refused_for_a_stale_epoch_is_looked_up_again(
    started: tuple[Daemon, FaultClient],
) -> None:
    daemon, faults = started
    topic = await filled_topic(daemon)
    faults.plant(Rule(Point.REQUEST, Action.ERROR, LOOKUPS, error=ErrorCode.STALE_MEMBER_EPOCH))
    async with member(daemon, topic, client_id="first", retry_backoff_ms=5) as first:
        assert len(await first.poll(PATIENCE_MS)) > 0


@pytest.mark.parametrize("point", [Point.REQUEST, Point.ANSWER])
async def test_a_member_joins_once_though_its_heartbeats_get_lost(
    started: tuple[Daemon, FaultClient], point: Point
) -> None:
    daemon, faults = started
    topic = await filled_topic(daemon)
    faults.plant(Rule(point, Action.DROP, HEARTBEATS, times=3))
    async with member(daemon, topic, client_id="first", retry_backoff_ms=5) as first:
        await share(4, among=[first])
        async with Admin(daemon.bootstrap) as admin:
            (described,) = await admin.describe_groups(topic)
        assert len(described.members) == 1


@pytest.mark.parametrize("code", [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID])
async def test_a_fenced_member_gives_up_everything_and_joins_again(
    started: tuple[Daemon, FaultClient], code: ErrorCode
) -> None:
    daemon, faults = started
    topic = await filled_topic(daemon)
    told: list[str] = []

    async def note(what: str, partitions: Sequence[TopicPartition]) -> None:
        told.append(f"{what} {len(partitions)}")

    async with member(
        daemon,
        topic,
        client_id="first",
        on_assign=lambda partitions: note("assigned", partitions),
        on_lost=lambda partitions: note("lost", partitions),
        enable_auto_commit=True,
    ) as first:
        await share(4, among=[first])
        faults.plant(Rule(Point.REQUEST, Action.ERROR, HEARTBEATS, error=code))
        async with asyncio.timeout(PATIENCE_S):
            while len(told) < 3:
                await first.poll(50)
    assert told == ["assigned 4", "lost 4", "assigned 4"]


@pytest.mark.interpreted  # sent_requests replaces a method of the connection
async def test_a_heartbeat_that_has_nothing_new_to_say_says_nothing(started: tuple[Daemon, FaultClient]) -> None:
    daemon, _ = started
    topic = await filled_topic(daemon, partitions=100)
    async with member(daemon, topic) as first:
        await share(100, among=[first])
        await first.heartbeat()
        with sent_requests() as sent:
            await first.heartbeat()
    (heartbeat,) = [each for each in sent if each.key == ApiKey.CONSUMER_GROUP_HEARTBEAT]
    assert heartbeat.message.subscribed_topic_names is heartbeat.message.topic_partitions is None
    assert heartbeat.size_in_bytes < 150


async def test_the_coordinators_assignor_can_be_chosen_and_an_unknown_one_is_named(
    started: tuple[Daemon, FaultClient],
) -> None:
    daemon, _ = started
    topic = await filled_topic(daemon)
    async with (
        member(daemon, topic, group_remote_assignor="range") as first,
        member(daemon, topic, group_remote_assignor="range") as second,
    ):
        await share(2, 2, among=[first, second])
        found = sorted([each.partition for each in consumer.assignment()] for consumer in (first, second))
        assert found == [[0, 1], [2, 3]]
    async with member(daemon, topic, group_remote_assignor="nearest") as lost:
        with pytest.raises(ConfigError, match=r"nearest is not supported. Supported assignors: uniform, range"):
            await lost.poll(PATIENCE_MS)


async def test_two_members_cannot_have_one_instance_id_at_a_time(started: tuple[Daemon, FaultClient]) -> None:
    daemon, _ = started
    topic = await filled_topic(daemon)
    async with (
        member(daemon, topic, group_instance_id="one") as first,
        member(daemon, topic, group_instance_id="one") as second,
    ):
        await share(4, among=[first])
        with pytest.raises(FatalError, match=r"UNRELEASED_INSTANCE_ID.*group_instance_id"):
            await second.poll(PATIENCE_MS)
        await first.heartbeat()
