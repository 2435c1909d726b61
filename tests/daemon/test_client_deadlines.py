"""A broker that falls silent keeps no call waiting for longer than its deadline, and no task that is cancelled.

Each public method of the clients has a line in the table: how it is called, or that it does not wait. A method without
a line fails.
"""

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from oncelog import (
    Acl,
    AclFilter,
    Admin,
    AdminOptions,
    Consumer,
    ConsumerOptions,
    Delivery,
    KafkaError,
    NewTopic,
    PreparedTxnState,
    Producer,
    ProducerOptions,
    RetriableError,
    SessionBatch,
    ShareConsumer,
    TopicPartition,
    Transaction,
    TransactionalSession,
    UnknownTopic,
    UserScramCredentialDeletion,
)
from oncelog.protocol.records.batch import encode_batch
from oncelog.protocol.records.record import Record
from tests.conftest import Start
from tests.support.kafka.server import free_ports
from tests.support.patience import GIVES_UP_MS, SHORT_OF_DEFAULTS_S
from tests.support.processes.silent_proxy import SilentProxy

TIMEOUT_MS = GIVES_UP_MS
_OF_A_MEMBER = ("heartbeat", "close", "commit_sync", "seek_to_committed")
_OPENED_AT_A_TIME = 4
TOPIC, PLACE = "topic", TopicPartition("topic", 0)
_WRITE = ProducerOptions(
    request_timeout_ms=TIMEOUT_MS / 2,
    delivery_timeout_ms=TIMEOUT_MS,
    max_block_ms=TIMEOUT_MS,
    retry_backoff_ms=10,
    bootstrap_timeout_ms=60_000,
)
_READ = ConsumerOptions(
    request_timeout_ms=TIMEOUT_MS / 2,
    default_api_timeout_ms=TIMEOUT_MS,
    retry_backoff_ms=10,
    fetch_max_wait_ms=50,
    bootstrap_timeout_ms=60_000,
    auto_offset_reset="earliest",
)
_SHARE: dict[str, Any] = {
    "request_timeout_ms": TIMEOUT_MS / 2,
    "default_api_timeout_ms": TIMEOUT_MS,
    "retry_backoff_ms": 10,
    "fetch_max_wait_ms": 50,
    "bootstrap_timeout_ms": 60_000,
    "share_acknowledgement_mode": "explicit",
}
_MANAGE = AdminOptions(
    request_timeout_ms=TIMEOUT_MS / 2,
    default_api_timeout_ms=TIMEOUT_MS,
    retry_backoff_ms=10,
    bootstrap_timeout_ms=60_000,
)
ENCODED = encode_batch([Record(0, 1, None, b"value")])


@dataclass(slots=True)
class Scene:
    """The objects that a call may need, opened before the broker falls silent. A call of a client finds those of its
    kind.
    """

    producer: Producer
    transactional: Producer
    consumer: Consumer
    member: Consumer
    shared: ShareConsumer
    admin: Admin
    session: TransactionalSession
    transaction: Any = None
    batch: Any = None

    async def open(self, kind: str, method: str) -> None:
        clients = {
            "Producer": (self.producer, self.transactional),
            "Delivery": (self.producer,),
            "Transaction": (self.transactional, self.member),
            "Consumer": (self.consumer, self.member),
            "ShareConsumer": (self.shared,),
            "Admin": (self.admin,),
        }
        for client in clients.get(kind, (self.session,)):
            await client.__aenter__()
        if kind in ("Producer", "Delivery"):
            await self.producer.send(TOPIC, b"value", partition=0)
        elif kind == "Transaction" and method != "__aenter__":
            self.transaction = await self.transactional.transaction().__aenter__()
            await self.transaction.send(TOPIC, b"value", partition=0)
        elif kind == "Consumer":
            self.consumer.assign([PLACE, TopicPartition(TOPIC, 1)])
            self.consumer.seek(PLACE, 1)
            while method in _OF_A_MEMBER and not self.member.assignment():
                await self.member.poll(50)
        elif kind == "ShareConsumer" and method != "__aiter__":
            await accept_some(self.shared)
        elif kind in ("TransactionalSession", "SessionBatch"):
            self.batch = await first(aiter(self.session))
            await self.batch.__aenter__()
            if kind == "TransactionalSession":
                await self.batch.__aexit__(None, None, None)

    async def close(self) -> None:
        """Close every client; each close returns by its deadline."""
        for client in (self.producer, self.transactional, self.consumer, self.member, self.shared, self.session):
            await client.close(TIMEOUT_MS)
        await self.admin.close()


