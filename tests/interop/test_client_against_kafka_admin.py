"""Our Admin against our daemon and, where its jars are, against Apache Kafka: the same tests, the same answers."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any, Literal

import confluent_kafka
import pytest

from oncelog.client import (
    Admin,
    ConfigError,
    Consumer,
    KafkaError,
    NewTopic,
    OffsetAndMetadata,
    PartitionDescription,
    Producer,
    TopicPartition,
)
from oncelog.client.blocking import clients as sync
from oncelog.protocol.errors import ErrorCode
from tests.support.foreign.interop import unique
from tests.support.kafka.server import ON_BOTH, serving
from tests.support.patience import PATIENCE_S
from tests.support.processes.daemon import LOOKS_AT_FILES


@pytest.fixture(scope="module", params=ON_BOTH)
def bootstrap(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(request.param, tmp_path_factory.mktemp(request.param)) as bootstrap:
        yield bootstrap


async def until(question: Callable[[], Awaitable[Any]], expected: Any) -> None:
    """Kafka's controller answers when it has logged a change; its brokers know of it a little later."""
    answer = await question()
    async with asyncio.timeout(PATIENCE_S):
        while answer != expected:
            answer = await question()


async def written(admin: Admin, bootstrap: str, count: int = 10, partitions: int = 1) -> str:
    """A new topic with `count` records in each partition."""
    topic = unique("topic")
    await admin.create_topics(NewTopic(topic, partitions, 1))
    async with Producer(bootstrap) as producer:
        for partition in range(partitions):
            for number in range(count):
                await producer.send_soon(topic, b"%d" % number, partition=partition, timestamp_ms=1_000 * (number + 1))
    return topic


@asynccontextmanager
async def reading(bootstrap: str, topic: str, group_id: str) -> AsyncIterator[Consumer]:
    """A member of the group that owns the topic's partitions, and has committed nothing."""
    async with Consumer(
        topic, bootstrap_servers=bootstrap, group_id=group_id, auto_offset_reset="earliest"
    ) as consumer:
        assert await consumer.poll(20_000)
        yield consumer


async def test_partitions_are_added_and_described(bootstrap: str) -> None:
    async with Admin(bootstrap) as admin:
        topic = await written(admin, bootstrap)
        await admin.create_partitions({topic: 3}, validate_only=True)
        assert (await admin.describe_topics(topic))[0].partition_count == 1
        await admin.create_partitions({topic: 3})
        (node,) = (await admin.describe_cluster()).nodes

        async def described() -> Any:
            return (await admin.describe_topics(topic))[0].partitions

        await until(described, tuple(PartitionDescription(each, node, (node,), (node,)) for each in range(3)))
        with pytest.raises(ConfigError, match="INVALID_PARTITIONS"):
            await admin.create_partitions({topic: 2})
        with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION"):
            await admin.create_partitions({unique("no"): 2})


async def test_settings_of_a_topic_are_set_reset_and_extended(bootstrap: str) -> None:
    async with Admin(bootstrap) as admin:
        topic = await written(admin, bootstrap)

        async def set_now() -> dict[str, str | None]:
            entries = await admin.describe_config_entries(topic=topic)
            return {each.name: each.value for each in entries if each.source == "DYNAMIC_TOPIC_CONFIG"}

        await admin.alter_configs({"retention.ms": "5000", "segment.bytes": "2000000"}, topic=topic)
        await until(set_now, {"retention.ms": "5000", "segment.bytes": "2000000"})
        await admin.alter_configs(topic=topic, reset=["segment.bytes"], append={"cleanup.policy": "compact"})
        await until(set_now, {"retention.ms": "5000", "cleanup.policy": "delete,compact"})
        await admin.alter_configs(topic=topic, subtract={"cleanup.policy": "delete"})
        await until(set_now, {"retention.ms": "5000", "cleanup.policy": "compact"})
        with pytest.raises(ConfigError, match="INVALID_CONFIG"):
            await admin.alter_configs({"retention.ms": "soon"}, topic=topic, validate_only=True)
        missing = unique("no")
        for call in (admin.alter_configs({"retention.ms": "1"}, topic=missing), admin.describe_configs(topic=missing)):
            with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION"):
                await call
        with pytest.raises(ConfigError, match="name one of"):
            await admin.alter_configs({"retention.ms": "1"})


