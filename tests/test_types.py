"""What type checkers say of programs that use oncelog: mypy and pyright, which come with `make check`, both strict."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("mypy")
pytest.importorskip("basedpyright")
pytestmark = pytest.mark.slow  # `make check` runs them, and is where the checkers come from

Check = Callable[[str, Path], str]


def _run(folder: Path, *command: str) -> str:
    return subprocess.run(
        [sys.executable, "-m", *command], cwd=folder, capture_output=True, text=True, timeout=300
    ).stdout


def mypy(program: str, folder: Path) -> str:
    (folder / "program.py").write_text(program)
    return _run(folder, "mypy", "--strict", "--cache-dir", str(folder / "cache"), "program.py")


def pyright(program: str, folder: Path) -> str:
    (folder / "program.py").write_text(program)
    (folder / "pyrightconfig.json").write_text(json.dumps({"typeCheckingMode": "strict"}))
    return _run(folder, "basedpyright", "--pythonpath", sys.executable, "program.py")


CHECKERS = pytest.mark.parametrize("check", [mypy, pyright], ids=lambda each: each.__name__)

TYPED = """
import json
import sqlite3
from contextlib import AbstractContextManager, closing
from typing import Any, assert_type

from oncelog import (
    JSON,
    STRING,
    Consumer,
    ConsumerRecords,
    Delivery,
    KafkaError,
    OffsetAndTimestamp,
    Producer,
    Record,
    RecordMetadata,
    SessionBatch,
    ShareConsumer,
    ShareRecord,
    TopicPartition,
    Transaction,
    TransactionalSession,
    sync,
)
from oncelog.sql_offsets import BlockingSqlBatch, SqlBatch, SqlOffsets


def cents(data: bytes) -> int:
    return int(data)


async def plain(producer: Producer, consumer: Consumer) -> None:
    assert_type(producer, Producer[bytes, bytes])
    assert_type(Producer("host:9092", linger_ms=5), Producer[bytes, bytes])
    assert_type(Consumer("topic", group_id="group"), Consumer[bytes, bytes])
    assert_type(await producer.send("topic", b"value", key=b"key"), RecordMetadata)
    for record in await consumer.poll():
        assert_type(record, Record[bytes, bytes])
        assert_type(record.value, bytes | None)


async def typed() -> None:
    async with Producer("host:9092", key_serializer=STRING, value_serializer=JSON) as producer:
        assert_type(producer, Producer[str, Any])
        async with producer.transaction() as transaction:
            assert_type(transaction, Transaction[str, Any])
            assert_type(await transaction.send_soon("topic", {"a": 1}, key="key"), Delivery)
    assert_type(Producer("host:9092", value_serializer=str.encode), Producer[bytes, str])
    assert_type(Consumer("topic", value_deserializer=json.loads), Consumer[bytes, Any])
    consumer = Consumer("topic", key_deserializer=bytes.decode, value_deserializer=cents)
    assert_type(consumer, Consumer[str, int])
    async for record in consumer:
        assert_type(record, Record[str, int])
        assert_type(record.key, str | None)
    async for batch in consumer.batches():
        assert_type(batch, ConsumerRecords[str, int])
        assert_type(batch[0], Record[str, int])


async def shared() -> None:
    assert_type(ShareConsumer("topic", group_id="group"), ShareConsumer[bytes, bytes])
    consumer = ShareConsumer("topic", group_id="group", value_deserializer=cents)
    assert_type(consumer, ShareConsumer[bytes, int])
    async for record in consumer:
        assert_type(record, ShareRecord[bytes, int])
        assert_type(record.value, int | None)
        assert_type(record.delivery_count, int)
        consumer.acknowledge(record, "release")
    assert_type(await consumer.commit_sync(), dict[TopicPartition, KafkaError | None])


async def session() -> None:
    async with TransactionalSession("in", group_id="group", value_deserializer=cents, key_serializer=STRING) as session:
        assert_type(session, TransactionalSession[bytes, int, str, bytes])
        async for batch in session:
            assert_type(batch, SessionBatch[bytes, int, str, bytes])
            async with batch:
                for record in batch:
                    assert_type(record.value, int | None)
                    await batch.send("out", b"value", key="key")
    plain = TransactionalSession("in", group_id="group", consumer={"fetch_min_bytes": 1}, producer={"linger_ms": 5})
    assert_type(plain, TransactionalSession[bytes, bytes, bytes, bytes])
    both = TransactionalSession(
        "in",
        group_id="group",
        key_deserializer=STRING,
        value_deserializer=cents,
        key_serializer=STRING,
        value_serializer=JSON,
        consumer={"fetch_min_bytes": 1, "on_assign": None},
        producer={"linger_ms": 5},
    )
    assert_type(both, TransactionalSession[str, int, str, Any])


def connect() -> AbstractContextManager[sqlite3.Connection]:
    return closing(sqlite3.connect("results.db"))