async def accept_some(consumer: ShareConsumer) -> None:
    """Accept some records, so that there is something to commit."""
    while not (records := await consumer.poll(50)):
        pass
    for each in records:
        consumer.acknowledge(each)


Call = Callable[[Scene], Awaitable[Any]]
RETURNS, ENDLESS, NO_WAIT = "returns", "waits as long as it takes: it is cancelled", "asks nobody"


async def first(each: AsyncIterator[Any]) -> Any:
    return await anext(each)


CALLS: dict[str, str | Call | tuple[Call, str]] = {
    "Producer.send": lambda scene: scene.producer.send(TOPIC, b"value"),
    "Producer.send_soon": lambda scene: scene.producer.send_soon("another", b"value"),
    "Producer.send_batch": lambda scene: scene.producer.send_batch("another", 0, ENCODED),
    "Producer.flush": lambda scene: flushed(scene.producer),
    "Producer.partitions_for": lambda scene: scene.producer.partitions_for("another"),
    "Producer.init_transactions": lambda scene: scene.transactional.init_transactions(),
    "Producer.regain_epoch": lambda scene: scene.transactional.regain_epoch(),
    "Producer.complete": lambda scene: scene.transactional.complete(PreparedTxnState(1, 1)),
    "Producer.transaction": NO_WAIT,
    "Producer.resend_last_batch": lambda scene: scene.producer.resend_last_batch(TOPIC, 0),
    "Producer.close": (lambda scene: scene.producer.close(TIMEOUT_MS), RETURNS),
    "Transaction.__aenter__": lambda scene: scene.transactional.transaction().__aenter__(),
    "Transaction.send": lambda scene: scene.transaction.send(TOPIC, b"value"),
    "Transaction.send_soon": lambda scene: scene.transaction.send_soon("another", b"value"),
    "Transaction.send_batch": lambda scene: scene.transaction.send_batch("another", 0, ENCODED),
    "Transaction.send_offsets": lambda scene: scene.transaction.send_offsets({PLACE: 1}, group=scene.member),
    "Transaction.prepare": (lambda scene: scene.transaction.prepare(), RETURNS),
    "Transaction.commit": lambda scene: scene.transaction.commit(),
    "Transaction.abort": lambda scene: scene.transaction.abort(),
    "Delivery.__await__": lambda scene: delivered(scene.producer),
    "Delivery.done": NO_WAIT,
    "Delivery.result": NO_WAIT,
    "Delivery.add_done_callback": NO_WAIT,
    "Consumer.poll": (lambda scene: scene.consumer.poll(TIMEOUT_MS), RETURNS),
    "Consumer.__aiter__": (lambda scene: first(aiter(scene.consumer)), ENDLESS),
    "Consumer.batches": (lambda scene: first(scene.consumer.batches()), ENDLESS),
    "Consumer.next_batch": (lambda scene: scene.consumer.next_batch(), ENDLESS),
    "Consumer.assign": NO_WAIT,
    "Consumer.assignment": NO_WAIT,
    "Consumer.seek": NO_WAIT,
    "Consumer.seek_to_beginning": lambda scene: scene.consumer.seek_to_beginning(),
    "Consumer.seek_to_end": lambda scene: scene.consumer.seek_to_end(),
    "Consumer.seek_to_timestamp": lambda scene: scene.consumer.seek_to_timestamp(1),
    "Consumer.seek_to_committed": lambda scene: scene.member.seek_to_committed(),
    "Consumer.lag": lambda scene: scene.consumer.lag(),
    "Consumer.position": lambda scene: scene.consumer.position(TopicPartition(TOPIC, 1)),
    "Consumer.pause": NO_WAIT,
    "Consumer.resume": NO_WAIT,
    "Consumer.beginning_offsets": lambda scene: scene.consumer.beginning_offsets([PLACE]),
    "Consumer.end_offsets": lambda scene: scene.consumer.end_offsets([PLACE]),
    "Consumer.offsets_for_times": lambda scene: scene.consumer.offsets_for_times({PLACE: 1}),
    "Consumer.partitions_for": lambda scene: scene.consumer.partitions_for("another"),
    "Consumer.raw_batches": lambda scene: first(scene.consumer.raw_batches(PLACE)),
    "Consumer.commit_sync": lambda scene: scene.member.commit_sync({PLACE: 1}),
    "Consumer.commit_async": NO_WAIT,
    "Consumer.committed": lambda scene: scene.member.committed(PLACE),
    "Consumer.group_metadata": NO_WAIT,
    "Consumer.heartbeat": lambda scene: scene.member.heartbeat(),
    "Consumer.close": (lambda scene: scene.member.close(TIMEOUT_MS), RETURNS),
    "ShareConsumer.subscribe": NO_WAIT,
    "ShareConsumer.subscription": NO_WAIT,
    "ShareConsumer.assignment": NO_WAIT,
    "ShareConsumer.poll": (lambda scene: scene.shared.poll(TIMEOUT_MS), RETURNS),
    "ShareConsumer.__aiter__": (lambda scene: first(aiter(scene.shared)), ENDLESS),
    "ShareConsumer.acknowledge": NO_WAIT,
    "ShareConsumer.commit_sync": (lambda scene: not_in_time(scene.shared), RETURNS),
    "ShareConsumer.commit_async": NO_WAIT,
    "ShareConsumer.close": (lambda scene: scene.shared.close(TIMEOUT_MS), RETURNS),
    "TransactionalSession.close": (lambda scene: scene.session.close(TIMEOUT_MS), RETURNS),
    "TransactionalSession.__aiter__": (lambda scene: first(aiter(scene.session)), ENDLESS),
    "SessionBatch.send": lambda scene: scene.batch.send(TOPIC, b"value"),
    "SessionBatch.send_soon": lambda scene: scene.batch.send_soon("another", b"value"),
    "SessionBatch.flush": lambda scene: flushed(scene.batch),
    "Admin.create_topics": lambda scene: scene.admin.create_topics("another"),
    "Admin.delete_topics": lambda scene: scene.admin.delete_topics(TOPIC),
    "Admin.list_topics": lambda scene: scene.admin.list_topics(),
    "Admin.describe_topics": lambda scene: scene.admin.describe_topics(),
    "Admin.create_partitions": lambda scene: scene.admin.create_partitions({TOPIC: 9}),
    "Admin.delete_records": lambda scene: scene.admin.delete_records({PLACE: 0}),
    "Admin.describe_configs": lambda scene: scene.admin.describe_configs(topic=TOPIC),
    "Admin.describe_config_entries": lambda scene: scene.admin.describe_config_entries(topic=TOPIC),
    "Admin.alter_configs": lambda scene: scene.admin.alter_configs({"retention.ms": "1"}, topic=TOPIC),
    "Admin.describe_user_scram_credentials": lambda scene: scene.admin.describe_user_scram_credentials(),
    "Admin.alter_user_scram_credentials": lambda scene: scene.admin.alter_user_scram_credentials(
        UserScramCredentialDeletion("alice", "SCRAM-SHA-256")
    ),
    "Admin.describe_client_quotas": lambda scene: scene.admin.describe_client_quotas(),
    "Admin.alter_client_quotas": lambda scene: scene.admin.alter_client_quotas(
        {"user": "alice"}, {"producer_byte_rate": 1_000}
    ),
    "Admin.describe_cluster": lambda scene: scene.admin.describe_cluster(),
    "Admin.describe_quorum": lambda scene: scene.admin.describe_quorum(),
    "Admin.describe_log_dirs": lambda scene: scene.admin.describe_log_dirs(),
    "Admin.update_features": lambda scene: scene.admin.update_features({"transaction.version": 2}),
    "Admin.create_delegation_token": lambda scene: scene.admin.create_delegation_token(),
    "Admin.renew_delegation_token": lambda scene: scene.admin.renew_delegation_token("aG1hYw=="),
    "Admin.expire_delegation_token": lambda scene: scene.admin.expire_delegation_token("aG1hYw=="),
    "Admin.describe_delegation_tokens": lambda scene: scene.admin.describe_delegation_tokens(),
    "Admin.create_acls": lambda scene: scene.admin.create_acls(Acl("User:alice", "READ", "TOPIC", TOPIC)),
    "Admin.describe_acls": lambda scene: scene.admin.describe_acls(),
    "Admin.delete_acls": lambda scene: scene.admin.delete_acls(AclFilter()),
    "Admin.list_offsets": lambda scene: scene.admin.list_offsets([PLACE]),
    "Admin.list_groups": lambda scene: scene.admin.list_groups(),
    "Admin.describe_groups": lambda scene: scene.admin.describe_groups("group"),
    "Admin.delete_groups": lambda scene: scene.admin.delete_groups("group"),
    "Admin.list_group_offsets": lambda scene: scene.admin.list_group_offsets("group"),
    "Admin.alter_group_offsets": lambda scene: scene.admin.alter_group_offsets("group", {PLACE: 0}),
    "Admin.delete_group_offsets": lambda scene: scene.admin.delete_group_offsets("group", [PLACE]),
    "Admin.list_group_lag": lambda scene: scene.admin.list_group_lag("group"),
    "Admin.describe_share_groups": lambda scene: scene.admin.describe_share_groups("group"),
    "Admin.list_share_group_offsets": lambda scene: scene.admin.list_share_group_offsets("group"),
    "Admin.alter_share_group_offsets": lambda scene: scene.admin.alter_share_group_offsets("group", {PLACE: 0}),
    "Admin.delete_share_group_offsets": lambda scene: scene.admin.delete_share_group_offsets("group", [TOPIC]),
    "Admin.describe_streams_groups": lambda scene: scene.admin.describe_streams_groups("group"),
    "Admin.describe_producers": lambda scene: scene.admin.describe_producers(PLACE),
    "Admin.list_transactions": lambda scene: scene.admin.list_transactions(),
    "Admin.find_transactions": lambda scene: scene.admin.find_transactions(),
    "Admin.describe_transaction": lambda scene: scene.admin.describe_transaction("id"),
    "Admin.abort_on_partition": lambda scene: scene.admin.abort_on_partition(PLACE, 1, 0, 0),
    "Admin.fence_producer": lambda scene: scene.admin.fence_producer("id"),
    "Admin.close": (lambda scene: scene.admin.close(), RETURNS),
}


