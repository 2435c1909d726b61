"""Our client in groups of each kind, on our daemon and, where its jars are, on Apache Kafka: partitions move from
member to member without a moment of two owners, and nothing is read twice or left out."""

import uuid
from collections.abc import Iterator
from contextlib import AsyncExitStack

import pytest

from oncelog.client import Admin, ConsumerOptions, NewTopic, Producer
from tests.support.daemon import Daemon
from tests.support.group_workers import Ledger, Worker
from tests.support.interop import QUICK_GROUPS, unique
from tests.support.kafka import Kafka

PARTITIONS = 6
KINDS: dict[str, ConsumerOptions] = {
    name: {"partition_assignment_strategy": [name]} for name in ("range", "roundrobin", "sticky", "cooperative-sticky")
}


@pytest.fixture(scope="module", params=["oncelog", pytest.param("kafka", marks=pytest.mark.kafka)])
def bootstrap(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory = tmp_path_factory.mktemp(request.param)
    running: Daemon | Kafka
    if request.param == "kafka":
        running = Kafka(directory, overrides=QUICK_GROUPS)
    else:
        running = Daemon(directory / "data", *QUICK_GROUPS)
    yield running.bootstrap
    running.stop()


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
                "heartbeat_interval_ms": 100,
                "session_timeout_ms": 6_000,
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


@pytest.mark.parametrize("kind", ["cooperative-sticky"])
async def test_a_member_keeps_what_it_need_not_give_up(bootstrap: str, kind: str) -> None:
    scene = Scene(bootstrap, kind)
    await scene.create()
    async with scene.worker("first"):
        await scene.ledger.wait_for_shares(6)
        async with scene.worker("second"):
            await scene.ledger.wait_for_shares(3, 3)
            async with scene.worker("third"):
                await scene.ledger.wait_for_shares(2, 2, 2)
    # 6 -> 3 and 3 -> 2; whoever leaves revokes nothing.
    assert sum(count for _, count in scene.ledger.revoked) == 5