async def test_settings_of_a_node_of_all_nodes_and_of_a_group(bootstrap: str) -> None:
    async with Admin(bootstrap) as admin:
        (node_id,) = (await admin.describe_cluster()).nodes
        where: int | Literal["all"]
        for where, source in (("all", "DYNAMIC_DEFAULT_BROKER_CONFIG"), (node_id, "DYNAMIC_BROKER_CONFIG")):

            async def value(where: int | Literal["all"] = where, source: str = source) -> str | None:
                entries = await admin.describe_config_entries(node_id=where)
                found = [each.value for each in entries if (each.name, each.source) == ("log.retention.ms", source)]
                return found[0] if found else None

            await admin.alter_configs({"log.retention.ms": "7000000"}, node_id=where)
            await until(value, "7000000")
            await admin.alter_configs(node_id=where, reset=["log.retention.ms"])
            await until(value, None)
        group = unique("group")

        async def timeout() -> str | None:
            return (await admin.describe_configs(group=group)).get("consumer.session.timeout.ms")

        await admin.alter_configs({"consumer.session.timeout.ms": "46000"}, group=group)
        await until(timeout, "46000")


async def test_records_are_deleted_up_to_an_offset_or_all(bootstrap: str) -> None:
    async with Admin(bootstrap) as admin:
        topic = await written(admin, bootstrap, partitions=2)
        first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
        assert await admin.delete_records({first: 4, second: -1}) == {first: 4, second: 10}
        starts = await admin.list_offsets([first, second], "earliest")
        assert (starts[first].offset, starts[second].offset) == (4, 10)
        with pytest.raises(KafkaError, match="OFFSET_OUT_OF_RANGE"):
            await admin.delete_records({first: 11})


async def test_offsets_are_found_by_their_spec(bootstrap: str) -> None:
    async with Admin(bootstrap) as admin:
        place = TopicPartition(await written(admin, bootstrap), 0)
        for spec, offset in (("earliest", 0), ("latest", 10), ("max_timestamp", 9), (3_500, 3), (99_000, -1)):
            assert (await admin.list_offsets([place], spec))[place].offset == offset, spec
        assert (await admin.list_offsets([place], 3_500))[place].timestamp_ms == 4_000


async def test_a_group_is_listed_described_and_its_lag_counted(bootstrap: str) -> None:
    group = unique("group")
    async with Admin(bootstrap) as admin:
        topic = await written(admin, bootstrap, partitions=2)
        places = [TopicPartition(topic, index) for index in range(2)]
        async with reading(bootstrap, topic, group) as consumer:
            await consumer.commit_sync({places[0]: OffsetAndMetadata(4, "note")})
            (listed,) = [each for each in await admin.list_groups(states=["Stable"]) if each.group_id == group]
            assert (listed.protocol_type, listed.state, listed.type) == ("consumer", "Stable", "classic")
            (described,) = await admin.describe_groups(group)
            assert (described.type, described.state, described.assignor) == ("classic", "Stable", "range")
            (member,) = described.members
            assert sorted(member.partitions) == places and member.client_id == "oncelog-consumer"
            lags = await admin.list_group_lag(group)
            assert [(each.committed_offset, each.log_end_offset, each.lag) for each in lags] == [
                (4, 10, 6),
                (None, 10, 10),
            ]
            assert [each.member for each in lags] == [member, member]
            with pytest.raises(ConfigError, match="stop its consumers"):
                await admin.delete_groups(group)
            with pytest.raises(ConfigError, match="stop its consumers"):
                await admin.alter_group_offsets(group, {places[0]: 0})
            with pytest.raises(ConfigError, match="stop its consumers"):
                await admin.delete_group_offsets(group, places[:1])
        offsets = await admin.list_group_offsets(group)
        assert {place: (each.offset, each.metadata) for place, each in offsets.items()} == {places[0]: (4, "note")}


async def test_a_group_of_the_consumer_protocol_is_described_and_counted_alike(bootstrap: str) -> None:
    """KIP-848, as librdkafka speaks it."""
    group = unique("group")
    async with Admin(bootstrap) as admin:
        topic = await written(admin, bootstrap)
        settings = {"group.id": group, "group.protocol": "consumer", "auto.offset.reset": "earliest"}
        member = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "client.id": "reader", **settings})
        member.subscribe([topic])
        try:
            async with asyncio.timeout(PATIENCE_S):
                while await asyncio.to_thread(member.poll, 1) is None:
                    pass
            (described,) = await admin.describe_groups(group)
            assert (described.type, described.state, described.assignor) == ("consumer", "Stable", "uniform")
            assert described.epoch > 0
            assert [(each.client_id, each.partitions) for each in described.members] == [
                ("reader", (TopicPartition(topic, 0),))
            ]
            (listed,) = [each for each in await admin.list_groups(types=["consumer"]) if each.group_id == group]
            assert (listed.state, listed.type) == ("Stable", "consumer")
            (lag,) = await admin.list_group_lag(group)
            assert (lag.committed_offset, lag.lag, lag.member) == (None, 10, described.members[0])
            with pytest.raises(ConfigError, match="stop its consumers"):
                await admin.alter_group_offsets(group, {TopicPartition(topic, 0): 0})
        finally:
            await asyncio.to_thread(member.close)
        await admin.alter_group_offsets(group, {TopicPartition(topic, 0): 4})
        assert [each.lag for each in await admin.list_group_lag(group)] == [6]
        await admin.delete_groups(group)


