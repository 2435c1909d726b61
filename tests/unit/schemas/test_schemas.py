"""Serializers by a schema registry: what they ask, what they write, and what of others they read."""

import datetime
import json
import pickle
import re
import sys
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.installing import how_to_install
from oncelog.schemas import (
    FormatError,
    NotFramed,
    Reference,
    RegistryError,
    Schema,
    SchemaDeserializer,
    SchemaNotFound,
    SchemaRegistry,
    SchemaSerializer,
)
from oncelog.schemas.format import format_of
from oncelog.schemas.framing import framed, message_indexes, read_message_indexes, unframed
from tests.support.schemas.registered import ID, LATER, ORDER, record
from tests.support.schemas.registry import SmallRegistry, small_registry

pytest.importorskip("fastavro")


@pytest.fixture
def small() -> Iterator[SmallRegistry]:
    with small_registry() as found:
        yield found


def test_a_value_comes_back_and_the_registry_is_asked_once_for_each_schema(small: SmallRegistry) -> None:
    registry = SchemaRegistry(small.url)
    serializer, deserializer = SchemaSerializer(registry, ORDER), SchemaDeserializer(SchemaRegistry(small.url))
    for number in range(5):
        data = serializer.serialize("orders", [], {"id": number, "cents": None})
        assert deserializer.deserialize("orders", (), data) == {"id": number, "cents": None}
    assert small.requests == ["POST /subjects/orders-value/versions", "GET /schemas/ids/1"]
    SchemaSerializer(registry, '"long"', is_key=True).serialize("orders", [], 7)
    SchemaSerializer(registry, '"long"', subject="a/b").serialize("orders", [], 7)
    assert small.requests[2:] == ["POST /subjects/orders-key/versions", "POST /subjects/a%2Fb/versions"]


def test_an_older_record_is_read_as_the_schema_that_is_wanted(small: SmallRegistry) -> None:
    registry = SchemaRegistry(small.url)
    old = SchemaSerializer(registry, ORDER).serialize("orders", [], {"id": 1, "cents": 2})
    new = SchemaSerializer(registry, LATER).serialize("orders", [], {"id": 1, "cents": 2, "state": "paid"})
    wanted = SchemaDeserializer(registry, LATER)
    assert wanted.deserialize("orders", (), old) == {"id": 1, "cents": 2, "state": "new"}
    assert SchemaDeserializer(registry, ORDER).deserialize("orders", (), new) == {"id": 1, "cents": 2}
    assert registry.version("orders-value").version == 2
    assert registry.version("orders-value", 1).schema == Schema(ORDER)


def test_a_schema_is_read_with_those_that_it_refers_to(small: SmallRegistry) -> None:
    registry = SchemaRegistry(small.url)
    registry.register(
        "money", Schema('{"type": "record", "name": "Money", "fields": [{"name": "cents", "type": "long"}]}')
    )
    line = {"type": "record", "name": "Line", "fields": [{"name": "price", "type": "Money"}]}
    registry.register("line", Schema(json.dumps(line), references=(Reference("Money", "money", 1),)))
    text = record({"name": "lines", "type": {"type": "array", "items": "Line"}})
    schema = Schema(text, references=(Reference("Line", "line", 1),))
    value = {"lines": [{"price": {"cents": 5}}]}
    data = SchemaSerializer(registry, schema).serialize("orders", [], value)
    assert SchemaDeserializer(SchemaRegistry(small.url)).deserialize("orders", (), data) == value


@pytest.mark.parametrize(
    ("data", "error", "sentence"),
    [
        (b"", NotFramed, "0 bytes do not name a schema"),
        (b"{}...", NotFramed, "first byte is 0x7b"),
        (framed(9, b""), SchemaNotFound, "schema 9: Schema not found"),
        (framed(1, b""), FormatError, "no value of their schema"),
        (framed(1, b"\x02\x00\x00"), FormatError, "1 bytes are left"),
    ],
)
def test_bytes_that_are_no_record_of_a_schema_are_recognised(
    small: SmallRegistry, data: bytes, error: type[Exception], sentence: str
) -> None:
    registry = SchemaRegistry(small.url)
    registry.register("orders-value", Schema(ORDER))
    with pytest.raises(error, match=sentence):
        SchemaDeserializer(registry).deserialize("orders", (), data)


def test_what_does_not_fit_is_refused_before_a_byte_is_written(small: SmallRegistry) -> None:
    registry = SchemaRegistry(small.url)
    serializer = SchemaSerializer(registry, ORDER)
    for value in ({"id": "text"}, {"id": 1, "unknown": 2}, {"cents": 1}, 7):
        with pytest.raises(FormatError, match="does not fit its schema"):
            serializer.serialize("orders", [], value)
    with pytest.raises(FormatError, match="no schema of Avro"):
        SchemaSerializer(registry, '{"type": "recrod"}').serialize("orders", [], 1)


