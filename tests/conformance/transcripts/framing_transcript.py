"""Frames, good and bad, sent as bytes to any Kafka-compatible broker, and what comes of them: each has a name.

Owns: the bytes, and how an outcome is written down: each answer in the order of arrival, then whether the connection
was closed, kept (it still answers) or silent (kept, with nothing said). The broker must be fresh, with the topics that
`prepare` makes.
"""

import select
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from struct import pack
from typing import Any

from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.headers import encode_request_header
from oncelog.protocol.message import Message
from tests.clients.asking import Asker, batch
from tests.clients.asking import request as message_of
from tests.clients.wire import WireBroker
from tests.support.patience import PATIENCE_S

TOPIC = "framing"
_SILENCE_S = 0.7
_PROBE_ID = 999_999


def framed(body: bytes) -> bytes:
    return pack(">i", len(body)) + body


def header(api_key: int, version: int, correlation_id: int = 9, client: bytes | None = b"\0\4test") -> bytes:
    """Version 1; version 2 has one byte for its tags behind it."""
    return pack(">hhi", api_key, version, correlation_id) + (b"\xff\xff" if client is None else client)


def request(message: Message, version: int, correlation_id: int = 9) -> bytes:
    module = import_module(type(message).__module__)
    flexible = module.FLEXIBLE_FROM is not None and version >= module.FLEXIBLE_FROM
    start = encode_request_header(module.API_KEY, version, correlation_id, "test", flexible)
    return framed(b"".join((start, *module.encode(message, version))))


def _metadata(version: int, correlation_id: int = 9) -> bytes:
    return request(message_of("Metadata", topics=[{"name": TOPIC}]), version, correlation_id)


def _produce(correlation_id: int, *, acks: int = -1, version: int = 8, topic: str = TOPIC, bad: bool = False) -> bytes:
    data = batch([b"v"])
    if bad:
        data = data[:-1] + bytes((data[-1] ^ 1,))
    topics = [{"name": topic, "partition_data": [{"index": 0, "records": data}]}]
    return request(message_of("Produce", acks=acks, timeout_ms=5_000, topic_data=topics), version, correlation_id)


def _waiting_fetch(correlation_id: int, max_wait_ms: int = 300) -> bytes:
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1_000}
    limits = {"max_wait_ms": max_wait_ms, "min_bytes": 1, "max_bytes": 1_000}
    message = message_of("Fetch", **limits, topics=[{"topic": "empty", "partitions": [partition]}])
    return request(message, 11, correlation_id)


def _api_versions(correlation_id: int = 9, version: int = 0, tags: bytes = b"", body: bytes = b"") -> bytes:
    return framed(header(ApiKey.API_VERSIONS, version, correlation_id) + tags + body)


def _names(count: int) -> bytes:
    return pack(">i", count)


def _topic_name() -> bytes:
    return pack(">h", len(TOPIC)) + TOPIC.encode()


_NO_TAG = b"\0"
_M8_END = b"\1\0\0"  # allow_auto_topic_creation, and what a client may do: not asked
_M12_END = b"\1\0" + _NO_TAG
_SOFTWARE = b"\5test\2" + b"1" + _NO_TAG
_TOPIC_12 = bytes(16) + bytes((len(TOPIC) + 1,)) + TOPIC.encode()


def _m8(body: bytes) -> bytes:
    return framed(header(ApiKey.METADATA, 8) + body)


def _m12(body: bytes, tags: bytes = _NO_TAG) -> bytes:
    return framed(header(ApiKey.METADATA, 12) + tags + body)


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    sent: tuple[bytes, ...]
    """Piece by piece, with time between them."""
    asked: tuple[tuple[ApiKey, int], ...] = field(default=())
    """API and version of the answers that may come."""
    is_silent: bool = False
    """The rest of a frame is missing: nothing is asked behind it."""
    ends: bool = False
    """The client closes its side behind it, and reads on."""


_API_0 = ((ApiKey.API_VERSIONS, 0),)
_META_8 = ((ApiKey.METADATA, 8),)
_META_12 = ((ApiKey.METADATA, 12),)

