"""Connections of the daemon, over real sockets: limits, listeners, clients that do not do their part."""

import re
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from oncelog.health import check_health
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.describe_cluster_request import DescribeClusterRequest
from oncelog.protocol.generated.find_coordinator_request import FindCoordinatorRequest
from oncelog.protocol.generated.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from oncelog.protocol.generated.metadata_request import MetadataRequest, MetadataRequestTopic
from oncelog.protocol.generated.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.clients.in_memory_connection import api_versions, fetch, produce
from tests.clients.wire import WireBroker
from tests.conftest import Start
from tests.fakes.logs import batch
from tests.support.kafka.server import free_ports
from tests.support.patience import PATIENCE_S, until
from tests.support.processes.daemon import Daemon

MIB = 1 << 20

Connect = Callable[[Daemon], socket.socket]


@pytest.fixture
def connect() -> Iterator[Connect]:
    opened: list[socket.socket] = []

    def connect(daemon: Daemon) -> socket.socket:
        connection = socket.create_connection(_address(daemon), timeout=PATIENCE_S)
        opened.append(connection)
        return connection

    yield connect
    for connection in opened:
        connection.close()


def _address(daemon: Daemon) -> tuple[str, int]:
    host, _, port = daemon.bootstrap.rpartition(":")
    return host, int(port)


def answered(connection: socket.socket) -> int | None:
    """The correlation id of the next answer; None when the connection was closed."""
    head = _read(connection, 8)
    if len(head) < 8:
        return None
    size, correlation_id = struct.unpack(">ii", head)
    _read(connection, size - 4)
    return int(correlation_id)


