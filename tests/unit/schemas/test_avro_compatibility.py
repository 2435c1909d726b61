"""Which Avro schemas can read each other, by our rules and by fastavro, which reads what was written."""

import io
import json
from typing import Any

import fastavro
import pytest

from oncelog.testing.avro_compatibility import NotAvro, can_read, parse
from tests.support.schemas.avro_pairs import NOT_READ, READ, field, record


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
