"""JSON Schema and Protobuf by a schema registry: what comes back, what is refused, what Confluent's make of it."""

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from oncelog.schemas import FormatError, Reference, Schema, SchemaDeserializer, SchemaRegistry, SchemaSerializer
from oncelog.schemas.format import Format, format_of
from tests.support.schemas.registered import FULL, JSON_ORDER, PROTO
from tests.support.schemas.registry import SmallRegistry, small_registry

pytest.importorskip("jsonschema")
pytest.importorskip("grpc_tools")

EMPTY = {
    **dict.fromkeys(FULL),
    "id": 0,
    "state": "NEW",
    "lines": [],
    "prices": {},
    "mark": b"",
    "huge": 0,
}


@pytest.fixture
def small() -> Iterator[SmallRegistry]:
    with small_registry() as found:
        yield found


def parsed(small: SmallRegistry, schema: Schema, message: str | None = None) -> Format:
    return format_of(SchemaRegistry(small.url), schema, message)


def test_an_object_of_json_comes_back_and_one_that_does_not_fit_is_refused(small: SmallRegistry) -> None:
    registry = SchemaRegistry(small.url)
    serializer = SchemaSerializer(registry, Schema(json.dumps(JSON_ORDER), "JSON"))
    value = {"id": 1, "cents": None, "tags": ["ü"], "prices": {"a": 1.5}, "any": [1, {}]}
    data = serializer.serialize("orders", [], value)
    assert SchemaDeserializer(registry).deserialize("orders", (), data) == value
    for wrong, sentence in (({}, "'id' is a required property"), ({"id": "x"}, r"\$.id: 'x' is not of type 'integer'")):
        with pytest.raises(FormatError, match=sentence):
            serializer.serialize("orders", [], wrong)
        with pytest.raises(FormatError, match=sentence):
            SchemaDeserializer(registry).deserialize("orders", (), data[:5] + json.dumps(wrong).encode())
    with pytest.raises(FormatError, match="no JSON"):
        SchemaDeserializer(registry).deserialize("orders", (), data[:-1])
    with pytest.raises(FormatError, match="no JSON Schema"):
        parsed(small, Schema('{"type": 7}', "JSON"))


def test_columns_of_json_have_the_types_of_their_schema_or_are_text(small: SmallRegistry) -> None:
    found = parsed(small, Schema(json.dumps(JSON_ORDER), "JSON"))
    kind = str(found.arrow_type())
    assert kind == "struct<id: int64, cents: int64, tags: list<item: string>, prices: map<string, double>, any: string>"
    value = {"id": 1, "prices": {"a": 2.0}, "any": [1]}
    column = {"id": 1, "cents": None, "tags": None, "prices": [("a", 2.0)], "any": "[1]"}
    assert found.to_column(value) == column


def test_a_schema_of_json_refers_to_others_and_not_to_itself_for_a_column(small: SmallRegistry) -> None:
    registry = SchemaRegistry(small.url)
    registry.register("money", Schema('{"type": "object", "properties": {"cents": {"type": "integer"}}}', "JSON"))
    text = {"type": "object", "properties": {"price": {"$ref": "money.json"}}}
    schema = Schema(json.dumps(text), "JSON", (Reference("money.json", "money", 1),))
    found = format_of(registry, schema)
    assert str(found.arrow_type()) == "struct<price: struct<cents: int64>>"
    with pytest.raises(FormatError, match="'x' is not of type 'integer'"):
        found.encode({"price": {"cents": "x"}})
    itself = {"properties": {"next": {"$ref": "#"}}, "type": "object"}
    with pytest.raises(FormatError, match="contains itself"):
        parsed(small, Schema(json.dumps(itself), "JSON")).arrow_type()
    with pytest.raises(FormatError, match="which is not known"):
        parsed(small, Schema(json.dumps(text), "JSON")).encode({"price": 1})


@pytest.mark.parametrize("value", [FULL, {}], ids=["full", "empty"])
def test_a_message_comes_back_as_a_dict(small: SmallRegistry, value: dict[str, Any]) -> None:
    """A field with presence that is not there becomes None; a field without presence becomes its default."""
    registry = SchemaRegistry(small.url)
    data = SchemaSerializer(registry, Schema(PROTO, "PROTOBUF")).serialize("orders", [], value)
    assert data[5:6] == b"\x00"
    assert SchemaDeserializer(registry).deserialize("orders", (), data) == (value or EMPTY)


def test_a_message_that_is_not_the_first_is_named_and_found_by_its_place(small: SmallRegistry) -> None:
    registry = SchemaRegistry(small.url)
    for name, value, place in (
        ("Other", {"order": {"id": 1}}, b"\x02\x02"),
        ("shop.Order.Line", {"sku": "x"}, b"\x04\x00\x00"),
    ):
        data = SchemaSerializer(registry, Schema(PROTO, "PROTOBUF"), message=name).serialize("orders", [], value)
        assert data[5:].startswith(place)
        found = SchemaDeserializer(registry).deserialize("orders", (), data)
        assert {key: found[key] for key in value}.keys() == value.keys()
    with pytest.raises(FormatError, match=r"no message 'Nothing'; there are shop.Order, shop.Order.Line, shop.Other"):
        parsed(small, Schema(PROTO, "PROTOBUF"), "Nothing")
    with pytest.raises(FormatError, match=r"no message at \(9,\)"):
        parsed(small, Schema(PROTO, "PROTOBUF")).decode(memoryview(b"\x02\x12"))