def test_what_the_registry_refuses_is_a_sentence_and_nothing_is_registered_unasked(small: SmallRegistry) -> None:
    registry = SchemaRegistry(small.url)
    with pytest.raises(SchemaNotFound, match="subject 'orders-value': Subject 'orders-value' not found"):
        SchemaSerializer(registry, ORDER, register=False).serialize("orders", [], {"id": 1})
    registry.register("orders-value", Schema(ORDER))
    small.refuses = True
    with pytest.raises(RegistryError, match="incompatible with an earlier schema") as refused:
        registry.register("orders-value", Schema(LATER))
    assert refused.value.code == 409
    small.login = "ann:secret"
    with pytest.raises(RegistryError, match="who are you"):
        SchemaRegistry(small.url).schema(1)
    assert SchemaRegistry(small.url, "ann", "secret").schema(1).text == ORDER


def test_a_registry_that_fails_for_a_moment_is_asked_again_and_one_that_is_away_is_named(small: SmallRegistry) -> None:
    small.failures = 2
    assert SchemaRegistry(small.url).register("s", Schema('"int"')) == 1
    with pytest.raises(RegistryError, match=r"http://127.0.0.1:1 does not answer for schema 1"):
        SchemaRegistry("http://127.0.0.1:1", timeout_s=0.0).schema(1)
    for url, sentence in (("localhost:8081", "no address"), ("http://ann:secret@here", "pass it as username=")):
        with pytest.raises(ValueError, match=sentence):
            SchemaRegistry(url)


def test_no_secret_is_shown_and_a_copy_asks_for_itself(small: SmallRegistry) -> None:
    registry = SchemaRegistry(small.url, "ann", "a-secret", token="a-token")
    registry.register("s", Schema('"int"'))
    assert "secret" not in repr(registry) and "a-token" not in repr(registry)
    copy = pickle.loads(pickle.dumps(registry))
    assert copy == registry
    assert copy.schema(1) == Schema('"int"')
    assert small.requests[-1] == "GET /schemas/ids/1"


async def test_a_serializer_that_is_prepared_asks_nothing_in_the_event_loop(small: SmallRegistry) -> None:
    serializer = SchemaSerializer(SchemaRegistry(small.url), ORDER)
    await serializer.prepare("orders", "others")
    asked = len(small.requests)
    serializer.serialize("orders", [], {"id": 1})
    serializer.serialize("others", [], {"id": 1})
    assert len(small.requests) == asked == 2


@given(st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=5).map(tuple), st.binary(max_size=9))
def test_the_place_of_a_message_comes_back(path: tuple[int, ...], rest: bytes) -> None:
    found, left = read_message_indexes(memoryview(message_indexes(path) + rest))
    assert (found, bytes(left)) == (path, rest)


@given(st.binary(max_size=12))
def test_any_bytes_are_framed_or_refused(data: bytes) -> None:
    try:
        schema_id, content = unframed(data)
    except NotFramed:
        assert len(data) < 5 or data[0]
    else:
        assert framed(schema_id, bytes(content)) == data


LOGICAL = [
    ({"type": "int", "logicalType": "date"}, datetime.date(2026, 11, 27)),
    ({"type": "long", "logicalType": "timestamp-micros"}, datetime.datetime(2026, 11, 27, 1, 2, 3, 4, datetime.UTC)),
    ({"type": "long", "logicalType": "local-timestamp-millis"}, datetime.datetime(2026, 11, 27, 1, 2, 3)),
    ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, Decimal("-12.34")),
    ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B"),
    ({"type": "map", "values": ["null", "double"]}, {"a": 1.5, "b": None}),
]


@pytest.mark.parametrize(("kind", "value"), LOGICAL, ids=lambda each: str(each)[:40])
def test_confluents_own_serializers_write_the_same_bytes_and_read_ours(
    small: SmallRegistry, kind: dict[str, Any], value: Any
) -> None:
    confluent = pytest.importorskip("confluent_kafka.schema_registry")
    avro = pytest.importorskip("confluent_kafka.schema_registry.avro")
    text = record(ID, {"name": "it", "type": kind})
    client = confluent.SchemaRegistryClient({"url": small.url})
    where = pytest.importorskip("confluent_kafka.serialization").SerializationContext("orders", "value")
    theirs = avro.AvroSerializer(client, text)({"id": 1, "it": value}, where)
    registry = SchemaRegistry(small.url)
    ours = SchemaSerializer(registry, registry.version("orders-value").schema)
    assert ours.serialize("orders", [], {"id": 1, "it": value}) == theirs
    assert SchemaDeserializer(registry).deserialize("orders", (), theirs) == {"id": 1, "it": value}
    assert avro.AvroDeserializer(client)(theirs, where) == {"id": 1, "it": value}


def test_without_the_extra_the_error_says_what_to_install(
    small: SmallRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "oncelog.schemas.avro", raising=False)
    monkeypatch.setitem(sys.modules, "fastavro", None)
    with pytest.raises(
        ImportError, match=re.escape(f"AVRO needs fastavro: {how_to_install('schemas')}, on executors too")
    ):
        format_of(SchemaRegistry(small.url), Schema(ORDER))
