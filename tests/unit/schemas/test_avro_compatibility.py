"""Which Avro schemas can read each other, by our rules and by fastavro, which reads what was written."""

import io
import json
from typing import Any

import fastavro
import pytest

from oncelog.testing.avro_compatibility import NotAvro, can_read, parse


def record(*fields: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": "Order", "fields": [*fields], **more}


def field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def enum(*symbols: str, **more: Any) -> dict[str, Any]:
    return {"type": "enum", "name": "State", "symbols": [*symbols], **more}


ID = field("id", "long")
TREE = record(ID, field("next", ["null", "Order"], default=None))
READ: dict[str, tuple[Any, Any, Any]] = {
    "the same": (record(ID), record(ID), {"id": 1}),
    "a new field with a default": (record(ID, field("n", "int", default=1)), record(ID), {"id": 1}),
    "a field that is gone": (record(ID), record(ID, field("n", "int")), {"id": 1, "n": 2}),
    "a field by its alias": (record(field("number", "long", aliases=["id"])), record(ID), {"id": 1}),
    "a longer number": (record(field("id", "double")), record(ID), {"id": 1}),
    "a union around": (record(field("id", ["null", "long"])), record(ID), {"id": 1}),
    "a branch more": (["null", "int", "string"], ["null", "string"], "a"),
    "a logical type": ({"type": "long", "logicalType": "timestamp-millis"}, "long", 1),
    "a longer number in a list": ({"type": "array", "items": "long"}, {"type": "array", "items": "int"}, [1]),
    "a symbol more": (enum("NEW", "PAID", "SENT"), enum("NEW", "PAID"), "PAID"),
    "a symbol less and a default": (enum("NEW", default="NEW"), enum("NEW", "PAID"), "PAID"),
    "a schema inside itself": (TREE, TREE, {"id": 1, "next": {"id": 2, "next": None}}),
    "another namespace": (record(ID, namespace="b"), record(ID, namespace="a"), {"id": 1}),
}
NOT_READ: dict[str, tuple[Any, Any, Any, str]] = {
    "a new field": (record(ID, field("n", "int")), record(ID), {"id": 1}, "n is new and has no default"),
    "a shorter number": (record(field("id", "int")), record(ID), {"id": 1}, "id is int, and was long"),
    "another type": (record(field("id", "string")), record(ID), {"id": 1}, "id is string, and was long"),
    "a branch less": (["null", "int"], ["null", "string"], "a", "the schema has no branch for string"),
    "no union": ("string", ["null", "string"], None, "the schema is string, and was null"),
    "a symbol less": (enum("NEW"), enum("NEW", "PAID"), "PAID", "the schema lacks the symbols PAID"),
    "another list": (
        {"type": "array", "items": "int"},
        {"type": "array", "items": "string"},
        ["a"],
        "items is int, and was string",
    ),
    "another size": (
        {"type": "fixed", "name": "F", "size": 2},
        {"type": "fixed", "name": "F", "size": 3},
        b"abc",
        "the schema has 2 bytes, and had 3",
    ),
    "inside a record inside": (
        record(field("in", {"type": "record", "name": "In", "fields": [field("n", "int")]})),
        record(field("in", {"type": "record", "name": "In", "fields": []})),
        {"in": {}},
        "in.n is new and has no default",
    ),
}


def ours(reader: Any, writer: Any) -> list[str]:
    return can_read(parse(json.dumps(reader), ()), parse(json.dumps(writer), ()))


def read_by_fastavro(reader: Any, writer: Any, datum: Any) -> Any:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(writer), datum)
    return fastavro.schemaless_reader(
        io.BytesIO(out.getvalue()), fastavro.parse_schema(writer), fastavro.parse_schema(reader)
    )


@pytest.mark.parametrize("case", READ)
def test_what_can_be_read_has_no_conflict(case: str) -> None:
    reader, writer, datum = READ[case]
    read_by_fastavro(reader, writer, datum)
    assert ours(reader, writer) == []


@pytest.mark.parametrize("case", NOT_READ)
def test_what_cannot_be_read_says_what_is_in_the_way(case: str) -> None:
    reader, writer, datum, reason = NOT_READ[case]
    with pytest.raises((fastavro.read.SchemaResolutionError, EOFError, ValueError)):
        read_by_fastavro(reader, writer, datum)
    assert ours(reader, writer) == [reason]


def test_a_schema_may_use_another_one_by_both_of_its_names() -> None:
    money = {"type": "record", "name": "Money", "namespace": "shop", "fields": [field("cents", "long")]}
    for name in ("Money", "shop.Money"):
        parsed = parse(json.dumps(record(field("price", name), namespace="shop")), [json.dumps(money)])
        assert can_read(parsed, parsed) == []


@pytest.mark.parametrize(
    "text",
    [
        *("{", "3", '"Unknown"', '{"type": "record", "name": "R"}', '{"type": "enum", "name": "E"}', "{}"),
        *('{"type": "fixed", "name": "F"}', '{"type": "array"}', '{"type": "record", "name": "R", "fields": [{}]}'),
    ],
)
def test_what_is_no_schema_is_refused(text: str) -> None:
    with pytest.raises(NotAvro):
        parse(text, ())
