"""Bytes that are no request cost their connection, once and with a reason in the log, and affect no other client."""

import random
import socket
import struct
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from oncelog.health import check_health
from tests.conftest import Start
from tests.support.patience import PATIENCE_S
from tests.support.processes.daemon import Daemon

API_VERSIONS, METADATA, PRODUCE = 18, 3, 0


def _address(daemon: Daemon) -> tuple[str, int]:
    host, _, port = daemon.bootstrap.rpartition(":")
    return host, int(port)


def _frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def _header(api_key: int, version: int) -> bytes:
    return struct.pack(">hhih", api_key, version, 7, 4) + b"test"


BAD_INPUT = {
    "a negative length": struct.pack(">i", -1),
    "a huge length": struct.pack(">i", 2**31 - 1) + b"x" * 100,
    "a length of zero": struct.pack(">i", 0),
    "a frame shorter than a header": _frame(b"\0\0\0"),
    "a client id longer than the frame": _frame(struct.pack(">hhih", METADATA, 1, 7, 1000) + b"x"),
    "a client id that is no text": _frame(struct.pack(">hhih", METADATA, 1, 7, 2) + b"\xff\xff"),
    "an API key that nobody knows": _frame(_header(9999, 0)),
    "a negative API key": _frame(_header(-1, 0)),
    "a version that nobody has": _frame(_header(METADATA, 99)),
    "a body cut short": _frame(_header(METADATA, 1) + struct.pack(">i", 5) + b"\0\3ab"),
    "an array longer than its frame": _frame(_header(METADATA, 1) + struct.pack(">i", 2**31 - 1)),
    "another protocol": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "another protocol with TLS": bytes.fromhex("1603010200010001fc0303") + b"\0" * 100,
}


@pytest.fixture
def connect(daemon: Daemon) -> Iterator[Callable[[], socket.socket]]:
    opened: list[socket.socket] = []

    def connect() -> socket.socket:
        connection = socket.create_connection(_address(daemon), timeout=PATIENCE_S)
        opened.append(connection)
        return connection

    yield connect
    for connection in opened:
        connection.close()


def _is_closed_by_peer(connection: socket.socket) -> bool:
    try:
        while connection.recv(65536):
            pass
    except ConnectionResetError:
        pass
    return True


@pytest.mark.parametrize("data", BAD_INPUT.values(), ids=BAD_INPUT.keys())
def test_the_connection_is_closed_and_others_are_served(
    daemon: Daemon, connect: Callable[[], socket.socket], data: bytes
) -> None:
    neighbour = connect()
    connection = connect()
    connection.sendall(data)
    assert _is_closed_by_peer(connection)

    neighbour.sendall(_frame(_header(API_VERSIONS, 0)))
    (length,) = struct.unpack(">i", neighbour.recv(4))
    assert length > 8


def test_each_reason_is_logged_once_or_counted_with_its_like(start_daemon: Start) -> None:
    """Two of a kind in one second are one line."""
    daemon = start_daemon()
    for data in BAD_INPUT.values():
        with socket.create_connection(_address(daemon), timeout=PATIENCE_S) as connection:
            connection.sendall(data)
            assert _is_closed_by_peer(connection)
    daemon.stop()
    closed = daemon.events("connection.closed")
    assert sum("peer" in line for line in closed) + sum(line.get("left_out", 0) for line in closed) == len(BAD_INPUT)
    assert len({line["reason"] for line in closed}) >= 5


def test_random_bytes_never_stop_the_broker(daemon: Daemon, connect: Callable[[], socket.socket]) -> None:
    source = random.Random(20261121)
    for _ in range(200):
        connection = connect()
        body = source.randbytes(source.randrange(1, 200))
        # Half of them come as a frame with the header of an API that exists, so that they reach the codecs.
        if source.random() < 0.5:
            body = _frame(
                _header(source.choice((PRODUCE, METADATA, 1, 2, 10, 22, 24, 26)), source.randrange(12)) + body
            )
        connection.sendall(body)
        connection.shutdown(socket.SHUT_WR)
        assert _is_closed_by_peer(connection)
        connection.close()
    check_health(*_address(daemon), timeout_s=PATIENCE_S)


def test_api_versions_of_a_version_to_come_is_answered_in_version_0_with_its_error(
    connect: Callable[[], socket.socket],
) -> None:
    connection = connect()
    no_tags = b"\0"
    connection.sendall(_frame(_header(API_VERSIONS, 99) + no_tags))
    answer = connection.recv(65536)
    _, correlation_id, error_code, api_count = struct.unpack_from(">iihi", answer)
    assert (correlation_id, error_code) == (7, 35)
    keys = [struct.unpack_from(">hhh", answer, 14 + 6 * index)[0] for index in range(api_count)]
    assert keys == [API_VERSIONS]
    connection.sendall(_frame(_header(API_VERSIONS, 0)))
    assert connection.recv(65536)


def test_what_was_written_before_and_after_the_noise_is_all_there(
    daemon: Daemon, connect: Callable[[], socket.socket]
) -> None:
    producer = Producer({"bootstrap.servers": daemon.bootstrap, "enable.idempotence": True})
    for number, data in enumerate(BAD_INPUT.values()):
        producer.produce("noise", str(number).encode())
        connection = connect()
        connection.sendall(data)
        assert producer.flush(PATIENCE_S) == 0
    consumer = Consumer({"bootstrap.servers": daemon.bootstrap, "group.id": "noise", "enable.auto.commit": False})
    consumer.assign([TopicPartition("noise", 0, 0)])
    messages = consumer.consume(len(BAD_INPUT), timeout=PATIENCE_S)
    consumer.close()
    assert [message.value() for message in messages] == [str(number).encode() for number in range(len(BAD_INPUT))]
