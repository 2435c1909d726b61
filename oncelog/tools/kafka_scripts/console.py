"""`kafka-console-producer` and `kafka-console-consumer`.

Owns: lines to records and back, in the formats of Kafka's LineMessageReader and DefaultMessageFormatter. Does not own:
the clients. A property that is unknown here is an error that names it.
"""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING, Any

from oncelog.tools.kafka_scripts.arguments import Options, Wrong, client_security, out
from oncelog.tools.kafka_scripts.asking import ask, bootstrap_of
from oncelog.tools.record.produce import lines
from oncelog.tools.terminal import say

if TYPE_CHECKING:
    from oncelog.client.admin.client import Admin
    from oncelog.client.consuming.consumer import Consumer
    from oncelog.client.values.records import Record

_DEPRECATED = "is deprecated and will be removed in a future version."
_MOST_UNSEEN = 10_000
_POLL_MS = 500
_READER = {
    "parse.key": "false",
    "key.separator": "\t",
    "parse.headers": "false",
    "headers.delimiter": "\t",
    "headers.separator": ",",
    "headers.key.separator": ":",
    "ignore.error": "false",
    "null.marker": "",
}
_FORMATTER = {
    "print.timestamp": "false",
    "print.partition": "false",
    "print.offset": "false",
    "print.headers": "false",
    "print.key": "false",
    "print.value": "true",
    "key.separator": "\t",
    "line.separator": "\n",
    "headers.separator": ",",
    "null.literal": "null",
}
_PRODUCER = {"acks": "all", "compression.type": "none", "linger.ms": "", "client.id": "", "enable.idempotence": ""}
_CONSUMER = {"group.id": "", "auto.offset.reset": "", "isolation.level": "", "client.id": "", "enable.auto.commit": ""}


def _properties(options: Options, known: Mapping[str, str], *names: str) -> dict[str, str]:
    """Return the properties that these options give, over the defaults. Raises Wrong."""
    found = dict(known)
    for option in names:
        for text in options.all(option):
            name, _, value = text.partition("=")
            if name not in known:
                raise Wrong(f"{options.script}: --{option} {name} is not offered here; there are: {', '.join(known)}")
            found[name] = value.encode().decode("unicode_escape")
    return found


# --- producer ---------------------------------------------------------------------------------------------------------


def produce(options: Options) -> int:
    reader = _properties(options, _READER, "property", "reader-property")
    producer = _properties(options, _PRODUCER, "producer-property", "command-property")
    if "property" in options:
        out(f"Warning: --property {_DEPRECATED} Use --reader-property instead.")
    return ask(options, lambda _: _produce(options, reader, producer))


async def _produce(options: Options, reader: Mapping[str, str], given: Mapping[str, str]) -> int:
    from oncelog.client.producing.producer import Producer

    settings: dict[str, Any] = {
        "compression_type": options.get("compression-codec") or given["compression.type"],
        "acks": _acks(options.get("request-required-acks") or given["acks"]),
        **client_security(options),
    }
    topic = options.value("topic")
    async with Producer(bootstrap_of(options), **settings) as producer:
        unseen = []
        async for key, value, headers in _records(reader):
            delivery = await producer.send_soon(topic, value, key=key, headers=headers)
            if "sync" in options:
                await delivery
            unseen.append(delivery)
            if len(unseen) == _MOST_UNSEEN:
                await asyncio.gather(*unseen)
                unseen.clear()
        for delivery in unseen:
            await delivery
    return 0


def _acks(text: str) -> Any:
    return "all" if text in ("all", "-1") else int(text)


async def _records(
    reader: Mapping[str, str],
) -> AsyncIterator[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]]:
    """Yield key, value and headers of each line of standard input. Raises Wrong for one without its separators."""
    number = 0
    async for line in lines():
        number += 1
        headers: list[tuple[str, bytes | None]] = []
        key: bytes | None = None
        rest = line
        if reader["parse.headers"] == "true":
            text, rest = _cut(rest, reader, "headers.delimiter", number)
            if text != _null(reader):
                headers = [_header(each, reader) for each in text.split(reader["headers.separator"].encode())]
        if reader["parse.key"] == "true":
            key, rest = _cut(rest, reader, "key.separator", number)
        yield _unless_null(key, reader), _unless_null(rest, reader), headers


def _cut(line: bytes, reader: Mapping[str, str], which: str, number: int) -> tuple[bytes, bytes]:
    before, found, after = line.partition(reader[which].encode())
    if found:
        return before, after
    if reader["ignore.error"] == "true":
        return _null(reader), line
    name = "key separator" if which == "key.separator" else "headers delimiter"
    raise Wrong(
        f"org.apache.kafka.common.KafkaException: No {name} found on line number {number}: "
        f"'{line.decode(errors='replace')}'"
    )