def _read(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    with suppress(ConnectionResetError):
        while len(data) < size:
            part = connection.recv(min(MIB, size - len(data)))
            if not part:
                break
            data += part
    return bytes(data)


def is_served(daemon: Daemon, timeout_s: float) -> bool:
    """A new connection is accepted and answered in that time."""
    with socket.create_connection(_address(daemon), timeout=timeout_s) as connection:
        connection.sendall(api_versions(1))
        with suppress(TimeoutError):
            return answered(connection) == 1
        return False


def resident_bytes(daemon: Daemon, field: str = "VmRSS") -> int:
    status = Path(f"/proc/{daemon.process.pid}/status").read_text()
    (kib,) = re.findall(rf"^{field}:\s+(\d+) kB", status, re.MULTILINE)
    return int(kib) * 1024


# --- how many ---------------------------------------------------------------------------------------------------------


def test_above_max_connections_new_ones_wait_and_are_served_when_another_ends(
    start_daemon: Start, connect: Connect
) -> None:
    daemon = start_daemon("max.connections=3")
    first = [connect(daemon) for _ in range(3)]
    for connection in first:
        connection.sendall(api_versions(1))
        assert answered(connection) == 1
    fourth = connect(daemon)
    fourth.sendall(api_versions(4))
    fourth.settimeout(0.3)
    with pytest.raises(TimeoutError):
        fourth.recv(1)
    fourth.settimeout(PATIENCE_S)
    first[0].close()
    assert answered(fourth) == 4


def test_the_limit_may_change_while_running(start_daemon: Start, connect: Connect) -> None:
    daemon = start_daemon("max.connections=1")
    broker = WireBroker(daemon.bootstrap)
    broker.ask(MetadataRequest(topics=[]), 12)
    waiting = connect(daemon)
    waiting.sendall(api_versions(7))
    change = AlterableConfig(name="max.connections", config_operation=0, value="2")
    resource = AlterConfigsResource(resource_type=4, resource_name="1", configs=[change])
    (answer,) = broker.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
    assert answer.error_code == ErrorCode.NONE
    assert answered(waiting) == 7
    broker.close()


def test_one_too_many_from_an_address_is_closed_at_once_and_others_are_not(
    start_daemon: Start, connect: Connect
) -> None:
    daemon = start_daemon("max.connections.per.ip=2")
    first, second, third = (connect(daemon) for _ in range(3))
    for connection in (first, second):
        connection.sendall(api_versions(1))
        assert answered(connection) == 1
    with suppress(OSError):
        third.sendall(api_versions(1))
    assert answered(third) is None
    elsewhere = socket.create_connection(_address(daemon), timeout=PATIENCE_S, source_address=("127.0.0.2", 0))
    with elsewhere:
        elsewhere.sendall(api_versions(2))
        assert answered(elsewhere) == 2


def test_an_address_may_have_a_limit_of_its_own(start_daemon: Start, connect: Connect) -> None:
    daemon = start_daemon("max.connections.per.ip=0", "max.connections.per.ip.overrides=127.0.0.1:1")
    first, second = connect(daemon), connect(daemon)
    first.sendall(api_versions(1))
    assert answered(first) == 1
    assert answered(second) is None


def test_new_connections_come_no_faster_than_allowed(start_daemon: Start, connect: Connect) -> None:
    daemon = start_daemon("max.connection.creation.rate=5")
    began = time.monotonic()
    for number in range(7):
        connection = connect(daemon)
        connection.sendall(api_versions(number))
        assert answered(connection) == number
    assert time.monotonic() - began > 0.8


@pytest.mark.skipif(not Path("/proc/self/limits").exists(), reason="limits are read from /proc")
def test_the_daemon_may_open_as_many_files_as_the_system_lets_it(start_daemon: Start) -> None:
    limits = Path(f"/proc/{start_daemon().process.pid}/limits").read_text()
    ((soft, hard),) = re.findall(r"^Max open files\s+(\w+)\s+(\w+)", limits, re.MULTILINE)
    assert soft == hard


def test_connections_up_to_the_limit_leave_descriptors_for_logs_and_end_nothing(
    start_daemon: Start, connect: Connect
) -> None:
    """With as many connections as there can be, a produce to each of many new partitions succeeds."""
    daemon = start_daemon("num.partitions=60", open_files=96)
    broker = WireBroker(daemon.bootstrap)
    broker.ask(MetadataRequest(topics=[]), 12)
    crowd = [connect(daemon) for _ in range(200)]
    for connection in crowd[:10]:
        connection.sendall(api_versions(1))
        assert answered(connection) == 1
    until(lambda: bool(daemon.events("listener.no_descriptors")))
    broker.ask(MetadataRequest(topics=[MetadataRequestTopic(name="late")], allow_auto_topic_creation=True), 12)
    for partition in range(60):
        data = PartitionProduceData(index=partition, records=batch())
        request = ProduceRequest(
            acks=-1, timeout_ms=5_000, topic_data=[TopicProduceData(name="late", partition_data=[data])]
        )
        (answer,) = broker.ask(request, 8).responses[0].partition_responses
        assert answer.error_code == ErrorCode.NONE, partition
    for connection in crowd:
        connection.close()
    assert is_served(daemon, PATIENCE_S)
    assert len(daemon.events("listener.no_descriptors")) == 1
    broker.close()
    assert daemon.stop() == 0


# --- how long ---------------------------------------------------------------------------------------------------------


def test_an_idle_connection_is_closed(start_daemon: Start, connect: Connect) -> None:
    daemon = start_daemon("connections.max.idle.ms=300")
    connection = connect(daemon)
    connection.sendall(api_versions(1))
    assert answered(connection) == 1
    assert answered(connection) is None


def test_half_a_request_and_silence_is_idle_too(start_daemon: Start, connect: Connect) -> None:
    daemon = start_daemon("connections.max.idle.ms=300")
    connection = connect(daemon)
    connection.sendall(api_versions(1)[:9])
    assert answered(connection) is None


def test_a_stop_does_not_wait_for_a_client_that_does_not_read(start_daemon: Start, connect: Connect) -> None:
    daemon = start_daemon()
    _fill(daemon, "large", 20 * MIB)
    connection = connect(daemon)
    connection.sendall(fetch(1, "large"))
    until(lambda: bool(connection.recv(1, socket.MSG_PEEK)))
    assert daemon.stop() == 0


def test_a_clean_stop_makes_no_client_write_twice(start_daemon: Start) -> None:
    """A producer without idempotence writes again what was not answered: so what was appended must be."""
    daemon = start_daemon()
    # A request for each message, as many at a time as there are: hundreds are on their way at any moment.
    producer = Producer(
        {"bootstrap.servers": daemon.bootstrap, "enable.idempotence": False, "linger.ms": 0, "batch.num.messages": 1}
    )
    reported: list[object] = []
    for number in range(3_000):
        producer.produce("once", str(number).encode(), on_delivery=lambda error, _: reported.append(error))
    while len(reported) < 500:
        assert producer.poll(PATIENCE_S)
    daemon.stop()
    daemon.start()
    assert producer.flush(PATIENCE_S) == 0
    assert reported == [None] * 3_000
    consumer = Consumer({"bootstrap.servers": daemon.bootstrap, "group.id": "g", "enable.auto.commit": False})
    consumer.assign([TopicPartition("once", 0, 0)])
    values: list[bytes] = []
    while len(values) < 3_000:
        found = consumer.consume(3_000 - len(values), timeout=PATIENCE_S)
        if not found:
            break
        values += [message.value() or b"" for message in found]
    (_, end) = consumer.get_watermark_offsets(TopicPartition("once", 0), timeout=PATIENCE_S)
    consumer.close()
    assert end == 3_000
    assert sorted(values) == sorted(str(number).encode() for number in range(3_000))


# --- how much ---------------------------------------------------------------------------------------------------------


def _fill(daemon: Daemon, topic: str, size: int) -> None:
    producer = Producer({"bootstrap.servers": daemon.bootstrap, "message.max.bytes": 2_000_000, "linger.ms": 0})
    for _ in range(size // 1_000_000 + 1):
        producer.produce(topic, bytes(1_000_000))
    assert producer.flush(PATIENCE_S) == 0


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_large_fetches_that_are_not_read_do_not_grow_the_memory(start_daemon: Start, connect: Connect) -> None:
    """Forty clients ask for 50 MB each, 2 GB in all, and read nothing; a client that reads is served all the while."""
    daemon = start_daemon("oncelog.unread.answers.max.bytes=67108864")
    _fill(daemon, "large", 60 * MIB)
    before = resident_bytes(daemon)
    for number in range(40):
        connection = connect(daemon)
        for again in range(3):
            connection.sendall(fetch(number + again, "large", max_bytes=50_000_000))
        assert is_served(daemon, PATIENCE_S)
    peak = resident_bytes(daemon, "VmHWM")
    # Unread answers (64 MiB and 1 MiB for each), one answer as it is made, and what the allocator keeps.
    assert peak - before < (64 + 40 + 64 + 32) * MIB


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_small_requests_with_large_answers_that_are_not_read_do_not_grow_the_memory(
    start_daemon: Start, connect: Connect
) -> None:
    """Two million requests in one go, of one client that does not read: a gigabyte of answers."""
    daemon = start_daemon()
    before = resident_bytes(daemon)
    connection = connect(daemon)
    connection.setblocking(False)
    requests = memoryview(api_versions(1) * 2_000_000)
    sent = 0

    def is_full() -> bool:
        nonlocal sent
        before = sent
        with suppress(BlockingIOError):
            while sent < len(requests):
                sent += connection.send(requests[sent : sent + MIB])
        return sent == before

    until(is_full)
    assert sent < len(requests), "it is not read from"
    assert resident_bytes(daemon, "VmHWM") - before < 16 * MIB
    assert is_served(daemon, PATIENCE_S)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_announced_requests_take_memory_as_they_arrive_and_share_a_bound(start_daemon: Start, connect: Connect) -> None:
    """Sixty clients announce 100 MB each and send 3 MB of it, most of which stays where it is."""
    daemon = start_daemon("queued.max.request.bytes=16777216")
    before = resident_bytes(daemon)
    silent = [connect(daemon) for _ in range(60)]
    for connection in silent:
        connection.sendall((100_000_000).to_bytes(4, "big"))
    assert resident_bytes(daemon, "VmHWM") - before < 8 * MIB
    for connection in silent:
        connection.setblocking(False)
    part = bytes(MIB)
    for _ in range(3):
        for connection in silent:
            with suppress(BlockingIOError):
                connection.send(part)
        assert is_served(daemon, PATIENCE_S)
    # 16 MiB together, and what each may have without being counted, twice over while a buffer grows.
    assert resident_bytes(daemon, "VmHWM") - before < (16 + 60 * 2) * MIB


def _produce_to_nowhere(size: int) -> bytes:
    """A request of about that size, which is answered with an error and costs no disk."""
    return produce(7, "nowhere", value_bytes=size)


def test_large_requests_that_stop_or_dribble_make_no_other_client_wait_for_long(
    start_daemon: Start, connect: Connect
) -> None:
    """Four of 24 MB stop just before their end, or send a byte now and then, in room for one: a fifth is answered."""
    daemon = start_daemon("queued.max.request.bytes=25165824", "socket.request.max.bytes=30000000")
    request = _produce_to_nowhere(24 * MIB)
    stopped = [connect(daemon) for _ in range(4)]
    unsent = [memoryview(request)[:-20] for _ in stopped]
    for connection in stopped:
        connection.setblocking(False)
    good = connect(daemon)
    answer: list[int | None] = []

    def ask() -> None:
        with suppress(OSError):
            good.sendall(request)
            answer.append(answered(good))

    def is_over() -> bool:
        for number, connection in enumerate(stopped):
            with suppress(OSError):
                # All but the last bytes as fast as they are read, and these one by one.
                unsent[number] = unsent[number][connection.send(unsent[number][: max(1, len(unsent[number]) - 20)]) :]
        return bool(answer)

    def is_full() -> bool:
        """The first has sent all but its last bytes, so there is no room beside it."""
        is_over()
        return len(unsent[0]) <= 20

    until(is_full)
    asking = threading.Thread(target=ask)
    asking.start()
    until(is_over)
    asking.join(PATIENCE_S)
    assert answer == [7]
    reasons = [line["reason"] for line in daemon.events("connection.closed")]
    assert reasons
    assert all("memory for requests is short" in reason for reason in reasons)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_many_small_requests_that_stop_share_the_bound_too(start_daemon: Start, connect: Connect) -> None:
    """Two hundred connections send 900 kB of a request of 1 MB each, 180 MB in all; whole requests are answered."""
    daemon = start_daemon("queued.max.request.bytes=67108864", "socket.request.max.bytes=8000000")
    before = resident_bytes(daemon)
    start = memoryview((1_000_000).to_bytes(4, "big") + bytes(900_000))
    crowd = [connect(daemon) for _ in range(200)]
    for connection in crowd:
        connection.setblocking(False)
        with suppress(OSError):
            connection.send(start)
    assert is_served(daemon, 20)
    good = connect(daemon)
    good.sendall(_produce_to_nowhere(900_000))
    assert answered(good) == 7
    # 64 MiB and the largest request, twice over while buffers grow and are let go.
    assert resident_bytes(daemon, "VmHWM") - before < 2 * (64 + 8) * MIB


def test_large_requests_above_the_bound_all_end(start_daemon: Start) -> None:
    """Eight producers send a 4 MB batch each, through a bound that lets one pass at a time."""
    daemon = start_daemon("queued.max.request.bytes=1048576", "message.max.bytes=5000000")
    producers = [Producer({"bootstrap.servers": daemon.bootstrap, "message.max.bytes": 5_000_000}) for _ in range(8)]
    for producer in producers:
        producer.produce("large", bytes(4_000_000))
    assert [producer.flush(PATIENCE_S) for producer in producers] == [0] * 8


# --- by which way -----------------------------------------------------------------------------------------------------


def test_each_listener_answers_its_own_address_whatever_is_asked(start_daemon: Start) -> None:
    inside, outside = free_ports(2)
    daemon = start_daemon(
        f"listeners=INSIDE://127.0.0.1:{inside},OUTSIDE://127.0.0.2:{outside}",
        "advertised.listeners=INSIDE://broker.inside:1111,OUTSIDE://broker.outside:2222",
        "listener.security.protocol.map=INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
    )
    assert daemon.bootstrap == f"127.0.0.1:{inside}"
    for address, expected in (
        (f"127.0.0.1:{inside}", ("broker.inside", 1111)),
        (f"127.0.0.2:{outside}", ("broker.outside", 2222)),
    ):
        broker = WireBroker(address)
        (by_metadata,) = broker.ask(MetadataRequest(topics=[]), 12).brokers
        (by_cluster,) = broker.ask(DescribeClusterRequest(), 1).brokers
        (by_coordinator,) = broker.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4).coordinators
        broker.close()
        assert {(each.host, each.port) for each in (by_metadata, by_cluster, by_coordinator)} == {expected}


def _own_address() -> str | None:
    """An address of this machine that is not loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, suppress(OSError):
        probe.connect(("192.0.2.254", 9))  # sends nothing
        host: str = probe.getsockname()[0]
        return None if host.startswith("127.") else host
    return None


def test_a_client_on_this_machine_is_not_warned_of(start_daemon: Start) -> None:
    (port,) = free_ports(1)
    daemon = start_daemon(f"listeners=PLAINTEXT://0.0.0.0:{port}", "advertised.listeners=PLAINTEXT://localhost:9")
    for host in filter(None, ("127.0.0.1", _own_address())):
        check_health(host, port, timeout_s=PATIENCE_S)
    assert daemon.events("listener.not_reachable") == []


def test_a_client_that_cannot_follow_is_warned_of_once(start_daemon: Start) -> None:
    """It comes from one address of this machine to another, so it looks as if it came from elsewhere."""
    own = _own_address()
    if own is None:
        pytest.skip("this machine has loopback alone")
    (port,) = free_ports(1)
    daemon = start_daemon(f"listeners=PLAINTEXT://0.0.0.0:{port}", "advertised.listeners=PLAINTEXT://localhost:9")
    for _ in range(3):
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S, source_address=(own, 0)) as connection:
            connection.sendall(api_versions(1))
            assert answered(connection) == 1
    (warning,) = daemon.events("listener.not_reachable")
    assert (warning["peer"], warning["advertised"]) == (own, "localhost:9")
    assert "advertised.listeners=PLAINTEXT://HOST:9" in warning["message"]


def test_all_interfaces_are_one_port_for_both_families(start_daemon: Start) -> None:
    daemon = start_daemon("listeners=PLAINTEXT://:0")
    port = int(daemon.bootstrap.rpartition(":")[2])
    check_health("127.0.0.1", port, timeout_s=PATIENCE_S)
    if socket.has_ipv6:
        check_health("::1", port, timeout_s=PATIENCE_S)
