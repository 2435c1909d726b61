"""Messages as the JSON that Apache Kafka's JsonConverter prints of them, to compare field by field."""

import base64
from typing import Any

from oncelog.protocol.schema import ArrayOf, Field, Structure, attribute
from oncelog.protocol.types import Primitive, Variable

_OUR_TAGS = 1_000
"""The first of our own tags: Kafka keeps their bytes and does not know what they mean."""


def as_json(message: Any, structure: Structure, version: int) -> dict[str, Any]:
    """The message as Kafka's JsonConverter prints it."""
    values = {}
    for field in structure.fields:
        if field.in_version(version) and (field.tag or 0) < _OUR_TAGS:
            value = getattr(message, attribute(field.name))
            if field.is_tagged(version) and _is_left_out(message, field, value):
                continue
            values[field.name] = _json_value(field.type, value, version)
    return values


def _is_left_out(message: Any, field: Field, value: Any) -> bool:
    default = getattr(type(message)(), attribute(field.name))
    return bool(value == default or (value == [] and default == ()))


def _json_value(kind: Any, value: Any, version: int) -> Any:
    match kind:
        case _ if value is None:
            return None
        case Structure():
            return as_json(value, kind, version)
        case ArrayOf():
            return [_json_value(kind.element, item, version) for item in value]
        case Primitive(name="uuid"):
            return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")
        case Variable(name="bytes"):
            return base64.b64encode(value).decode()
        case Variable(name="records"):
            return ""  # not printed; the bytes are compared
    return value


def renamed(printed: Any, structure: Structure, version: int) -> dict[str, Any]:
    """Renames the fields of what Kafka printed to our names; Kafka's are the same in camel case."""
    fields = {field.name.replace("_", ""): field for field in structure.fields}
    values = {}
    for name, value in printed.items():
        field = fields[name.removesuffix("SizeInBytes").lower()]
        kind = field.type.element if isinstance(field.type, ArrayOf) else field.type
        if isinstance(kind, Structure) and value is not None:
            many = isinstance(field.type, ArrayOf)
            value = [renamed(item, kind, version) for item in value] if many else renamed(value, kind, version)
        values[field.name] = value
    return values
