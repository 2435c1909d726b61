"""Columns by a schema registry: each record by the schema that it names, as the type that was planned."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from oncelog.pipeline.schemas import from_registry, to_registry
from oncelog.schemas import FormatError, Schema, SchemaDeserializer, SchemaNotFound, SchemaRegistry, SchemaSerializer
from tests.support.schemas.registry import SmallRegistry, small_registry
from tests.test_guarantees_page import ROOT

pytestmark = pytest.mark.spark
pytest.importorskip("fastavro")
ID = {"name": "id", "type": "long"}


def record(*fields: dict[str, Any]) -> str:
    return json.dumps({"type": "record", "name": "Order", "fields": list(fields)})


OLD = record(ID, {"name": "cents", "type": ["null", "int"], "default": None})
NEW = record(ID, {"name": "cents", "type": ["null", "int"]}, {"name": "state", "type": "string", "default": "new"})
EVERY = record(
    *(
        {"name": name, "type": kind}
        for name, kind in {
            "small": "int",
            "large": "long",
            "third": "double",
            "even": "boolean",
            "text": ["null", "string"],
            "bytes": "bytes",
            "day": {"type": "int", "logicalType": "date"},
            "at": {"type": "long", "logicalType": "timestamp-micros"},
            "local": {"type": "long", "logicalType": "local-timestamp-micros"},
            "money": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2},
            "nested": {
                "type": "array",
                "items": {"type": "record", "name": "Line", "fields": [{"name": "a", "type": ["null", "long"]}]},
            },
            "pairs": {"type": "map", "values": "long"},
        }.items()
    )
)


@pytest.fixture
def small() -> Iterator[SmallRegistry]:
    with small_registry() as found:
        yield found


def binary(spark: Any, values: list[bytes | None]) -> Any:
    return spark.createDataFrame([(each,) for each in values], "value binary")


def test_records_of_two_versions_are_read_as_the_one_that_was_planned(spark: Any, small: SmallRegistry) -> None:
    """Null stays null; tasks ask once for each schema."""
    registry = SchemaRegistry(small.url)
    old = SchemaSerializer(registry, OLD).serialize("orders", [], {"id": 1, "cents": None})
    new = SchemaSerializer(registry, NEW).serialize("orders", [], {"id": 2, "cents": 5, "state": "paid"})
    rows = binary(spark, [old, None, new] * 50).coalesce(1)
    found = rows.select(from_registry("value", registry, subject="orders-value").alias("order"))
    assert found.schema["order"].dataType.simpleString() == "struct<id:bigint,cents:int,state:string>"
    small.requests.clear()
    orders = [row.order and row.order.asDict() for row in found.collect()]
    assert orders[:3] == [{"id": 1, "cents": None, "state": "new"}, None, {"id": 2, "cents": 5, "state": "paid"}]
    assert sorted(small.requests) == ["GET /schemas/ids/1", "GET /schemas/ids/2"]
    first = rows.select(from_registry("value", registry, subject="orders-value", version=1).alias("order"))
    assert first.select("order.*").columns == ["id", "cents"]


def test_a_bad_record_fails_the_query_or_is_null_and_a_registry_that_is_away_always_fails_it(
    spark: Any, small: SmallRegistry
) -> None:
    registry = SchemaRegistry(small.url, timeout_s=5.0)
    good = SchemaSerializer(registry, OLD).serialize("orders", [], {"id": 1})
    rows = binary(spark, [good, b'{"id": 1}', b"\x00\x00\x00\x00\x63", good[:-1]])
    reading = {"registry": registry, "subject": "orders-value"}
    with pytest.raises(Exception, match="no serializer of a registry wrote this"):
        rows.where("value = cast('{\"id\": 1}' as binary)").select(from_registry("value", **reading)).collect()
    permissive = from_registry("value", **reading, mode="PERMISSIVE").alias("order")
    assert [row.order and row.order.id for row in rows.select(permissive).collect()] == [1, None, None, None]
    unknown = SchemaSerializer(registry, NEW).serialize("orders", [], {"id": 1, "cents": 1, "state": "x"})
    small.failures = 1000
    with pytest.raises(Exception, match="not now"):
        binary(spark, [unknown]).select(permissive).collect()


def test_what_is_written_is_read_again_with_the_types_that_spark_has(spark: Any, small: SmallRegistry) -> None:
    registry = SchemaRegistry(small.url)
    rows = spark.sql(
        """select cast(id as int) as small, id as large, id / 3 as third, id % 2 = 0 as even,
        if(id % 3 = 0, null, 'text') as text, cast(cast(id as string) as binary) as bytes,
        date_add(date '2026-01-01', cast(id as int)) as day, timestamp_seconds(id) as at,
        cast(timestamp_seconds(id) as timestamp_ntz) as local, cast(id as decimal(12, 2)) as money,
        array(named_struct('a', id), named_struct('a', cast(null as bigint))) as nested, map('k', id) as pairs
        from range(20)"""
    )
    with pytest.raises(SchemaNotFound, match="subject 'every-value'"):
        to_registry("value", registry, subject="every-value", schema=EVERY)
    from pyspark.sql.functions import struct

    written = rows.select(
        to_registry(struct("*"), registry, subject="every-value", schema=EVERY, register=True).alias("value")
    )
    read = written.select(from_registry("value", registry, subject="every-value").alias("it")).select("it.*")
    assert [each.dataType.simpleString() for each in read.schema] == [each[1] for each in rows.dtypes]
    assert sorted(read.collect(), key=str) == sorted(rows.collect(), key=str)
    again = rows.select(to_registry(struct("*"), registry, subject="every-value").alias("value"))
    assert [row.value for row in again.collect()] == [row.value for row in written.collect()]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('["int", "string"]', "a union of 2 types has no column"),
        ('{"type": "record", "name": "T", "fields": [{"name": "n", "type": ["null", "T"]}]}', "T contains itself"),
    ],
)
def test_a_schema_that_no_column_can_have_is_refused_when_the_query_is_planned(
    small: SmallRegistry, text: str, sentence: str
) -> None:
    with pytest.raises(FormatError, match=sentence):
        from_registry("value", SchemaRegistry(small.url), schema=Schema(text))
    with pytest.raises(ValueError, match="subject or schema"):
        from_registry("value", SchemaRegistry(small.url))


PROTO = """syntax = "proto3";
import "google/protobuf/timestamp.proto";
message Order {
  int64 id = 1;
  repeated string tags = 2;
  map<string, int64> counts = 3;
  google.protobuf.Timestamp at = 4;
  Line line = 5;
  message Line { string sku = 1; }
}
"""
JSON = json.dumps(
    {
        "type": "object",
        "properties": {
            "id": {"type": "integer"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
            "line": {"type": "object", "properties": {"sku": {"type": "string"}}},
        },
    }
)


@pytest.mark.parametrize(
    ("schema", "at"), [(Schema(PROTO, "PROTOBUF"), ", timestamp_seconds(id) as at"), (Schema(JSON, "JSON"), "")]
)
def test_protobuf_and_json_schema_are_columns_too(spark: Any, small: SmallRegistry, schema: Schema, at: str) -> None:
    pytest.importorskip("grpc_tools")
    from pyspark.sql.functions import struct

    registry = SchemaRegistry(small.url)
    rows = spark.sql(
        f"""select id, array(cast(id as string)) as tags, map('k', id) as counts{at},
        named_struct('sku', 'x') as line from range(20)"""
    )
    value = to_registry(struct("*"), registry, subject="it", schema=schema, register=True)
    read = rows.select(value.alias("value")).select(from_registry("value", registry, subject="it").alias("it"))
    assert sorted(read.select("it.*").collect(), key=str) == sorted(rows.collect(), key=str)


def test_the_program_of_the_page_runs(spark: Any, small: SmallRegistry) -> None:
    page = (ROOT / "docs" / "spark" / "spark-schemas.md").read_text(encoding="utf-8")
    (program,) = re.findall("```python\n(.*?)```", page, re.DOTALL)
    registry = SchemaRegistry(small.url)
    registry.register("totals-value", Schema(OLD))
    values: list[dict[str, object]] = [{"id": 1, "cents": 5}, {"id": 2, "cents": None}]
    names = {
        "purchases": binary(spark, [SchemaSerializer(registry, OLD).serialize("purchases", [], it) for it in values])
    }
    exec(program.replace("http://localhost:8081", small.url), names)
    read = SchemaDeserializer(registry)
    assert [read.deserialize("totals", (), bytes(row.value)) for row in names["values"].collect()] == values
