"""First mistakes with the client: each is named at once, with what to do."""

import asyncio
import logging
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from oncelog import sync
from oncelog.client import (
    AbortableError,
    Admin,
    ConfigError,
    ConnectionLost,
    Consumer,
    ConsumerOptions,
    InvalidState,
    NewTopic,
    Producer,
    TopicPartition,
    TransactionalSession,
    UnknownTopic,
)
from oncelog.client.wire import cluster
from tests.conftest import Start
from tests.support.patience import PATIENCE_MS, PATIENCE_S
from tests.support.processes.daemon import Daemon


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port that stays reserved and on which nothing listens."""
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        yield reserved.getsockname()[1]


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """No topic is on its way here."""
    monkeypatch.setattr(cluster, "_CREATION_MS", 0)
    monkeypatch.setattr(cluster, "PROPAGATION_MS", 0)


async def test_a_broker_that_is_down_is_named_with_the_next_step(closed_port: int) -> None:
    address = f"127.0.0.1:{closed_port}"
    for client in (
        Producer(address, bootstrap_timeout_ms=0),
        Consumer(bootstrap_servers=address, bootstrap_timeout_ms=0),
        Admin(address, bootstrap_timeout_ms=0),
    ):
        with pytest.raises(ConnectionLost, match=rf"{address}: connection refused \(.*oncelog serve"):
            async with client:
                pass


async def test_a_broker_that_goes_away_is_logged_once_and_so_is_its_return(
    start_daemon: Start, caplog: pytest.LogCaptureFixture
) -> None:
    daemon = start_daemon()
    async with Producer(daemon.bootstrap, retry_backoff_ms=5) as producer:
        await producer.send("topic", b"before")
        daemon.kill()
        delivery = await producer.send_soon("topic", b"meanwhile")
        with pytest.raises(ConnectionLost):
            async with Admin(daemon.bootstrap, bootstrap_timeout_ms=100):
                pass
        daemon.start()
        await delivery
    told = [each.getMessage() for each in caplog.records if each.name == "oncelog.client"]
    assert [("connection refused" in each, each.endswith("again")) for each in told] == [(True, True), (False, True)]
    assert all(each.levelno == logging.WARNING for each in caplog.records if each.name == "oncelog.client")


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("options", [ConsumerOptions(), ConsumerOptions(group_id="group")], ids=["alone", "group"])
async def test_a_reader_of_a_mistyped_topic_gets_an_error_and_creates_nothing(
    daemon: Daemon, options: ConsumerOptions
) -> None:
    async with Admin(daemon.bootstrap) as admin:
        await admin.create_topics(NewTopic("orders", 1, 1), exist_ok=True)
        with pytest.raises(UnknownTopic, match=r"'ordrs' does not exist \(did you mean 'orders'\?"):
            async with Consumer("ordrs", bootstrap_servers=daemon.bootstrap, **options) as consumer:
                await consumer.poll(PATIENCE_MS)
        assert "ordrs" not in {each.name for each in await admin.describe_topics()}


@pytest.mark.usefixtures("soon")
async def test_a_writer_to_a_topic_that_is_not_created_for_it_gets_an_error(start_daemon: Start) -> None:
    daemon = start_daemon("auto.create.topics.enable=false")
    async with Producer(daemon.bootstrap) as producer:
        with pytest.raises(UnknownTopic, match=r"'orders' does not exist \(create it first"):
            await producer.send("orders", b"value")


async def test_what_cannot_be_a_record_is_refused_with_what_to_write_instead(daemon: Daemon) -> None:
    async with Producer(daemon.bootstrap) as producer:
        with pytest.raises(ConfigError, match=r"value is str.*\(value.encode\(\)\)"):
            await producer.send("records", "text")  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match=r"key is int.*\(encode it"):
            await producer.send("records", b"value", key=1)  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match=r"headers is dict.*\(list\(headers.items\(\)\)\)"):
            await producer.send("records", b"value", headers={"name": b"value"})  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match=r"a header's value is str"):
            await producer.send("records", b"value", headers=[("name", "value")])  # type: ignore[list-item]
        with pytest.raises(AbortableError, match=r"MESSAGE_TOO_LARGE.*max_request_size is 1048576"):
            await producer.send("records", bytes(2_000_000))
        assert (await producer.send("records", b"value")).offset == 0, "nothing of these was buffered"


async def test_a_list_where_other_clients_take_one_is_answered_with_what_to_write(daemon: Daemon) -> None:
    async with Admin(daemon.bootstrap) as admin:
        for name, values, kind in (
            ("create_topics", [NewTopic("orders")], "NewTopic"),
            ("create_topics", ["orders"], "NewTopic"),
            ("delete_topics", ["orders"], "str"),
            ("describe_topics", ["orders"], "str"),
            ("describe_groups", ["billing"], "str"),
            ("delete_groups", ["billing"], "str"),
        ):
            with pytest.raises(
                ConfigError, match=rf"{name}\(\) takes one {kind} .*, not a list \({name}\(\*values\)\)"
            ):
                await getattr(admin, name)(values)
    for kind_of_reader in (Consumer, TransactionalSession):
        with pytest.raises(ConfigError, match=rf"{kind_of_reader.__name__}\(\*values\)"):
            kind_of_reader(["orders"], bootstrap_servers=daemon.bootstrap, group_id="billing")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"timestamp_ms": 1e12}, r"timestamp_ms is float, and must be an int \(int\(time\.time\(\) \* 1000\)\)"),
        ({"timestamp_ms": "1"}, "timestamp_ms is str"),
        ({"timestamp_ms": 2**70}, "must be milliseconds since 1970"),
        ({"timestamp_ms": -5}, "must be milliseconds since 1970"),
        ({"partition": 0.0}, "partition is float, and must be an int"),
        ({"partition": "0"}, "partition is str, and must be an int"),
        ({"partition": -1}, "partition -1 of topic 'orders', which has 1"),
    ],
)
async def test_a_number_of_another_type_is_refused_at_once_and_stops_no_other_record(
    daemon: Daemon, wrong: dict[str, Any], said: str
) -> None:
    async with Producer(daemon.bootstrap) as producer:
        with pytest.raises(ConfigError, match=said):
            await producer.send("orders", b"bad", **wrong)
        assert (await producer.send("others", b"good")).topic == "others"


def test_an_option_that_is_mistyped_is_answered_with_the_nearest_or_with_its_place() -> None:
    """The constructor raises before anything is sent."""
    for make, options, said in (
        (Producer, {"lingerms": 3}, r"Producer has no option 'lingerms' \(the nearest one is linger_ms\)"),
        (Consumer, {"linger_ms": 3}, r"Consumer has no option 'linger_ms' \(it is a setting of a producer\)"),
        (Producer, {"max_poll_records": 3}, r"Producer has no option 'max_poll_records' \(it is .* of a consumer\)"),
        (Producer, {"metadata_max_idle_ms": 3}, r"'metadata_max_idle_ms' \(docs/clients/client-options\.md lists"),
        (Consumer, {"grup_id": "g"}, r"Consumer has no option 'grup_id' \(the nearest one is group_id\)"),
        (Admin, {"zzz": 1}, r"Admin has no option 'zzz' \(docs/clients/client-options\.md lists them\)"),
        (TransactionalSession, {"auto_offset_reset": "earliest"}, r"\(consumer=\{'auto_offset_reset': \.\.\.\}\)"),
        (TransactionalSession, {"linger_ms": 1}, r"\(producer=\{'linger_ms': \.\.\.\}\)"),
    ):
        with pytest.raises(ConfigError, match=said):
            make(**options)


@pytest.mark.parametrize("options", [ConsumerOptions(), ConsumerOptions(group_id="group")], ids=["alone", "group"])
async def test_a_consumer_with_nothing_to_read_says_so_at_its_first_read_and_reads_what_it_is_assigned(
    daemon: Daemon, options: ConsumerOptions
) -> None:
    async with Producer(daemon.bootstrap) as producer:
        where = (await producer.send("assigned", b"1")).topic
    async with Consumer(bootstrap_servers=daemon.bootstrap, auto_offset_reset="earliest", **options) as consumer:
        for read in (consumer.poll, consumer.next_batch, lambda: anext(aiter(consumer))):
            with pytest.raises(InvalidState, match=r'nothing to read \(Consumer\("topic"\), or assign\('):
                await asyncio.wait_for(read(), PATIENCE_S)
        consumer.assign([TopicPartition(where, 0)])
        assert (await consumer.poll(PATIENCE_MS))[0].value == b"1"


async def test_a_consumer_whose_pattern_matches_no_topic_yet_waits_for_one(daemon: Daemon) -> None:
    async with Consumer(pattern="none-.*", bootstrap_servers=daemon.bootstrap) as consumer:
        assert await consumer.poll(0) == []


async def test_a_session_timeout_that_the_broker_does_not_allow_is_answered_with_the_option_and_the_limits(
    daemon: Daemon,
) -> None:
    async with Producer(daemon.bootstrap) as producer:
        await producer.send("timed", b"1")
    said = r"INVALID_SESSION_TIMEOUT: .*\(session_timeout_ms must be within .*group\.min\.session\.timeout\.ms"
    async with Consumer(
        "timed", bootstrap_servers=daemon.bootstrap, group_id="timed", session_timeout_ms=4_000
    ) as consumer:
        with pytest.raises(ConfigError, match=said):
            await consumer.poll(PATIENCE_MS)


def test_a_hook_that_calls_its_blocking_client_gets_an_error_instead_of_waiting_for_itself(daemon: Daemon) -> None:
    told: list[str] = []

    def commits(records: Any) -> Any:
        try:
            consumer.commit_sync()
        except InvalidState as error:
            told.append(str(error))
        return records

    with sync.Producer(daemon.bootstrap) as producer:
        producer.send("hooked", b"1")
    with sync.Consumer(
        "hooked",
        bootstrap_servers=daemon.bootstrap,
        group_id="hooked",
        auto_offset_reset="earliest",
        on_consume=commits,
    ) as consumer:
        while not consumer.poll(1_000):
            pass
    assert told and "wait for itself" in told[0]


async def test_partitions_in_a_list_are_answered_with_what_to_write(daemon: Daemon) -> None:
    async with Producer(daemon.bootstrap) as producer:
        await producer.send("listed", b"1")
    place: Any = [TopicPartition("listed", 0)]
    async with Consumer("listed", bootstrap_servers=daemon.bootstrap) as consumer:
        for call in (consumer.pause, consumer.resume, lambda each: consumer.seek(each, 0)):
            with pytest.raises(ConfigError, match=r"a TopicPartition is due, not a list \(TopicPartition\("):
                call(place)
        for wait in (consumer.seek_to_beginning, consumer.seek_to_end, consumer.position):
            with pytest.raises(ConfigError, match="a TopicPartition is due, not a list"):
                await wait(place)


def test_a_rebalance_callback_may_be_a_plain_function(daemon: Daemon) -> None:
    seen: list[Any] = []
    with sync.Producer(daemon.bootstrap) as producer:
        producer.send("assigned", b"1")
    with sync.Consumer(
        "assigned",
        bootstrap_servers=daemon.bootstrap,
        group_id="assigned",
        auto_offset_reset="earliest",
        on_assign=seen.extend,
    ) as consumer:
        while not consumer.poll(1_000):
            pass
    assert seen == [TopicPartition("assigned", 0)]