def _header(text: bytes, reader: Mapping[str, str]) -> tuple[str, bytes | None]:
    name, _, value = text.partition(reader["headers.key.separator"].encode())
    return name.decode(), _unless_null(value, reader)


def _null(reader: Mapping[str, str]) -> bytes:
    return reader["null.marker"].encode()


def _unless_null(text: bytes | None, reader: Mapping[str, str]) -> bytes | None:
    return None if reader["null.marker"] and text == _null(reader) else text


# --- consumer ---------------------------------------------------------------------------------------------------------


def consume(options: Options) -> int:
    formatter = _properties(options, _FORMATTER, "property", "formatter-property")
    given = _properties(options, _CONSUMER, "consumer-property", "command-property")
    if "property" in options:
        out(f"Option --property {_DEPRECATED} Use --formatter-property instead.")
    if "topic" not in options:
        raise Wrong("Exactly one of --include/--topic is required.")
    return ask(options, lambda admin: _consume(admin, options, formatter, given))


async def _consume(admin: "Admin", options: Options, formatter: Mapping[str, str], given: Mapping[str, str]) -> int:
    from oncelog.client.consuming.consumer import Consumer

    topic = options.value("topic")
    await admin.create_topics(topic, exist_ok=True)  # as the question of Java's consumer makes it
    group = options.get("group") or given["group.id"]
    reset = "earliest" if "from-beginning" in options else given["auto.offset.reset"] or "latest"
    settings: dict[str, Any] = {
        "bootstrap_servers": bootstrap_of(options),
        "isolation_level": options.get("isolation-level") or given["isolation.level"] or "read_uncommitted",
        "auto_offset_reset": reset,
        **client_security(options),
    }
    if group and "partition" not in options:
        settings |= {"group_id": group, "enable_auto_commit": given["enable.auto.commit"] != "false"}
        async with Consumer(topic, **settings) as consumer:
            return await _print(consumer, options, formatter)
    async with Consumer(**settings) as consumer:
        await _assign(consumer, topic, options, reset)
        return await _print(consumer, options, formatter)


async def _assign(consumer: "Consumer", topic: str, options: Options, reset: str) -> None:
    """Assign all partitions of the topic, or --partition from --offset on."""
    from oncelog.client.values.records import TopicPartition

    places = await consumer.partitions_for(topic)
    if "partition" in options:
        places = [TopicPartition(topic, options.number("partition", 0))]
    consumer.assign(places)
    start = options.get("offset") or reset
    if start == "earliest":
        await consumer.seek_to_beginning()
    elif start == "latest":
        await consumer.seek_to_end()
    else:
        for place in places:
            consumer.seek(place, options.number("offset", 0))


async def _print(consumer: "Consumer", options: Options, formatter: Mapping[str, str]) -> int:
    """Print until --max-messages are printed, or none has come for --timeout-ms; otherwise for ever."""
    left = options.number("max-messages", -1)
    timeout_ms = options.number("timeout-ms", -1)
    count, quiet_since = 0, time.monotonic()
    try:
        while left != 0:
            for record in await consumer.poll(_POLL_MS, left if left > 0 else None):
                sys.stdout.buffer.write(_line(record, formatter))
                count, left, quiet_since = count + 1, left - 1, time.monotonic()
            sys.stdout.flush()
            if timeout_ms >= 0 and (time.monotonic() - quiet_since) * 1000 >= timeout_ms:
                break
    finally:
        say(f"Processed a total of {count} messages", err=True)
    return 0


def _or_null(data: bytes | None, formatter: Mapping[str, str]) -> bytes:
    return formatter["null.literal"].encode() if data is None else data


def _shown_headers(record: "Record", formatter: Mapping[str, str]) -> bytes:
    if not record.headers:
        return b"NO_HEADERS"
    shown = (name.encode() + b":" + _or_null(value, formatter) for name, value in record.headers)
    return formatter["headers.separator"].encode().join(shown)


_FIELDS: tuple[tuple[str, "Callable[[Record, Mapping[str, str]], bytes]"], ...] = (
    ("print.timestamp", lambda record, _: f"CreateTime:{record.timestamp_ms}".encode()),
    ("print.partition", lambda record, _: f"Partition:{record.partition}".encode()),
    ("print.offset", lambda record, _: f"Offset:{record.offset}".encode()),
    ("print.headers", _shown_headers),
    ("print.key", lambda record, formatter: _or_null(record.key, formatter)),
    ("print.value", lambda record, formatter: _or_null(record.value, formatter)),
)
"""The fields in the order in which they are printed."""


def _line(record: "Record", formatter: Mapping[str, str]) -> bytes:
    shown = [of(record, formatter) for name, of in _FIELDS if formatter[name] == "true"]
    return formatter["key.separator"].encode().join(shown) + formatter["line.separator"].encode()