def test_a_later_message_is_read_by_the_fields_that_are_wanted(small: SmallRegistry) -> None:
    registry = SchemaRegistry(small.url)
    later = Schema(PROTO.replace("int64 id = 1;", "int64 id = 1; string note = 11;"), "PROTOBUF")
    data = SchemaSerializer(registry, later).serialize("orders", [], {"id": 1, "note": "x"})
    wanted = SchemaDeserializer(registry, Schema(PROTO, "PROTOBUF"))
    assert wanted.deserialize("orders", (), data) == {**EMPTY, "id": 1}
    old = SchemaSerializer(registry, Schema(PROTO, "PROTOBUF")).serialize("orders", [], {"id": 1})
    assert SchemaDeserializer(registry, later).deserialize("orders", (), old) == {**EMPTY, "id": 1, "note": ""}


def test_columns_of_a_message_have_the_types_of_its_fields(small: SmallRegistry) -> None:
    import pyarrow

    kind = parsed(small, Schema(PROTO, "PROTOBUF")).arrow_type()
    assert str(kind) == (
        "struct<id: int64, state: string, lines: list<item: struct<sku: string, count: int32>>, "
        "prices: map<string, double>, at: timestamp[us, tz=UTC], cents: int64, mark: binary, "
        "huge: decimal128(20, 0), card: string, cash: bool>"
    )
    (found,) = pyarrow.array([{**FULL, "prices": [("a", 1.5)]}], kind).to_pylist(maps_as_pydicts="strict")
    assert found == {**FULL, "huge": Decimal(2**64 - 1)}
    with pytest.raises(FormatError, match="contains itself"):
        parsed(small, Schema('syntax = "proto3"; message T { T next = 1; }', "PROTOBUF")).arrow_type()


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ({"nothing": 1}, "shop.Order has no field 'nothing'"),
        ({"id": "x"}, "'x' is no value of shop.Order.id"),
        ({"lines": [{"count": 2**40}]}, "no value of shop.Order"),
        (7, "a int is no shop.Order, and no dict"),
    ],
)
def test_what_is_no_message_is_refused(small: SmallRegistry, value: Any, sentence: str) -> None:
    with pytest.raises(FormatError, match=sentence):
        parsed(small, Schema(PROTO, "PROTOBUF")).encode(value)


@pytest.mark.parametrize("text", ["message X {", "bm90aGluZw", ""])
def test_what_is_no_schema_of_protobuf_is_refused(small: SmallRegistry, text: str) -> None:
    with pytest.raises(FormatError, match=r"no schema of Protobuf|has no message"):
        parsed(small, Schema(text, "PROTOBUF"))


def test_a_schema_cannot_write_outside_of_the_directory_in_which_it_is_compiled(small: SmallRegistry) -> None:
    registry = SchemaRegistry(small.url)
    registry.register("evil", Schema('syntax = "proto3";', "PROTOBUF"))
    schema = Schema(PROTO, "PROTOBUF", (Reference("../evil.proto", "evil", 1),))
    with pytest.raises(FormatError, match="no path below its own"):
        format_of(registry, schema)


def test_confluents_own_serializers_write_messages_that_are_read_here_and_read_ours(small: SmallRegistry) -> None:
    """Its client for Python registers the descriptor of the file, in base64."""
    confluent = pytest.importorskip("confluent_kafka.schema_registry")
    protobuf = pytest.importorskip("confluent_kafka.schema_registry.protobuf")
    where = pytest.importorskip("confluent_kafka.serialization").SerializationContext("orders", "value")
    client = confluent.SchemaRegistryClient({"url": small.url})
    registry = SchemaRegistry(small.url)
    ours = parsed(small, Schema(PROTO, "PROTOBUF"))
    message = ours._class_of(ours._descriptor)(id=7, mark=b"x")  # type: ignore[attr-defined]
    theirs = protobuf.ProtobufSerializer(type(message), client)(message, where)
    assert SchemaDeserializer(registry).deserialize("orders", (), theirs) == {**EMPTY, "id": 7, "mark": b"x"}
    data = SchemaSerializer(registry, registry.version("orders-value").schema).serialize("orders", [], message)
    assert data == theirs
    assert protobuf.ProtobufDeserializer(type(message), {"use.deprecated.format": False})(data, where) == message


def test_confluents_own_serializers_write_the_same_json_and_read_ours(small: SmallRegistry) -> None:
    confluent = pytest.importorskip("confluent_kafka.schema_registry")
    theirs = pytest.importorskip("confluent_kafka.schema_registry.json_schema")
    where = pytest.importorskip("confluent_kafka.serialization").SerializationContext("orders", "value")
    client = confluent.SchemaRegistryClient({"url": small.url})
    registry = SchemaRegistry(small.url)
    text = json.dumps(JSON_ORDER)
    data = theirs.JSONSerializer(text, client)({"id": 1}, where)
    assert SchemaDeserializer(registry).deserialize("orders", (), data) == {"id": 1}
    ours = SchemaSerializer(registry, registry.version("orders-value").schema).serialize("orders", [], {"id": 1})
    assert (ours[:5], json.loads(ours[5:])) == (data[:5], json.loads(data[5:]))
    assert theirs.JSONDeserializer(text)(ours, where) == {"id": 1}