async def sql_offsets() -> None:
    offsets = SqlOffsets("group", connect)
    async with Consumer("in", bootstrap_servers="host:9092", value_deserializer=cents, **offsets.options) as consumer:
        assert_type(consumer, Consumer[bytes, int])
        async for batch in offsets.batches(consumer):
            assert_type(batch, SqlBatch[bytes, int])
            with connect() as connection:
                async with batch:
                    await batch.advance(connection)
            assert_type(batch[0].value, int | None)
    with sync.Consumer("in", **offsets.options) as reader:
        for results in offsets.batches(reader):
            assert_type(results, BlockingSqlBatch[bytes, bytes])
            with results, connect() as connection:
                assert_type(results.advance(connection), None)


def blocking() -> None:
    with sync.Admin("host:9092", request_timeout_ms=5) as admin:
        assert_type(admin.create_topics("topic", exist_ok=True), None)
        assert_type(admin.list_offsets([TopicPartition("topic", 0)]), dict[TopicPartition, OffsetAndTimestamp])
    with sync.Producer("host:9092", key_serializer=STRING) as producer:
        assert_type(producer, sync.Producer[str, bytes])
        assert_type(producer.send("topic", b"value", key="key"), RecordMetadata)
        assert_type(producer.send_soon("topic", b"value", key="key"), sync.Delivery)
        with producer.transaction() as transaction:
            assert_type(transaction.send("topic", b"value", key="key"), RecordMetadata)
    consumer = sync.Consumer("topic", value_deserializer=cents)
    for record in consumer:
        assert_type(record, Record[bytes, int])
    for batch in consumer.batches():
        assert_type(batch, ConsumerRecords[bytes, int])
    with sync.ShareConsumer("topic", group_id="group", value_deserializer=cents) as shared:
        for one in shared:
            assert_type(one, ShareRecord[bytes, int])
    with sync.TransactionalSession("in", group_id="group", value_deserializer=cents) as session:
        for results in session:
            assert_type(results, sync.SessionBatch[bytes, int, bytes, bytes])
            with results:
                assert_type(results.send("out", b"value"), RecordMetadata)
                assert_type(results[0].value, int | None)
"""

WRONG = """
from oncelog import INT64, STRING, Consumer, Producer, TransactionalSession, sync


async def program() -> None:
    producer = Producer("host:9092", linger=5)  # wrong
    await producer.send("topic", "text")  # wrong
    await producer.send("topic", b"value", keys=b"key")  # wrong
    texts = Producer("host:9092", key_serializer=STRING)
    await texts.send("topic", b"value", key=b"key")  # wrong
    await texts.transaction().send("topic", b"value", key=1)  # wrong
    for record in await Consumer("topic", value_deserializer=INT64).poll():
        print(record.value + 1)  # wrong
    async for batch in TransactionalSession("in", group_id="group", value_serializer=INT64):
        await batch.send("out", "1")  # wrong
        batch.send_soon("out", 1)  # wrong
    TransactionalSession("in", group_id="group", producer={"transactional_id": "id"})  # wrong


def blocking() -> None:
    sync.Admin("host:9092").create_topics("topic", exists_ok=True)  # wrong
    sync.Admin("host:9092", timeout=5)  # wrong
    sync.Producer("host:9092", value_serializer=INT64).send("topic", "1")  # wrong
"""


@CHECKERS
def test_keys_and_values_have_the_types_of_their_serializers(check: Check, tmp_path: Path) -> None:
    said = check(TYPED, tmp_path)
    assert re.search("no issues found|0 errors, 0 warnings", said), said


@CHECKERS
def test_each_mistake_is_found_and_nothing_else(check: Check, tmp_path: Path) -> None:
    said = check(WRONG, tmp_path)
    found = {int(line) for line in re.findall(r"program\.py:(\d+).*error", said)}
    assert found == {number for number, line in enumerate(WRONG.splitlines(), 1) if line.endswith("# wrong")}, said


@CHECKERS
def test_a_public_name_is_typed_and_a_misspelt_one_is_an_error(check: Check, tmp_path: Path) -> None:
    said = check("from oncelog import Prodcer, Producer\n\nreveal_type(Producer)\n", tmp_path)
    assert re.search(r"program\.py:1.*error.*Prodcer", said), said
    assert re.search(r"program\.py:3.*Producer\[", said), said


@CHECKERS
def test_the_hooks_of_the_page_fit_a_producer_of_bytes_and_one_of_objects(check: Check, tmp_path: Path) -> None:
    page = (Path(__file__).parents[1] / "docs" / "clients" / "client-objects.md").read_text(encoding="utf-8")
    hooks = page.split("## Hooks\n\n```python\n", 1)[1].split("async def main", 1)[0]
    said = check(f"{hooks}{HOOKED}", tmp_path)
    assert re.search("no issues found|0 errors, 0 warnings", said), said


HOOKED = """
from typing import assert_type
from oncelog import INT64, JSON, STRING

asyncio.timeout(1)
plain: Producer = Producer("host:9092", on_send=traced, on_acknowledgement=count)


def exact(record: ProducerRecord[str, int]) -> ProducerRecord[str, int]:
    return record


exactly = Producer("host:9092", key_serializer=STRING, value_serializer=INT64, on_send=exact)
assert_type(exactly, Producer[str, int])
Producer("host:9092", key_serializer=STRING, value_serializer=JSON, on_send=traced, on_acknowledgement=count)
"""