async def not_in_time(consumer: ShareConsumer) -> None:
    """It returns the outcome of each partition."""
    (error,) = (await consumer.commit_sync()).values()
    assert isinstance(error, RetriableError)
    assert error.hint


async def delivered(producer: Producer) -> None:
    await (await producer.send_soon(TOPIC, b"value"))


async def flushed(sender: Producer | SessionBatch) -> None:
    await sender.send_soon(TOPIC, b"value")
    await sender.flush()


def waiting(name: str) -> tuple[Call, str] | None:
    entry = CALLS[name]
    if isinstance(entry, str):
        return None
    return entry if isinstance(entry, tuple) else (entry, "raises")


@pytest.mark.interpreted  # a compiled method is no function to inspect
def test_every_public_method_has_a_line() -> None:
    kinds = (Producer, Transaction, Delivery, Consumer, ShareConsumer, TransactionalSession, SessionBatch, Admin)
    methods = {
        f"{kind.__name__}.{name}"
        for kind in kinds
        for name, each in vars(kind).items()
        if inspect.isfunction(each) and (not name.startswith("_") or name in ("__await__", "__aiter__"))
    }
    assert methods | {"Transaction.__aenter__"} == set(CALLS)


@asynccontextmanager
async def silent_broker(start_daemon: Start) -> AsyncIterator[SilentProxy]:
    async with SilentProxy() as proxy:
        inside, outside = free_ports(2)
        daemon = start_daemon(
            f"listeners=INSIDE://127.0.0.1:{inside},OUTSIDE://127.0.0.1:{outside}",
            f"advertised.listeners=INSIDE://127.0.0.1:{inside},OUTSIDE://127.0.0.1:{proxy.port}",
            "listener.security.protocol.map=INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
            "inter.broker.listener.name=INSIDE",
            "group.initial.rebalance.delay.ms=0",
            "group.share.heartbeat.interval.ms=100",
            "group.share.min.heartbeat.interval.ms=100",
            "group.share.assignment.interval.ms=0",
            "transaction.two.phase.commit.enable=true",
        )
        proxy.upstream = ("127.0.0.1", outside)
        async with Admin(daemon.bootstrap) as admin, Producer(daemon.bootstrap) as producer:
            await admin.create_topics(NewTopic(TOPIC, 2, 1))
            for name in CALLS:
                if name.startswith("ShareConsumer."):
                    await admin.alter_configs({"share.auto.offset.reset": "earliest"}, group=name)
            await producer.send(TOPIC, b"value", partition=0)
        yield proxy