async def test_offsets_of_a_group_without_members_are_changed_and_deleted(bootstrap: str) -> None:
    group = unique("group")
    async with Admin(bootstrap) as admin:
        topic = await written(admin, bootstrap, partitions=2)
        places = [TopicPartition(topic, index) for index in range(2)]
        await admin.alter_group_offsets(group, {places[0]: 7, places[1]: OffsetAndMetadata(3, "why")})
        assert {place: each.offset for place, each in (await admin.list_group_offsets(group)).items()} == {
            places[0]: 7,
            places[1]: 3,
        }
        assert [each.lag for each in await admin.list_group_lag(group)] == [3, 7]
        await admin.delete_group_offsets(group, places[:1])
        assert list(await admin.list_group_offsets(group)) == places[1:]
        with pytest.raises(KafkaError, match="has no partition 9"):
            await admin.alter_group_offsets(group, {TopicPartition(topic, 9): 0})
        await admin.delete_groups(group)
        assert group not in [each.group_id for each in await admin.list_groups()]


async def test_a_group_that_does_not_exist_is_an_error(bootstrap: str) -> None:
    group = unique("no")
    async with Admin(bootstrap) as admin:
        for call in (
            admin.describe_groups(group),
            admin.list_group_lag(group),
            admin.delete_groups(group),
            admin.delete_group_offsets(group, [TopicPartition("t", 0)]),
        ):
            with pytest.raises(ConfigError) as caught:
                await call
            assert caught.value.code is ErrorCode.GROUP_ID_NOT_FOUND


@LOOKS_AT_FILES
async def test_log_directories_have_the_size_of_each_partition(bootstrap: str) -> None:
    async with Admin(bootstrap) as admin:
        place = TopicPartition(await written(admin, bootstrap), 0)
        (directory,) = await admin.describe_log_dirs()
        assert directory.sizes_bytes[place] > 0
        assert directory.total_bytes > directory.usable_bytes > 0


async def test_features_are_finalized_or_refused_together(bootstrap: str) -> None:
    async with Admin(bootstrap) as admin:

        async def level() -> int | None:
            return (await admin.describe_cluster()).finalized_features.get("group.version")

        lowest, highest = (await admin.describe_cluster()).supported_features["group.version"]
        assert (lowest, await level()) == (0, highest)
        with pytest.raises(KafkaError):
            await admin.update_features({"group.version": 0})
        with pytest.raises(KafkaError):
            await admin.update_features({"group.version": 0, "transaction.version": 99}, allow_downgrade=True)
        await admin.update_features({"group.version": 0}, allow_downgrade=True, validate_only=True)
        assert await level() == highest
        await admin.update_features({"group.version": highest})


async def test_no_look_up_creates_a_topic(bootstrap: str) -> None:
    """Both brokers create topics for producers that name one."""
    typo = unique("typo")
    place = TopicPartition(typo, 0)
    async with Admin(bootstrap) as admin:
        for call in (
            admin.describe_topics(typo),
            admin.list_offsets([place]),
            admin.describe_producers(place),
            admin.describe_configs(topic=typo),
            admin.delete_records({place: -1}),
            admin.alter_group_offsets("g", {place: 1}),
            admin.abort_on_partition(place, 1, 0, 0),
        ):
            with pytest.raises(KafkaError) as caught:
                await call
            assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert typo not in await admin.list_topics()


def test_the_blocking_admin_has_each_method_with_the_same_arguments() -> None:
    wanted = {name: inspect.signature(method) for name, method in inspect.getmembers(Admin, inspect.isfunction)}
    had = {name: inspect.signature(method) for name, method in inspect.getmembers(sync.Admin, inspect.isfunction)}
    public = {name for name in wanted if not name.startswith("_")} - {"close"}
    assert len(public) > 20
    assert {name: had.get(name) for name in public} == {name: wanted[name] for name in public}
