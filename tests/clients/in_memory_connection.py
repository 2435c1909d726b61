"""A connection without a socket: what was written, and a peer that reads or does not."""

from typing import Any

from oncelog.broker.net.connection import Connection
from oncelog.broker.net.open_connections import OpenConnections
from oncelog.broker.requests.dispatch import Dispatcher, RunInThread
from oncelog.protocol.generated import api_versions_request, fetch_request, metadata_request, produce_request
from oncelog.protocol.generated.api_versions_request import ApiVersionsRequest
from oncelog.protocol.generated.fetch_request import FetchPartition, FetchRequest, FetchTopic
from oncelog.protocol.generated.metadata_request import MetadataRequest, MetadataRequestTopic
from oncelog.protocol.generated.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from oncelog.protocol.headers import encode_request_header
from tests.fakes.broker import HOST, PORT, VirtualBroker
from tests.fakes.logs import batch


class Transport:
    """A transport like uvloop's: it asks to pause within the write that exceeds the high water mark."""

    def __init__(self, is_read: bool = True) -> None:
        self.sent = bytearray()
        self.unsent = bytearray()
        self.is_read = is_read
        self.is_reading = True
        self.is_closed = False
        self.is_eof_sent = False
        self.is_aborted = False
        self.connection: Connection | None = None
        self._is_paused = False
        self._high_water_bytes = 65_536

    def set_write_buffer_limits(self, high: int) -> None:
        self._high_water_bytes = high

    def get_extra_info(self, name: str) -> tuple[str, int]:
        return "10.0.0.9", 4_000

    def write(self, data: Any) -> None:
        if self.is_closed or self.is_eof_sent:
            raise AssertionError("a closed connection is written to")
        if self.is_read:
            self.sent += data
            return
        self.unsent += data
        if len(self.unsent) > self._high_water_bytes and not self._is_paused and self.connection is not None:
            self._is_paused = True
            self.connection.pause_writing()

    def read(self) -> None:
        """The peer reads everything, and all that comes."""
        self.is_read = True
        self.read_some(len(self.unsent))

    def read_some(self, size: int) -> None:
        """The peer reads so much of what is there."""
        self.sent += self.unsent[:size]
        del self.unsent[:size]
        if self.unsent or self.connection is None:
            return
        if self._is_paused:
            self._is_paused = False
            self.connection.resume_writing()
        if self.is_closed and not self.unsent:
            self.connection.connection_lost(None)

    def get_write_buffer_size(self) -> int:
        return len(self.unsent)

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True

    def write_eof(self) -> None:
        self.is_eof_sent = True

    def close(self) -> None:
        self.is_closed = True
        if not self.unsent and self.connection is not None:
            self.connection.connection_lost(None)

    def abort(self) -> None:
        self.is_closed = self.is_aborted = True
        self.unsent.clear()
        if self.connection is not None:
            self.connection.connection_lost(None)


class Server:
    """A broker in virtual time and the connections to it."""

    def __init__(self, *overrides: str, run_in_thread: RunInThread | None = None) -> None:
        self.virtual = VirtualBroker(*overrides)
        self.open = OpenConnections(self.virtual.broker)
        self._dispatcher = Dispatcher(self.virtual.broker, run_in_thread)

    def connect(self, *, is_read: bool = True) -> Transport:
        transport = Transport(is_read)
        connection = Connection(self.virtual.broker, self._dispatcher, "PLAINTEXT", (HOST, PORT), self.open)
        transport.connection = connection
        connection.connection_made(transport)  # type: ignore[arg-type]
        return transport

    def send(self, transport: Transport, data: bytes) -> None:
        """Send as far as the connection reads."""
        if transport.connection is None or not transport.is_reading or transport.is_closed:
            raise AssertionError("nobody reads")
        transport.connection.data_received(data)

    def settle(self) -> None:
        self.virtual.time.settle()


def frame(api_key: int, version: int, correlation_id: int, body: list[Any], *, flexible: bool = False) -> bytes:
    data = encode_request_header(api_key, version, correlation_id, "test", flexible) + b"".join(body)
    return len(data).to_bytes(4, "big") + data


def api_versions(correlation_id: int) -> bytes:
    return frame(18, 0, correlation_id, api_versions_request.encode(ApiVersionsRequest(), 0))


def metadata(correlation_id: int, topic: str) -> bytes:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=True)
    return frame(3, 8, correlation_id, metadata_request.encode(request, 8))


def produce(correlation_id: int, topic: str, *, acks: int = -1, value_bytes: int = 1) -> bytes:
    data = PartitionProduceData(index=0, records=memoryview(batch(1, value=b"v" * value_bytes)))
    request = ProduceRequest(
        acks=acks, timeout_ms=1_000, topic_data=[TopicProduceData(name=topic, partition_data=[data])]
    )
    return frame(0, 8, correlation_id, produce_request.encode(request, 8))


def fetch(
    correlation_id: int, topic: str, *, offset: int = 0, max_wait_ms: int = 0, max_bytes: int = 2**31 - 1
) -> bytes:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=max_bytes)
    request = FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=max_bytes,
        topics=[FetchTopic(topic=topic, partitions=[partition])],
    )
    return frame(1, 11, correlation_id, fetch_request.encode(request, 11))


def correlation_ids(data: bytes | bytearray) -> list[int]:
    """Return the correlation ids of the whole answers in `data`; half an answer is an error."""
    found, position = [], 0
    while position < len(data):
        size = int.from_bytes(data[position : position + 4], "big")
        if position + 4 + size > len(data):
            raise AssertionError("half an answer")
        found.append(int.from_bytes(data[position + 4 : position + 8], "big"))
        position += 4 + size
    return found