def scene_of(name: str, address: str) -> Scene:
    options = {"bootstrap_servers": address, "group_id": name}
    return Scene(
        producer=Producer(address, **_WRITE),
        transactional=Producer(address, transactional_id=name, transaction_two_phase_commit_enable=True, **_WRITE),
        consumer=Consumer(bootstrap_servers=address, **_READ),
        member=Consumer(TOPIC, bootstrap_servers=address, group_id=name, **_READ),
        shared=ShareConsumer(TOPIC, **options, **_SHARE),
        admin=Admin(address, **_MANAGE),
        session=TransactionalSession(TOPIC, **options, transactional_id=name, consumer=_READ, producer=_WRITE),
    )


@asynccontextmanager
async def scenes(start_daemon: Start) -> AsyncIterator[dict[str, Scene]]:
    """One for each call that waits, before a broker that has fallen silent; closed in the end, which leaves nothing."""
    async with silent_broker(start_daemon) as proxy:
        before = asyncio.all_tasks()
        made = {name: scene_of(name, f"127.0.0.1:{proxy.port}") for name in CALLS if waiting(name)}
        turn = asyncio.Semaphore(_OPENED_AT_A_TIME)

        async def open_in_turn(name: str) -> None:
            async with turn:
                await made[name].open(*name.split("."))

        await asyncio.gather(*map(open_in_turn, made))
        proxy.is_silent = True
        try:
            yield made
        finally:
            async with asyncio.timeout(SHORT_OF_DEFAULTS_S):
                await asyncio.gather(*(scene.close() for scene in made.values()))
        async with asyncio.timeout(SHORT_OF_DEFAULTS_S):
            await proxy.has_no_connections()
        assert asyncio.all_tasks() - before == set()