ROWS = (
    # Lengths.
    Row("length 2^31-1", (pack(">i", 2**31 - 1) + bytes(100),)),
    Row("length max+1", (pack(">i", 104_857_601) + bytes(100),)),
    Row("length -1", (pack(">i", -1),)),
    Row("length -2^31", (pack(">i", -(2**31)),)),
    Row("length 0", (pack(">i", 0),)),
    Row("length 4, zeros", (framed(bytes(4)),)),
    Row("length 8: no client id", (framed(pack(">hhi", ApiKey.API_VERSIONS, 0, 9)),), _API_0),
    Row("1 KiB of 0xff in a good frame", (framed(b"\xff" * 1024),)),
    Row("HTTP GET", (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",)),
    Row("TLS ClientHello", (bytes.fromhex("1603010200010001fc0303") + bytes(100),)),
    Row("half a frame, then silence", (_metadata(8)[:15],), is_silent=True),
    Row("half a length, then silence", (_metadata(8)[:2],), is_silent=True),
    Row("nothing at all", (), is_silent=True),
    Row("a frame in two pieces", (_metadata(8)[:15], _metadata(8)[15:]), _META_8),
    Row("a length in two pieces", (_metadata(8)[:3], _metadata(8)[3:]), _META_8),
    Row("a frame byte by byte", tuple(bytes((byte,)) for byte in _metadata(8)), _META_8),
    Row("two frames in one piece", (_metadata(8, 1) + _metadata(12, 2),), (*_META_8, *_META_12)),
    Row("a good frame before a bad length, in one piece", (_metadata(8, 1) + pack(">i", -1),), _META_8),
    Row("a good frame before an unknown api, in one piece", (_metadata(8, 1) + framed(header(999, 0)),), _META_8),
    Row(
        "two produces before a bad length, in one piece",
        (_produce(1) + _produce(2) + pack(">i", 0),),
        ((ApiKey.PRODUCE, 8),) * 2,
    ),
    # API keys, versions, headers.
    Row("api key 999", (framed(header(999, 0)),)),
    Row("api key -1", (framed(header(-1, 0)),)),
    Row("api key of a controller (52, Vote)", (framed(header(52, 0)),)),
    Row("api key of a broker before 4.0 (4, LeaderAndIsr)", (framed(header(4, 0)),)),
    Row("produce v99", (framed(header(ApiKey.PRODUCE, 99)),)),
    Row("produce v0", (framed(header(ApiKey.PRODUCE, 0) + pack(">hii", 1, 1_000, 0)),), ((ApiKey.PRODUCE, 0),)),
    Row("produce v2", (framed(header(ApiKey.PRODUCE, 2) + pack(">hii", 1, 1_000, 0)),), ((ApiKey.PRODUCE, 2),)),
    Row("metadata v-1", (framed(header(ApiKey.METADATA, -1)),)),
    Row("metadata v14", (framed(header(ApiKey.METADATA, 14) + _NO_TAG + b"\1" + _M12_END),)),
    Row("fetch v3", (framed(header(ApiKey.FETCH, 3) + bytes(40)),)),
    Row("init_producer_id v6, unstable", (framed(header(ApiKey.INIT_PRODUCER_ID, 6) + bytes(40)),)),
    Row("client id null", (framed(header(ApiKey.API_VERSIONS, 0, client=None)),), _API_0),
    Row("client id of length -2", (framed(header(ApiKey.API_VERSIONS, 0, client=b"\xff\xfe")),), _API_0),
    Row("client id of length -2^15", (framed(header(ApiKey.API_VERSIONS, 0, client=b"\x80\0")),), _API_0),
    Row("client id empty", (framed(header(ApiKey.API_VERSIONS, 0, client=b"\0\0")),), _API_0),
    Row("client id longer than the frame", (framed(header(ApiKey.API_VERSIONS, 0, client=b"\3\xe8x")),), _API_0),
    Row(
        "client id of 32,767 bytes",
        (framed(header(ApiKey.API_VERSIONS, 0, client=b"\x7f\xff" + b"x" * 32_767)),),
        _API_0,
    ),
    Row("client id that is not UTF-8", (framed(header(ApiKey.API_VERSIONS, 0, client=b"\0\2\xff\xff")),), _API_0),
    Row("client id with a zero byte", (framed(header(ApiKey.API_VERSIONS, 0, client=b"\0\3a\0b")),), _API_0),
    Row("header with an unknown tag", (_m12(b"\1" + _M12_END, b"\1\x2a\3abc"),), _META_12),
    Row("header with tags out of order", (_m12(b"\1" + _M12_END, b"\2\x2b\1a\x2a\1b"),), _META_12),
    Row("header with a tag twice", (_m12(b"\1" + _M12_END, b"\2\x2a\1a\x2a\1b"),), _META_12),
    Row("header with a tag longer than the frame", (_m12(b"\1" + _M12_END, b"\1\x2a\x7f"),), _META_12),
    Row("header with 2^28 tags", (_m12(b"\1" + _M12_END, b"\x80\x80\x80\x80\1"),), _META_12),
    Row("correlation id -1", (_api_versions(-1),), _API_0),
    Row("correlation id 2^31-1", (_api_versions(2**31 - 1),), _API_0),
    # ApiVersions.
    Row("api_versions v0", (_api_versions(),), _API_0),
    Row("api_versions v1", (_api_versions(version=1),), ((ApiKey.API_VERSIONS, 1),)),
    Row("api_versions v2", (_api_versions(version=2),), ((ApiKey.API_VERSIONS, 2),)),
    Row("api_versions v3", (_api_versions(version=3, tags=_NO_TAG, body=_SOFTWARE),), ((ApiKey.API_VERSIONS, 3),)),
    Row("api_versions v4", (_api_versions(version=4, tags=_NO_TAG, body=_SOFTWARE),), ((ApiKey.API_VERSIONS, 4),)),
    Row("api_versions v99, header v1", (_api_versions(version=99),), _API_0),
    Row("api_versions v99, header v2", (_api_versions(version=99, tags=_NO_TAG),), _API_0),
    Row("api_versions v99 with a body", (_api_versions(version=99, tags=_NO_TAG, body=_SOFTWARE + bytes(50)),), _API_0),
    Row("api_versions v5 of Kafka 4.4", (_api_versions(version=5, tags=_NO_TAG, body=_SOFTWARE),), _API_0),
    Row("api_versions v-1", (_api_versions(version=-1),), _API_0),
    Row(
        "api_versions v3, software name with a space",
        (_api_versions(version=3, tags=_NO_TAG, body=b"\4a b\2" + b"1" + _NO_TAG),),
        ((ApiKey.API_VERSIONS, 3),),
    ),
    Row(
        "api_versions v3, software name empty",
        (_api_versions(version=3, tags=_NO_TAG, body=b"\1\2" + b"1" + _NO_TAG),),
        ((ApiKey.API_VERSIONS, 3),),
    ),
    Row(
        "api_versions v3, software version ends with a dot",
        (_api_versions(version=3, tags=_NO_TAG, body=b"\5test\3" + b"1." + _NO_TAG),),
        ((ApiKey.API_VERSIONS, 3),),
    ),
    Row("api_versions v3 without its body", (_api_versions(version=3, tags=_NO_TAG),), ((ApiKey.API_VERSIONS, 3),)),
    Row("api_versions v0 with bytes behind it", (_api_versions(body=bytes(16)),), _API_0),
    Row("api_versions twice", (_api_versions(1) + _api_versions(2),), _API_0 * 2),
    # Bodies, by Metadata.
    Row("metadata v8: array of length -1", (_m8(_names(-1) + _M8_END),), _META_8),
    Row("metadata v8: array of length -2", (_m8(_names(-2) + _M8_END),), _META_8),
    Row("metadata v8: array of length 0", (_m8(_names(0) + _M8_END),), _META_8),
    Row("metadata v8: array of length 2^31-1", (_m8(_names(2**31 - 1) + _M8_END),), _META_8),
    Row("metadata v8: array longer than the frame", (_m8(_names(2) + _topic_name() + _M8_END),), _META_8),
    Row("metadata v8: string of length -1", (_m8(_names(1) + pack(">h", -1) + _M8_END),), _META_8),
    Row("metadata v8: string of length -5", (_m8(_names(1) + pack(">h", -5) + _M8_END),), _META_8),
    Row("metadata v8: string longer than the frame", (_m8(_names(1) + pack(">h", 99) + b"abc"),), _META_8),
    Row("metadata v8: string that is not UTF-8", (_m8(_names(1) + b"\0\2\xff\xff\0\0\0"),), _META_8),
    Row("metadata v8: bytes behind the body", (_m8(_names(1) + _topic_name() + _M8_END + bytes(16)),), _META_8),
    Row("metadata v8: body cut short", (_m8(_names(1) + _topic_name() + b"\1"),), _META_8),
    Row("metadata v8: no body", (_m8(b""),), _META_8),
    Row("metadata v8: boolean of 7", (_m8(_names(1) + _topic_name() + b"\7\7\7"),), _META_8),
    Row("metadata v0: empty array", (framed(header(ApiKey.METADATA, 0) + _names(0)),), ((ApiKey.METADATA, 0),)),
    Row("metadata v0: null array", (framed(header(ApiKey.METADATA, 0) + _names(-1)),), ((ApiKey.METADATA, 0),)),
    Row("metadata v1: empty array", (framed(header(ApiKey.METADATA, 1) + _names(0)),), ((ApiKey.METADATA, 1),)),
    Row("metadata v1: null array", (framed(header(ApiKey.METADATA, 1) + _names(-1)),), ((ApiKey.METADATA, 1),)),
    Row("metadata v12: compact null array", (_m12(b"\0" + _M12_END),), _META_12),
    Row("metadata v12: compact empty array", (_m12(b"\1" + _M12_END),), _META_12),
    Row("metadata v12: one topic", (_m12(b"\2" + _TOPIC_12 + _NO_TAG + _M12_END),), _META_12),
    Row("metadata v12: varint of ten bytes", (_m12(b"\xff" * 10 + _M12_END),), _META_12),
    Row("metadata v12: varint of five bytes, too large", (_m12(b"\xff\xff\xff\xff\x7f" + _M12_END),), _META_12),
    Row("metadata v12: varint longer than needed", (_m12(b"\x82\0" + _TOPIC_12 + _NO_TAG + _M12_END),), _META_12),
    Row("metadata v12: compact array of 2^31-2", (_m12(b"\xff\xff\xff\xff\7" + _M12_END),), _META_12),
    Row("metadata v12: 2^28 tags", (_m12(b"\1\1\0\x80\x80\x80\x80\1"),), _META_12),
    Row("metadata v12: unknown tag", (_m12(b"\1\1\0\1\x2a\3abc"),), _META_12),
    Row("metadata v12: unknown tag in a topic", (_m12(b"\2" + _TOPIC_12 + b"\1\x2a\3abc" + _M12_END),), _META_12),
    Row("metadata v12: tag longer than the frame", (_m12(b"\1\1\0\1\x2a\x7f"),), _META_12),
    Row("metadata v12: bytes behind the body", (_m12(b"\1" + _M12_END + bytes(16)),), _META_12),
    # Order.
    Row(
        "three requests at once, two with the same correlation id",
        (_metadata(8, 11) + _metadata(8, 11) + _metadata(8, 12),),
        _META_8 * 3,
    ),
    Row(
        "a fetch that waits, and a request behind it",
        (_waiting_fetch(21) + _metadata(8, 22),),
        ((ApiKey.FETCH, 11), (ApiKey.METADATA, 8)),
    ),
    Row("five produces at once", (b"".join(_produce(number) for number in range(5)),), ((ApiKey.PRODUCE, 8),) * 5),
    Row("produce with acks=0 is not answered", (_produce(1, acks=0) + _metadata(8, 2),), _META_8),
    Row("produce with acks=0 and a wrong CRC", (_produce(1, acks=0, bad=True) + _metadata(8, 2),), _META_8),
    Row("produce with acks=0 to a topic that is not there", (_produce(1, acks=0, topic="none"),)),
    Row("produce with acks=2", (_produce(1, acks=2),), ((ApiKey.PRODUCE, 8),)),
    Row(
        "produce without topics",
        (request(message_of("Produce", acks=1, timeout_ms=1, topic_data=[]), 8),),
        ((ApiKey.PRODUCE, 8),),
    ),
    # The end of the stream.
    Row("a request, then the end", (_metadata(8),), _META_8, ends=True),
    Row("two produces, then the end", (_produce(1) + _produce(2),), ((ApiKey.PRODUCE, 8),) * 2, ends=True),
    Row("a request and half of another, then the end", (_metadata(8) + _metadata(8)[:9],), _META_8, ends=True),
    Row("half a request, then the end", (_metadata(8)[:9],), ends=True),
    Row("nothing, then the end", (), ends=True),
    Row(
        "a fetch that waits, then the end", (_waiting_fetch(21, max_wait_ms=10_000),), ((ApiKey.FETCH, 11),), ends=True
    ),
    # SASL where no listener asks for it.
    Row(
        "sasl_handshake v0 on PLAINTEXT",
        (framed(header(ApiKey.SASL_HANDSHAKE, 0) + b"\0\5PLAIN"),),
        ((ApiKey.SASL_HANDSHAKE, 0),),
    ),
    Row(
        "sasl_handshake v1 on PLAINTEXT",
        (framed(header(ApiKey.SASL_HANDSHAKE, 1) + b"\0\5PLAIN"),),
        ((ApiKey.SASL_HANDSHAKE, 1),),
    ),
    Row(
        "sasl_authenticate v1 on PLAINTEXT",
        (framed(header(ApiKey.SASL_AUTHENTICATE, 1) + b"\0\0\0\2hi"),),
        ((ApiKey.SASL_AUTHENTICATE, 1),),
    ),
)


def prepare(bootstrap: str) -> None:
    broker = WireBroker(bootstrap)
    asker = Asker(broker)
    asker.create(TOPIC)
    asker.create("empty")
    broker.close()


def outcomes(bootstrap: str) -> Iterator[tuple[str, str]]:
    for row in ROWS:
        yield row.name, outcome(bootstrap, row)


def outcome(bootstrap: str, row: Row) -> str:
    host, _, port = bootstrap.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        probe = b"" if row.is_silent or row.ends else _api_versions(_PROBE_ID)
        for piece in (*row.sent, probe):
            if piece:
                with suppress(ConnectionError):
                    connection.sendall(piece)
            if len(row.sent) > 1:
                select.select([connection], [], [], 0.05)
        if row.ends:
            connection.shutdown(socket.SHUT_WR)
        return ", ".join(_shown(connection, row))


def _shown(connection: socket.socket, row: Row) -> Iterator[str]:
    asked = iter(row.asked)
    while True:
        if row.is_silent and not select.select([connection], [], [], _SILENCE_S)[0]:
            yield "silent"
            return
        answer = _answer(connection)
        if answer is None:
            yield "closed"
            return
        correlation_id = int.from_bytes(answer[:4], "big", signed=True)
        if correlation_id == _PROBE_ID:
            yield "kept"
            return
        expected = next(asked, None)
        yield f"{correlation_id}: " + (answer[4:].hex() if expected is None else _text(*expected, answer))


def _answer(connection: socket.socket) -> bytes | None:
    size = _read(connection, 4)
    return None if size is None else _read(connection, int.from_bytes(size, "big"))


def _read(connection: socket.socket, size: int) -> bytes | None:
    data = b""
    with suppress(ConnectionError):
        while len(data) < size:
            part = connection.recv(size - len(data))
            if not part:
                return None
            data += part
        return data
    return None


def _text(api: ApiKey, version: int, answer: bytes) -> str:
    """The comparable part of an answer; what belongs to one cluster alone (ids, addresses, offsets) is left out."""
    if api is ApiKey.API_VERSIONS and int.from_bytes(answer[4:6], "big"):
        return (
            "api_versions in the shape of v0: " + answer[4:].hex() if version == 0 else _decoded(api, version, answer)
        )
    return _decoded(api, version, answer)


def _decoded(api: ApiKey, version: int, answer: bytes) -> str:
    name = api.name.lower()
    response = import_module(f"oncelog.protocol.generated.{name}_response")
    flexible = (
        response.FLEXIBLE_FROM is not None and version >= response.FLEXIBLE_FROM and api is not ApiKey.API_VERSIONS
    )
    start = 5 if flexible else 4
    if flexible and answer[4]:
        raise AssertionError("the header of the answer has tags")
    try:
        message, end = response.decode(memoryview(answer), version, start)
    except Exception as error:
        return f"{name} in another shape than v{version} ({type(error).__name__})"
    if end != len(answer):
        return f"{name} in another shape than v{version} ({len(answer) - end} bytes left)"
    return f"{name} v{version} {_TEXTS.get(api, _plain)(message)}"


def _plain(message: Any) -> str:
    codes = [("error", getattr(message, "error_code", None))]
    return " ".join(f"{name} {value}" for name, value in codes if value is not None)


def _of_metadata(message: Any) -> str:
    topics = sorted((topic.name or "-", topic.error_code) for topic in message.topics)
    shown = [(name, code) for name, code in topics if not name.startswith("__")]
    return f"brokers {len(message.brokers)} topics {shown} throttle {message.throttle_time_ms}"


def _of_produce(message: Any) -> str:
    return f"errors {[partition.error_code for topic in message.responses for partition in topic.partition_responses]}"


def _of_fetch(message: Any) -> str:
    partitions = [partition for topic in message.responses for partition in topic.partitions]
    return (
        f"error {message.error_code} partitions {[(each.error_code, len(each.records or b'')) for each in partitions]}"
    )


def _of_api_versions(message: Any) -> str:
    keys = " ".join(f"{api.api_key}:{api.min_version}-{api.max_version}" for api in sorted(message.api_keys, key=_key))
    return f"error {message.error_code} throttle {message.throttle_time_ms} keys {keys}"


def _key(api: Any) -> int:
    key: int = api.api_key
    return key


_TEXTS: dict[ApiKey, Callable[[Any], str]] = {
    ApiKey.METADATA: _of_metadata,
    ApiKey.PRODUCE: _of_produce,
    ApiKey.FETCH: _of_fetch,
    ApiKey.API_VERSIONS: _of_api_versions,
}
