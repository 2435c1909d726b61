"""A broker with a past of every kind, and what its clients see of it: the same before and after a graduation.

Owns: the past (`Past.make`), the view (`observe`). Does not own: the brokers.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from uuid import UUID

from oncelog import Acl, ClientQuota, UserScramCredentialUpsertion
from oncelog.broker.config.settings import given_settings, load_config
from oncelog.client import Admin, Consumer, NewTopic, PreparedTxnState, Producer, ShareConsumer, TopicPartition
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.streams_group_heartbeat_request import Subtopology, Topology
from oncelog.tools.graduate.graduation import Watcher, Wish, graduate
from tests.clients.streams_group_members import Streams
from tests.clients.topics import until_stable
from tests.clients.wire import WireBroker
from tests.support.patience import PATIENCE_S

TWO_PHASE = ("transaction.two.phase.commit.enable=true", "unstable.api.versions.enable=true")
WITH_RIGHTS = (
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users=User:ANONYMOUS",
)
OVERRIDES = (
    *TWO_PHASE,
    *WITH_RIGHTS,
    "offsets.topic.num.partitions=3",
    "transaction.state.log.num.partitions=3",
    "share.coordinator.state.topic.num.partitions=3",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms=1000",
    "num.io.threads=3",
    "oncelog.compat=kafka",
)
OPEN_TIMEOUT_MS = 10_000
TOPICS = (
    NewTopic("orders", 3, 1, {"retention.ms": "-1", "min.insync.replicas": "1"}),
    NewTopic("latest", 1, 1, {"cleanup.policy": "compact", "segment.bytes": "1048576"}),
    NewTopic("large", 1, 1, {"segment.bytes": "1048576"}),
    NewTopic("empty", 5, 1),
    NewTopic("jobs", 1, 1),
)
ORDERS = TopicPartition("orders", 0)
PREPARED = TopicPartition("orders", 2)
JOBS = TopicPartition("jobs", 0)
LEFT = [1, 4, 5]
"""The jobs that the share group is still to do."""
GROUPS = {"modern": "consumer", "veterans": "classic", "workers": "share", "flows": "streams"}

_OWN_SOURCES = ("DYNAMIC_TOPIC_CONFIG", "DYNAMIC_BROKER_CONFIG", "DYNAMIC_GROUP_CONFIG")


@dataclass(frozen=True, slots=True)
class Seen:
    """A cluster as clients see it."""

    cluster_id: str | None
    topics: Mapping[str, tuple[UUID, int]]
    configs: Mapping[str, Mapping[str, str | None]]
    committed: Mapping[TopicPartition, list[Any]]
    """Records that read_committed readers get: offset, timestamp, key, value."""
    uncommitted: Mapping[TopicPartition, list[Any]]
    groups: Mapping[str, str]
    """Their types."""
    offsets: Mapping[str, Mapping[TopicPartition, Any]]
    described: list[Any]
    """Groups of shares and of streams."""
    users: Mapping[str, Mapping[str, int]]
    rights: list[Acl]
    quotas: list[ClientQuota]


async def make_past(bootstrap: str) -> None:
    """All but what is still open."""
    async with Admin(bootstrap) as admin:
        await admin.create_topics("removed", *TOPICS)
        await admin.delete_topics("removed")
        await admin.alter_configs({"log.cleaner.backoff.ms": "16000"}, node_id=1)
        await admin.alter_configs({"consumer.session.timeout.ms": "46000"}, group="modern")
        await admin.alter_configs({"share.auto.offset.reset": "earliest"}, group="workers")
        await admin.alter_user_scram_credentials(UserScramCredentialUpsertion("alice", "secret"))
        await admin.create_acls(
            Acl("User:alice", "READ", "TOPIC", "orders"), Acl("User:bob", "ALL", "GROUP", "b", permission="DENY")
        )
        await admin.alter_client_quotas({"user": "alice", "client-id": None}, {"producer_byte_rate": 1_048_576})
    async with Producer(bootstrap, transactional_id="payer", linger_ms=1) as payer:
        for number in range(6):
            try:
                async with payer.transaction() as transaction:
                    for partition in range(3):
                        value = b"%d of %d" % (partition, number)
                        await transaction.send("orders", value, key=b"k%d" % number, partition=partition)
                    if number % 3 == 2:
                        raise _Rollback
            except _Rollback:
                pass
    async with Producer(bootstrap) as producer:
        for number in range(36):
            await producer.send("large", bytes([number]) * 100_000)
            await producer.send("latest", b"%d" % number, key=b"k%d" % (number % 4))
    protocols: dict[str, Literal["classic", "consumer"]] = {"veterans": "classic", "modern": "consumer"}
    for group, protocol in protocols.items():
        async with Consumer(
            "orders", bootstrap_servers=bootstrap, group_id=group, group_protocol=protocol, auto_offset_reset="earliest"
        ) as consumer:
            got = 0
            while got < 12:
                got += len(await consumer.poll(200))
            await consumer.commit_sync()
    await _do_jobs(bootstrap)
    await _flow(bootstrap)


async def _do_jobs(bootstrap: str) -> None:
    """Sends six jobs: two are accepted, one is rejected, one released; two are on the way at the end."""
    async with Producer(bootstrap) as producer:
        for number in range(6):
            await producer.send("jobs", b"%d" % number)
    async with ShareConsumer(
        "jobs", bootstrap_servers=bootstrap, group_id="workers", share_acknowledgement_mode="explicit"
    ) as workers:
        said: dict[int, Any] = {0: "accept", 1: "release", 2: "accept", 3: "reject"}
        got = 0
        while got < 6:
            for job in await workers.poll(200):
                got += 1
                if job.offset in said:
                    workers.acknowledge(job, said[job.offset])
            if 0 < got < 6:
                await workers.commit_sync()


async def jobs_left(bootstrap: str) -> dict[int, int]:
    """Returns the jobs that the share group gets next: offset and delivery count."""
    found: dict[int, int] = {}
    async with ShareConsumer("jobs", bootstrap_servers=bootstrap, group_id="workers") as workers:
        while len(found) < len(LEFT):
            found |= {job.offset: job.delivery_count for job in await workers.poll(200)}
    return found


async def _flow(bootstrap: str) -> None:
    """A streams group whose member has left, and that has an offset."""
    wire = WireBroker(bootstrap)
    reads = Topology(epoch=0, subtopologies=[Subtopology(subtopology_id="0", source_topics=["orders"])])
    member = Streams(wire, group_id="flows", topology=reads)
    assert (member.join(), member.leave()) == (ErrorCode.NONE, ErrorCode.NONE)
    wire.close()
    async with Admin(bootstrap) as admin:
        await admin.alter_group_offsets("flows", {ORDERS: 3})


class _Rollback(Exception):
    """Ends a transaction."""


async def leave_open(bootstrap: str) -> None:
    """A transaction that only its timeout will end."""
    producer = Producer(bootstrap, transactional_id="leaver", transaction_timeout_ms=OPEN_TIMEOUT_MS)
    await producer.__aenter__()
    transaction = producer.transaction()
    await transaction.__aenter__()
    await transaction.send("orders", b"left open", partition=1)
    await producer.flush()


async def prepare(bootstrap: str) -> PreparedTxnState:
    """Prepares a transaction that another client will end."""
    async with Producer(
        bootstrap, transactional_id="mover", transaction_two_phase_commit_enable=True, linger_ms=1
    ) as producer:
        try:
            async with producer.transaction() as transaction:
                await transaction.send("orders", b"prepared", partition=PREPARED.partition)
                state = await transaction.prepare()
                raise _Rollback
        except _Rollback:
            return state


async def observe(bootstrap: str) -> Seen:
    async with Admin(bootstrap) as admin:
        cluster = await admin.describe_cluster()
        names = sorted(await admin.list_topics(include_internal=True))
        topics = {topic.name: (topic.topic_id, len(topic.partitions)) for topic in await admin.describe_topics(*names)}
        configs = {name: await _configs(admin, topic=name) for name in names}
        configs |= {f"the group {name}": await _configs(admin, group=name) for name in ("modern", "workers")}
        configs |= {"the broker": await _configs(admin, node_id=1)}
        groups = {group.group_id: group.type for group in await admin.list_groups()}
        offsets = await offsets_of(admin, groups)
        own = [topic.name for topic in TOPICS]
        places = [TopicPartition(name, index) for name in own for index in range(topics[name][1])]
        return Seen(
            cluster.cluster_id,
            topics,
            configs,
            await read(bootstrap, places, "read_committed"),
            await read(bootstrap, places, "read_uncommitted"),
            groups,
            offsets,
            [await admin.describe_share_groups("workers"), await admin.describe_streams_groups("flows")],
            await admin.describe_user_scram_credentials(),
            await admin.describe_acls(),
            await admin.describe_client_quotas(),
        )


async def offsets_of(admin: Admin, groups: Mapping[str, str]) -> dict[str, Mapping[TopicPartition, Any]]:
    """Where the groups of these types are."""
    return {
        group: await (admin.list_share_group_offsets(group) if kind == "share" else admin.list_group_offsets(group))
        for group, kind in sorted(groups.items())
    }


async def _configs(admin: Admin, **resource: Any) -> Mapping[str, str | None]:
    """Returns the settings that were set on the resource itself."""
    entries = await admin.describe_config_entries(**resource)
    return {entry.name: entry.value for entry in entries if entry.source in _OWN_SOURCES}


async def read(bootstrap: str, places: list[TopicPartition], isolation: Any) -> dict[TopicPartition, list[Any]]:
    """Returns the records that readers of this isolation level can read now."""
    async with Consumer(
        bootstrap_servers=bootstrap, isolation_level=isolation, auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign(places)
        ends = await consumer.end_offsets(places)
        found: dict[TopicPartition, list[Any]] = {place: [] for place in places}
        async with asyncio.timeout(PATIENCE_S):
            while [place for place in places if await consumer.position(place) < ends[place]]:
                for record in await consumer.poll(100):
                    place = TopicPartition(record.topic, record.partition)
                    found[place].append((record.offset, record.timestamp_ms, record.key, record.value))
        return found


def wish_for(data_dir: Path, kafka_dir: Path | None, bootstrap: str, controller_port: int, **others: Any) -> Wish:
    """To be Kafka on the broker's own address."""
    overrides = (*OVERRIDES, f"listeners=PLAINTEXT://{bootstrap}")
    config, _ = load_config(overrides=overrides, cli={"log.dirs": str(data_dir)})
    given = given_settings(overrides=overrides)
    return Wish(data_dir, config, given, kafka_dir, ("127.0.0.1", controller_port), **others)


def done(wish: Wish) -> Path:
    """Graduate; returns the settings of Kafka."""
    graduate(wish, Watcher())
    return wish.target / "server.properties"


async def until_groups_are_loaded(bootstrap: str, count: int) -> None:
    """A start of Kafka answers before its coordinators have replayed their logs, and lists only what they know."""
    async with Admin(bootstrap) as admin:
        while len(await admin.list_groups()) < count:
            pass  # ask again


async def commit(bootstrap: str, value: bytes) -> None:
    """A transaction of `payer`, until its readers get it: Kafka answers EndTxn before it has written the markers."""
    async with Producer(bootstrap, transactional_id="payer") as payer, payer.transaction() as transaction:
        await transaction.send("orders", value, partition=ORDERS.partition)
    await until_stable(bootstrap, ORDERS)


async def committed_values(bootstrap: str) -> list[bytes | None]:
    return [value for *_, value in (await read(bootstrap, [ORDERS], "read_committed"))[ORDERS]]