async def outcome(name: str, call: Call, scene: Scene) -> str:
    try:
        async with asyncio.timeout(SHORT_OF_DEFAULTS_S):
            await call(scene)
    except TimeoutError:
        return f"{name} had no deadline"
    except KafkaError as error:
        return "raises" if error.hint and error.hint in str(error) else f"{name} gave no hint: {error!r}"
    return "returns"


async def test_each_call_ends_by_its_deadline_and_says_what_to_do(start_daemon: Start) -> None:
    async with scenes(start_daemon) as made:
        expected = {name: each[1] for name in made if (each := waiting(name)) and each[1] != ENDLESS}
        calls = [outcome(name, each[0], made[name]) for name in expected if (each := waiting(name))]
        assert dict(zip(expected, await asyncio.gather(*calls), strict=True)) == expected


@pytest.mark.sampled(2)
@pytest.mark.parametrize("turns", [1, 30])
async def test_each_call_can_be_cancelled_and_leaves_nothing_behind(start_daemon: Start, turns: int) -> None:
    async with scenes(start_daemon) as made:
        tasks = {}
        for name, scene in made.items():
            if (each := waiting(name)) is not None:
                tasks[name] = asyncio.ensure_future(outcome(name, each[0], scene))
        for _ in range(turns):
            await asyncio.sleep(0)
        for task in tasks.values():
            task.cancel()
        await asyncio.wait(tasks.values(), timeout=SHORT_OF_DEFAULTS_S)
        assert [name for name, task in tasks.items() if not task.done()] == []


