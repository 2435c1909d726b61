"""Our share consumer (KIP-932) against our daemon, and, where its jars are, against Apache Kafka: the same tests, the
same answers."""

import asyncio
import re
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import pytest

from oncelog import sync
from oncelog.client import (
    AcknowledgementFailed,
    Admin,
    DeserializationError,
    InvalidState,
    KafkaError,
    NewTopic,
    Producer,
    ShareConsumer,
    ShareConsumerOptions,
    ShareRecord,
    TopicPartition,
    UnknownTopic,
)
from tests.support.kafka.server import ON_BOTH, serving
from tests.support.patience import PATIENCE_S

OVERRIDES = (
    "share.coordinator.state.topic.replication.factor=1",
    "share.coordinator.state.topic.min.isr=1",
    "share.coordinator.state.topic.num.partitions=2",
    "group.share.min.record.lock.duration.ms=1000",
    # A member gets its first partitions with the second heartbeat.
    "group.share.heartbeat.interval.ms=100",
    "group.share.min.heartbeat.interval.ms=100",
    "group.share.assignment.interval.ms=0",
)
LOCK_MS = 1_000
"""The shortest lock of a record that a group may have."""


@pytest.fixture(scope="module", params=ON_BOTH)
def bootstrap(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(request.param, tmp_path_factory.mktemp(request.param), *OVERRIDES) as bootstrap:
        yield bootstrap


class Scene:
    """A topic, and a share group that reads it from its beginning."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.topic = f"topic-{uuid.uuid4().hex[:8]}"
        self.group = f"group-{uuid.uuid4().hex[:8]}"

    async def prepare(self, partitions: int = 1, **configs: str) -> None:
        async with Admin(self.bootstrap) as admin:
            await admin.create_topics(NewTopic(self.topic, partitions, 1))
            wanted = {"share.auto.offset.reset": "earliest"}
            wanted |= {f"share.{name.replace('_', '.')}": value for name, value in configs.items()}
            await admin.alter_configs(wanted, group=self.group)

    async def produce(self, *values: str, transactional_id: str | None = None) -> None:
        async with Producer(self.bootstrap, transactional_id=transactional_id) as producer:
            for value in values:
                await producer.send(self.topic, value.encode())

    @property
    def options(self) -> ShareConsumerOptions:
        return {"bootstrap_servers": self.bootstrap, "group_id": self.group}

    @property
    def explicit(self) -> ShareConsumerOptions:
        return {**self.options, "share_acknowledgement_mode": "explicit"}


@pytest.fixture
async def scene(bootstrap: str) -> AsyncIterator[Scene]:
    made = Scene(bootstrap)
    async with asyncio.timeout(PATIENCE_S):
        yield made


async def some(consumer: ShareConsumer) -> list[ShareRecord]:
    """The records of the next poll that returns any."""
    while True:
        if records := await consumer.poll(1_000):
            return records


def seen(records: Sequence[ShareRecord]) -> list[tuple[str, int]]:
    return [((each.value or b"").decode(), each.delivery_count) for each in records]


async def test_what_the_next_poll_or_a_commit_accepts_never_comes_again(scene: Scene) -> None:
    """A record that is accepted by neither comes again, with the next delivery count."""
    await scene.prepare(record_lock_duration_ms=str(LOCK_MS))
    await scene.produce("first")
    async with ShareConsumer(scene.topic, **scene.options) as consumer:
        assert seen(await some(consumer)) == [("first", 1)]
        await scene.produce("second")
        assert seen(await some(consumer)) == [("second", 1)]
        assert await consumer.commit_sync() == {TopicPartition(scene.topic, 0): None}
        assert await consumer.commit_sync() == {}
        await scene.produce("third")
        assert seen(await some(consumer)) == [("third", 1)]
        assert consumer.acquisition_lock_timeout_ms == LOCK_MS
    async with ShareConsumer(scene.topic, **scene.options) as consumer:
        assert seen(await some(consumer)) == [("third", 2)]


async def test_each_acknowledgement_has_its_effect(scene: Scene) -> None:
    await scene.prepare()
    await scene.produce("accept", "release", "reject", "forget")
    outcomes: list[tuple[Sequence[int], KafkaError | None]] = []
    options: ShareConsumerOptions = {
        **scene.explicit,
        "on_acknowledged": lambda _, offsets, error: outcomes.append((offsets, error)),
    }
    async with ShareConsumer(scene.topic, **options) as consumer:
        records = await some(consumer)
        consumer.acknowledge(records[0], "accept")
        consumer.acknowledge(records[1], "release")
        consumer.acknowledge(records[2], "reject")
        assert seen(records) == [("accept", 1), ("release", 1), ("reject", 1), ("forget", 1)]
        with pytest.raises(InvalidState, match="1 records of the last poll are not acknowledged"):
            await consumer.poll()
    assert [error for _, error in outcomes] == [None] * len(outcomes)
    assert [each for offsets, _ in outcomes for each in offsets] == [0, 1, 2]
    async with ShareConsumer(scene.topic, **scene.explicit) as consumer:
        records = []
        while len(records) < 2:
            records += await consumer.poll(1_000)
            for each in records:
                consumer.acknowledge(each)
        assert seen(sorted(records)) == [("release", 2), ("forget", 2)]


async def test_a_renewed_record_comes_again_before_others_and_stays_delivered_once(scene: Scene) -> None:
    """The renewals outlast the lock twice; no other member gets the record meanwhile."""
    await scene.prepare(record_lock_duration_ms=str(LOCK_MS))
    await scene.produce("long")
    one: ShareConsumerOptions = {**scene.explicit, "share_acquire_mode": "record_limit", "max_poll_records": 1}
    async with (
        ShareConsumer(scene.topic, **one) as consumer,
        ShareConsumer(scene.topic, **scene.explicit) as other,
    ):
        (record,) = await some(consumer)
        end_s = asyncio.get_running_loop().time() + 2 * LOCK_MS / 1_000
        while asyncio.get_running_loop().time() < end_s:
            assert await other.poll(LOCK_MS // 5) == []
            consumer.acknowledge(record, "renew")
            assert await some(consumer) == [record]
        consumer.acknowledge(record)
        assert await consumer.commit_sync() == {TopicPartition(scene.topic, 0): None}
        assert await other.poll(2 * LOCK_MS) == []


async def test_an_acknowledgement_after_the_lock_has_ended_fails_and_the_record_comes_again(scene: Scene) -> None:
    await scene.prepare(record_lock_duration_ms=str(LOCK_MS))
    await scene.produce("slow")
    async with (
        ShareConsumer(scene.topic, **scene.explicit) as consumer,
        ShareConsumer(scene.topic, **scene.explicit) as other,
    ):
        (record,) = await some(consumer)
        (again,) = await some(other)
        assert (record.delivery_count, again.delivery_count) == (1, 2)
        consumer.acknowledge(record)
        (error,) = (await consumer.commit_sync()).values()
        assert isinstance(error, AcknowledgementFailed)
        assert error.name == "INVALID_RECORD_STATE"
        other.acknowledge(again)
        assert await other.commit_sync() == {TopicPartition(scene.topic, 0): None}


async def test_markers_and_aborted_records_are_acknowledged_without_the_program(scene: Scene) -> None:
    """The group moves past them with read_committed; with read_uncommitted a marker is a gap."""
    await scene.prepare(isolation_level="read_uncommitted")
    async with Producer(scene.bootstrap, transactional_id=scene.group) as producer:
        async with producer.transaction() as transaction:
            await transaction.send(scene.topic, b"committed")
        transaction = producer.transaction()
        async with transaction:
            await transaction.send(scene.topic, b"aborted")
            await transaction.abort()
    await scene.produce("plain")
    async with ShareConsumer(scene.topic, **scene.options) as consumer:
        values: list[tuple[str, int]] = []
        while ("plain", 1) not in values:
            values += seen(await consumer.poll(1_000))
        assert values == [("committed", 1), ("aborted", 1), ("plain", 1)]
        assert set((await consumer.commit_sync()).values()) <= {None}
    committed = Scene(scene.bootstrap)
    committed.topic = scene.topic
    async with Admin(scene.bootstrap) as admin:
        configs = {"share.auto.offset.reset": "earliest", "share.isolation.level": "read_committed"}
        await admin.alter_configs(configs, group=committed.group)
    async with ShareConsumer(scene.topic, **committed.options) as consumer:
        values = []
        while ("plain", 1) not in values:
            values += seen(await consumer.poll(1_000))
        assert values == [("committed", 1), ("plain", 1)]


async def test_a_record_that_cannot_be_deserialized_is_released_or_rejected_and_the_others_come(scene: Scene) -> None:
    await scene.prepare()
    await scene.produce("1", "two", "3")
    options: ShareConsumerOptions[bytes, int] = {
        "bootstrap_servers": scene.bootstrap,
        "group_id": scene.group,
        "share_acknowledgement_mode": "explicit",
        "value_deserializer": int,
    }
    async with ShareConsumer(scene.topic, **options) as consumer:
        numbers: list[object] = []
        while len(numbers) < 2:
            try:
                for each in await consumer.poll(1_000):
                    numbers.append(each.value)
                    consumer.acknowledge(each)
            except DeserializationError as error:
                assert error.record.value == b"two"
                consumer.acknowledge(error.record, "reject")
        assert numbers == [1, 3]
        assert set((await consumer.commit_sync()).values()) <= {None}
    await scene.produce("4")
    async with ShareConsumer(scene.topic, **scene.explicit) as consumer:
        assert seen(await some(consumer)) == [("4", 1)]


async def test_members_share_the_records_of_one_partition(scene: Scene) -> None:
    """Each record is accepted once, by one of three members that read at the same time."""
    await scene.prepare()
    wanted = {f"{number}" for number in range(300)}
    accepted: list[str] = []

    async def work() -> None:
        options: ShareConsumerOptions = {**scene.options, "share_acquire_mode": "record_limit", "max_poll_records": 7}
        async with ShareConsumer(scene.topic, **options) as consumer:
            while len(accepted) < len(wanted):
                records = await consumer.poll(200)
                outcomes = await consumer.commit_sync()
                assert set(outcomes.values()) <= {None}
                accepted.extend(value for value, _ in seen(records))

    async with asyncio.TaskGroup() as group:
        for _ in range(3):
            group.create_task(work())
        await scene.produce(*sorted(wanted))
    assert sorted(accepted) == sorted(wanted)


async def test_topics_come_and_go_and_a_missing_one_is_named(scene: Scene) -> None:
    await scene.prepare()
    await scene.produce("value")
    async with ShareConsumer(**scene.options) as consumer:
        with pytest.raises(InvalidState, match="nothing to read"):
            await consumer.poll()
        consumer.subscribe(f"{scene.topic}x")
        with pytest.raises(UnknownTopic, match=scene.topic):
            await some(consumer)
        consumer.subscribe(scene.topic)
        assert seen(await some(consumer)) == [("value", 1)]
        assert consumer.assignment() == [TopicPartition(scene.topic, 0)]
        consumer.subscribe()
        assert consumer.subscription() == []
        # What is returned can still be acknowledged.
        assert await consumer.commit_sync() == {TopicPartition(scene.topic, 0): None}
        consumer.subscribe(scene.topic)
        await scene.produce("more")
        assert seen(await some(consumer)) == [("more", 1)]


def test_the_blocking_share_consumer_iterates_and_commits(bootstrap: str) -> None:
    scene = Scene(bootstrap)

    async def prepare() -> None:
        await scene.prepare(partitions=3)
        await scene.produce(*(f"{number}" for number in range(20)))

    asyncio.run(prepare())
    values: list[str] = []
    with sync.ShareConsumer(scene.topic, **scene.options) as consumer:
        for record in consumer:
            values.append((record.value or b"").decode())
            if len(values) == 20:
                break
        assert set(consumer.commit_sync().values()) == {None}
    assert sorted(values, key=int) == [f"{number}" for number in range(20)]


def test_the_scripts_of_the_page_run_as_they_stand(bootstrap: str) -> None:
    page = (Path(__file__).parents[2] / "docs/clients/client-share-consumer.md").read_text()
    scripts = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(scripts) == 3
    with sync.Producer(bootstrap) as producer, sync.Admin(bootstrap) as admin:
        admin.create_topics("orders")
        producer.send("orders", b"42")
    for script in scripts:
        text = script.replace("localhost:9092", bootstrap)
        command = [sys.executable, "-c", text]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        assert (done.returncode, done.stderr) == (0, ""), script
