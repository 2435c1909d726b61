"""Schemas that several tests register: an order in Avro, JSON Schema and Protobuf."""

import datetime
import json
from typing import Any


def record(*fields: dict[str, Any]) -> str:
    """Returns a record of Avro."""
    return json.dumps({"type": "record", "name": "Order", "fields": list(fields)})


ID = {"name": "id", "type": "long"}
ORDER = record(ID, {"name": "cents", "type": ["null", "int"], "default": None})
LATER = record(ID, {"name": "cents", "type": ["null", "int"]}, {"name": "state", "type": "string", "default": "new"})

JSON_ORDER = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Order",
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "cents": {"type": ["integer", "null"]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "prices": {"type": "object", "additionalProperties": {"type": "number"}},
        "any": {},
    },
    "required": ["id"],
}
PROTO = """syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
message Order {
  enum State { NEW = 0; PAID = 1; }
  message Line { string sku = 1; optional int32 count = 2; }
  int64 id = 1;
  State state = 2;
  repeated Line lines = 3;
  map<string, double> prices = 4;
  google.protobuf.Timestamp at = 5;
  google.protobuf.Int64Value cents = 6;
  bytes mark = 7;
  uint64 huge = 8;
  oneof by { string card = 9; bool cash = 10; }
}
message Other { Order order = 1; }
"""
FULL = {
    "id": 7,
    "state": "PAID",
    "lines": [{"sku": "a", "count": None}, {"sku": "b", "count": 0}],
    "prices": {"a": 1.5},
    "at": datetime.datetime(2026, 11, 27, 1, 2, 3, 4, datetime.UTC),
    "cents": 0,
    "mark": b"\x00\xff",
    "huge": 2**64 - 1,
    "card": None,
    "cash": False,
}
