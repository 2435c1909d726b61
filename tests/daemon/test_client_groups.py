"""Our client in groups of each kind, on our daemon and, where its jars are, on Apache Kafka: partitions move from
member to member without a moment of two owners, and nothing is read twice or left out."""

import asyncio
import uuid
from collections.abc import Iterator
from contextlib import AsyncExitStack

import pytest

from oncelog.client import (
    Admin,
    CommitFailed,
    Consumer,
    ConsumerOptions,
    NewTopic,
    Producer,
    TopicPartition,
    TransactionalSession,
    UnknownTopic,
)
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.leave_group_request import LeaveGroupRequest, MemberIdentity
from tests.clients.wire import WireBroker
from tests.support.foreign.group_workers import Ledger, Worker
from tests.support.foreign.interop import QUICK_GROUPS, unique
from tests.support.kafka.server import ON_BOTH, serving
from tests.support.patience import PATIENCE_MS, PATIENCE_S

PARTITIONS = 6
_QUICK: ConsumerOptions = {"heartbeat_interval_ms": 100, "session_timeout_ms": PATIENCE_MS}
KINDS: dict[str, ConsumerOptions] = {
    name: {"partition_assignment_strategy": [name], **_QUICK}
    for name in ("range", "roundrobin", "sticky", "cooperative-sticky")
}
KINDS["consumer"] = {"group_protocol": "consumer"}
"""The assignors of a classic group, and the protocol of KIP-848, where the broker's settings make it quick."""
KEEPING = ("cooperative-sticky", "consumer")
"""Members keep what they need not give up."""
PROTOCOLS = ("range", *KEEPING)


