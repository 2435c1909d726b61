"""Pairs of Avro schemas, a reader's and a writer's, with something that was written: what can be read and what cannot.

Owns: the pairs. Does not own: who says so (our rules, fastavro, Apicurio's registry).
"""

from typing import Any


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