def opened_alone(kind: str, address: str, timeout_ms: float = TIMEOUT_MS) -> Any:
    scene = scene_of("session", address)
    reader = Consumer("missing", bootstrap_servers=address, **{**_READ, "default_api_timeout_ms": timeout_ms})
    return {"Producer": scene.producer, "Consumer": reader, "Admin": scene.admin, "Session": scene.session}[kind]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", ["Producer", "Consumer", "Admin", "Session"])
async def test_a_client_that_is_not_opened_leaves_nothing_behind(start_daemon: Start, kind: str) -> None:
    async with silent_broker(start_daemon) as proxy:
        before = asyncio.all_tasks()
        for answers in (0, 1):
            proxy.most_answers = answers
            with pytest.raises(KafkaError):
                await asyncio.wait_for(opened_alone(kind, f"127.0.0.1:{proxy.port}").__aenter__(), SHORT_OF_DEFAULTS_S)
            await asyncio.wait_for(proxy.has_no_connections(), SHORT_OF_DEFAULTS_S)
        assert asyncio.all_tasks() - before == set()


@pytest.mark.parametrize(
    ("kind", "answers"), [(kind, 1) for kind in ("Producer", "Consumer", "Admin")] + [("Consumer", 2), ("Session", 2)]
)
async def test_a_client_whose_opening_is_cancelled_leaves_nothing_behind(
    start_daemon: Start, kind: str, answers: int
) -> None:
    async with silent_broker(start_daemon) as proxy:
        before = asyncio.all_tasks()
        opening = asyncio.ensure_future(opened_alone(kind, f"127.0.0.1:{proxy.port}").__aenter__())
        await asyncio.wait_for(proxy.has_answered(answers), SHORT_OF_DEFAULTS_S)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        await asyncio.wait_for(proxy.has_no_connections(), SHORT_OF_DEFAULTS_S)
        assert asyncio.all_tasks() - before == set()


async def test_a_consumer_of_a_topic_that_does_not_exist_leaves_nothing_behind(start_daemon: Start) -> None:
    async with silent_broker(start_daemon) as proxy:
        before = asyncio.all_tasks()
        with pytest.raises(UnknownTopic):
            await opened_alone("Consumer", f"127.0.0.1:{proxy.port}", 20_000).__aenter__()
        await asyncio.wait_for(proxy.has_no_connections(), SHORT_OF_DEFAULTS_S)
        assert asyncio.all_tasks() - before == set()