@pytest.fixture(scope="module", params=ON_BOTH)
def bootstrap(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(request.param, tmp_path_factory.mktemp(request.param), *QUICK_GROUPS) as bootstrap:
        yield bootstrap


class Scene:
    """A topic, a group that reads it, and a ledger."""

    def __init__(self, bootstrap: str, kind: str) -> None:
        self.bootstrap, self.kind = bootstrap, kind
        self.topic = f"topic-{uuid.uuid4().hex[:8]}"
        self.group_id = unique("group")
        self.ledger = Ledger()
        self._written = 0

    async def create(self, partitions: int = PARTITIONS) -> None:
        async with Admin(self.bootstrap) as admin:
            await admin.create_topics(NewTopic(self.topic, partitions, 1))

    async def write(self, count: int = 60) -> None:
        async with Producer(self.bootstrap) as producer:
            for number in range(self._written, self._written + count):
                await producer.send_soon(self.topic, b"%d" % number, partition=number % PARTITIONS)
        self._written += count

    async def read_all(self) -> None:
        await self.ledger.wait_for_reads(self._written)

    def options(self, **more: object) -> ConsumerOptions:
        return ConsumerOptions(
            **{
                "bootstrap_servers": self.bootstrap,
                "group_id": self.group_id,
                "auto_offset_reset": "earliest",
                **KINDS[self.kind],
                **more,
            }  # type: ignore[typeddict-item]
        )

    def worker(self, name: str, **more: object) -> Worker:
        return Worker(name, self.ledger, [self.topic], self.options(**more))


@pytest.mark.parametrize("kind", KINDS)
async def test_members_come_and_go_and_each_record_is_read_once(bootstrap: str, kind: str) -> None:
    scene = Scene(bootstrap, kind)
    await scene.create()
    async with AsyncExitStack() as members:
        await members.enter_async_context(scene.worker("stays"))
        await scene.ledger.wait_for_shares(6)
        async with scene.worker("second"):
            await scene.write()
            await scene.ledger.wait_for_shares(3, 3)
            async with scene.worker("third"), scene.worker("fourth"):
                await scene.write()
                await scene.ledger.wait_for_shares(1, 1, 2, 2)
                await scene.write()
                await scene.read_all()
        await scene.write()
        await scene.ledger.wait_for_shares(6)
        await scene.read_all()
    assert sorted(scene.ledger.reads) == list(range(240))
    assert scene.ledger.readers >= {"stays"}


@pytest.mark.parametrize("kind", KEEPING)
async def test_a_member_keeps_what_it_need_not_give_up(bootstrap: str, kind: str) -> None:
    scene = Scene(bootstrap, kind)
    await scene.create()
    async with scene.worker("first"):
        await scene.ledger.wait_for_shares(6)
        async with scene.worker("second"):
            await scene.ledger.wait_for_shares(3, 3)
            async with scene.worker("third"):
                await scene.ledger.wait_for_shares(2, 2, 2)
                # 6 -> 3 and 3 -> 2
                assert sum(count for _, count in scene.ledger.revoked) == 5


@pytest.mark.parametrize("kind", PROTOCOLS)
async def test_a_silent_member_loses_its_partitions_and_is_notified_before_it_reads_on(
    bootstrap: str, kind: str
) -> None:
    scene = Scene(bootstrap, kind)
    await scene.create()
    await scene.write()
    told: list[str] = []

    async def note(what: str, count: int) -> None:
        told.append(f"{what} {count}")

    async with Consumer(
        scene.topic,
        on_assign=lambda partitions: note("assigned", len(partitions)),
        on_revoke=lambda partitions: note("revoked", len(partitions)),
        on_lost=lambda partitions: note("lost", len(partitions)),
        **scene.options(max_poll_interval_ms=300),
    ) as silent:
        while len(silent.assignment()) < PARTITIONS:
            await silent.poll(50)
        async with scene.worker("other"):
            await scene.ledger.wait_for_shares(6)
            await scene.read_all()
            with pytest.raises(CommitFailed):
                await silent.commit_sync()
            async with Producer(bootstrap, transactional_id=unique("id")) as producer:
                with pytest.raises(CommitFailed):
                    async with producer.transaction() as transaction:
                        await transaction.send_offsets({TopicPartition(scene.topic, 0): 3}, group=silent)
        while len(told) < 3:
            assert await silent.poll(50) == []
        assert told[:3] == ["assigned 6", "lost 6", "assigned 6"]
        assert await silent.position(TopicPartition(scene.topic, 0)) == 10


@pytest.mark.parametrize("kind", PROTOCOLS)
async def test_a_static_member_comes_back_to_its_partitions_and_others_lose_none(bootstrap: str, kind: str) -> None:
    scene = Scene(bootstrap, kind)
    await scene.create()
    async with scene.worker("other", group_instance_id="other"):
        await scene.ledger.wait_for_shares(6)
        before: list[TopicPartition] = []
        for _ in range(3):
            async with Consumer(scene.topic, **scene.options(group_instance_id="comes and goes")) as consumer:
                async with asyncio.timeout(PATIENCE_S):
                    while len(consumer.assignment()) < 3:
                        await consumer.poll(50)
                assert before in ([], consumer.assignment())
                before = consumer.assignment()
                gone = len(scene.ledger.revoked)
        assert len(scene.ledger.revoked) == gone == 1
        # Partitions without an owner now wait for theirs.
        assert len(scene.ledger.owners) == 3


@pytest.mark.parametrize("kind", PROTOCOLS)
async def test_a_member_that_was_removed_commits_nothing_though_the_group_is_empty(bootstrap: str, kind: str) -> None:
    scene = Scene(bootstrap, kind)
    await scene.create()
    place = TopicPartition(scene.topic, 0)
    async with Consumer(scene.topic, **scene.options()) as member, Admin(bootstrap) as admin:
        while len(member.assignment()) < PARTITIONS:
            await member.poll(50)
        await asyncio.to_thread(remove, bootstrap, scene.group_id, member.group_metadata().member_id)
        with pytest.raises(CommitFailed):
            await member.heartbeat()
        with pytest.raises(CommitFailed):
            await member.commit_sync({place: 3})
        async with Producer(bootstrap, transactional_id=unique("id")) as producer:
            with pytest.raises(CommitFailed):
                async with producer.transaction() as transaction:
                    await transaction.send_offsets({place: 3}, group=member)
        assert await admin.list_group_offsets(scene.group_id) == {}


def remove(bootstrap: str, group_id: str, member_id: str) -> None:
    """Remove a member that hangs, as an administrator does."""
    wire = WireBroker(bootstrap)
    leaving = [MemberIdentity(member_id=member_id)]
    assert wire.ask(LeaveGroupRequest(group_id=group_id, members=leaving), 5).members[0].error_code == ErrorCode.NONE
    wire.close()


@pytest.mark.parametrize("kind", PROTOCOLS)
async def test_a_pattern_reads_the_topics_it_matches_and_those_that_come_later(bootstrap: str, kind: str) -> None:
    prefix = unique("pattern")

    async def put(name: str) -> None:
        async with Admin(bootstrap) as admin:
            await admin.create_topics(NewTopic(name, 1, 1))
        async with Producer(bootstrap) as producer:
            await producer.send(name, name.encode())

    for name in (f"{prefix}-a", f"{prefix}-b", f"not-{prefix}-c"):
        await put(name)
    options = Scene(bootstrap, kind).options(pattern=f"{prefix}-.", metadata_max_age_ms=200)
    async with Consumer(**options) as member:
        found: list[bytes | None] = []
        while len(found) < 2:
            found += [each.value for each in await member.poll(10_000)]
        assert sorted(found, key=str) == [f"{prefix}-a".encode(), f"{prefix}-b".encode()]
        await put(f"{prefix}-z")
        while f"{prefix}-z".encode() not in found:
            found += [each.value for each in await member.poll(10_000)]
        assert {each.topic for each in member.assignment()} == {f"{prefix}-{letter}" for letter in "abz"}


@pytest.mark.parametrize("kind", PROTOCOLS)
async def test_a_topic_that_does_not_exist_is_named_at_once(bootstrap: str, kind: str) -> None:
    scene = Scene(bootstrap, kind)
    async with Consumer(f"{scene.topic}-mistyped", **scene.options()) as consumer:
        with pytest.raises(UnknownTopic):
            await consumer.poll(PATIENCE_MS)


@pytest.mark.parametrize("kind", PROTOCOLS)
async def test_new_partitions_of_a_topic_are_read(bootstrap: str, kind: str) -> None:
    scene = Scene(bootstrap, kind)
    await scene.create(2)
    async with Consumer(scene.topic, **scene.options(metadata_max_age_ms=200)) as consumer, Admin(bootstrap) as admin:
        async with asyncio.timeout(PATIENCE_S):
            while len(consumer.assignment()) < 2:
                await consumer.poll(50)
            await admin.create_partitions({scene.topic: 3})
            while len(consumer.assignment()) < 3:
                await consumer.poll(50)


@pytest.mark.parametrize("kind", PROTOCOLS)
async def test_sessions_share_a_topic_and_copy_each_record_once(bootstrap: str, kind: str) -> None:
    scene, results = Scene(bootstrap, kind), unique("results")
    await scene.create()
    async with Admin(bootstrap) as admin:
        await admin.create_topics(NewTopic(results, 1, 1))
    await scene.write()
    chosen = ("bootstrap_servers", "group_id")
    options = ConsumerOptions(**{key: each for key, each in scene.options().items() if key not in chosen})  # type: ignore[typeddict-item]

    async def copy() -> None:
        async with TransactionalSession(
            scene.topic, group_id=scene.group_id, bootstrap_servers=bootstrap, max_records=7, consumer=options
        ) as session:
            async for batch in session:
                async with batch:
                    for record in batch:
                        await batch.send_soon(results, record.value)

    copiers = [asyncio.ensure_future(copy())]
    found: list[int] = []
    async with Consumer(results, bootstrap_servers=bootstrap, auto_offset_reset="earliest") as reader:
        for count in (60, 120, 180):
            async with asyncio.timeout(PATIENCE_S):
                while len(found) < count:
                    found += [int(each.value or b"") for each in await reader.poll(1_000)]
            if count < 180:
                copiers.append(asyncio.ensure_future(copy()))
                await scene.write()
    for copier in copiers:
        copier.cancel()
    await asyncio.gather(*copiers, return_exceptions=True)
    assert sorted(found) == list(range(180))
