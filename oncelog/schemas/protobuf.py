"""Protobuf: messages by a schema's text, and the columns that a message is in Arrow.

Owns: compiling the text, the place of a message before its bytes, values as dicts, the types. Does not own: where
schemas come from (`registry`), and the id (`framing`). Needs protobuf and grpcio-tools, which has the compiler (the
extra `schemas`).

A value is a dict by the names of fields: what a field with presence lacks is None, an enum is its name, a Timestamp a
datetime, a wrapper its value. An unsigned 32-bit number is a long, one of 64 bits a decimal of 20 digits.
"""

import base64
import datetime
import tempfile
from binascii import Error
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from grpc_tools import protoc

from oncelog.schemas.format import FormatError
from oncelog.schemas.framing import message_indexes, read_message_indexes

_FILE = "schema.proto"
_TIMESTAMP = "google.protobuf.Timestamp"
_WRAPPERS = "google.protobuf."
_ARROW = {
    "INT32": "int32",
    "SINT32": "int32",
    "SFIXED32": "int32",
    "INT64": "int64",
    "SINT64": "int64",
    "SFIXED64": "int64",
    "UINT32": "int64",
    "FIXED32": "int64",
    "FLOAT": "float32",
    "DOUBLE": "float64",
    "BOOL": "bool_",
    "STRING": "string",
    "ENUM": "string",
    "BYTES": "binary",
}
"""The name of Arrow's type by that of a field."""


class ProtobufSchema:
    """A file of messages, with those that it imports; `message` is the name of the one that is written and read, by
    default the first. Raises FormatError."""

    def __init__(self, text: str, referenced: Sequence[tuple[str, str]] = (), message: str | None = None) -> None:
        pool = DescriptorPool()
        for file in _compiled(text, referenced):
            pool.Add(file)
        self._messages = pool.FindFileByName(_FILE).message_types_by_name
        if not self._messages:
            raise FormatError(f"the schema has no message: {text[:200]}")
        package = pool.FindFileByName(_FILE).package
        self._by_path = dict(_paths([*self._messages.values()], ()))
        names = {each.full_name: path for path, each in self._by_path.items() if not each.GetOptions().map_entry}
        wanted = message or self._by_path[(0,)].full_name
        path = names.get(wanted, names.get(f"{package}.{wanted}"))
        if path is None:
            raise FormatError(f"the schema has no message {wanted!r}; there are {', '.join(sorted(names))}")
        self._path = path
        self._descriptor = self._by_path[path]
        self._class_of = message_factory.GetMessageClass

    def encode(self, value: Any) -> bytes:
        """Return the bytes of a dict, or of a message of a generated class. Raises FormatError."""
        if isinstance(value, Mapping):
            message = self._class_of(self._descriptor)()
            _fill(message, value)
            value = message
        elif getattr(getattr(value, "DESCRIPTOR", None), "full_name", None) != self._descriptor.full_name:
            raise FormatError(f"a {type(value).__name__} is no {self._descriptor.full_name}, and no dict")
        content: bytes = value.SerializeToString(deterministic=True)
        return message_indexes(self._path) + content

    def decode(self, content: memoryview, reader: "ProtobufSchema | None" = None) -> Any:
        """Return the dict of these bytes, by the fields of a schema of the reader: Protobuf knows a field by its
        number. Raises FormatError."""
        path, rest = read_message_indexes(content)
        written = self._by_path.get(path)
        if written is None:
            raise FormatError(f"the schema has no message at {path}")
        descriptor = written if reader is None else reader._descriptor
        message = self._class_of(descriptor)()
        try:
            message.ParseFromString(bytes(rest))
        except DecodeError as error:
            raise FormatError(f"the bytes are no {descriptor.full_name}: {error}") from error
        return _value(message)

    def arrow_type(self) -> Any:
        """Return the type of its values in pyarrow. Raises FormatError."""
        return _struct(self._descriptor, ())

    def to_column(self, value: Any) -> Any:
        """Return the value: what `decode` returns is what the column takes."""
        return value


def _compiled(text: str, referenced: Sequence[tuple[str, str]]) -> list[Any]:
    """Return the files of a schema, first those that it imports. Registries have text, or the file's descriptor in
    base64, as Confluent's client for Python writes it."""
    if "message" not in text:
        try:
            file = FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
        except (Error, ValueError, DecodeError) as error:
            raise FormatError(f"no schema of Protobuf: {error}: {text[:200]}") from error
        file.name = _FILE
        return [*_imported(file.dependency), file]
    with tempfile.TemporaryDirectory() as directory:
        for name, each in [*referenced, (_FILE, text)]:
            path = Path(directory, name)
            if not path.resolve().is_relative_to(Path(directory).resolve()):
                raise FormatError(f"a schema refers to {name!r}, which is no path below its own")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(each, encoding="utf-8")
        out = Path(directory, "descriptors")
        known = Path(protoc.__file__).parent / "_proto"
        arguments = [
            "protoc",
            f"-I{directory}",
            f"-I{known}",
            "--include_imports",
            f"--descriptor_set_out={out}",
            _FILE,
        ]
        if protoc.main(arguments) or not out.exists():
            raise FormatError(f"no schema of Protobuf, as the compiler has said: {text[:200]}")
        return [*FileDescriptorSet.FromString(out.read_bytes()).file]


def _imported(names: Sequence[str]) -> list[Any]:
    """Return files of Google's own that a descriptor in base64 imports. Raises FormatError for others."""
    found = []
    for name in names:
        try:
            __import__(name.removesuffix(".proto").replace("/", ".") + "_pb2")
            file = FileDescriptorProto()
            descriptor_pool.Default().FindFileByName(name).CopyToProto(file)
        except (ImportError, KeyError) as error:
            raise FormatError(f"the schema imports {name!r}, which is not known: {error}") from error
        found.append(file)
    return found


def _paths(descriptors: Sequence[Any], before: tuple[int, ...]) -> Sequence[tuple[tuple[int, ...], Any]]:
    found: list[tuple[tuple[int, ...], Any]] = []
    for index, each in enumerate(descriptors):
        found.append(((*before, index), each))
        found += _paths([*each.nested_types], (*before, index))
    return found


def _is_map(field: Any) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


def _is_wrapper(descriptor: Any) -> bool:
    name: str = descriptor.full_name
    return (
        name.startswith(_WRAPPERS) and name.endswith("Value") and [each.name for each in descriptor.fields] == ["value"]
    )


# --- values -----------------------------------------------------------------------------------------------------------


def _value(message: Any) -> Any:
    descriptor = message.DESCRIPTOR
    if descriptor.full_name == _TIMESTAMP:
        return message.ToDatetime(datetime.UTC)
    if _is_wrapper(descriptor):
        return message.value
    return {field.name: _of_field(message, field) for field in descriptor.fields}


def _of_field(message: Any, field: Any) -> Any:
    found = getattr(message, field.name)
    if _is_map(field):
        inside = field.message_type.fields_by_name["value"]
        return {key: _single(found[key], inside) for key in sorted(found)}
    if field.is_repeated:
        return [_single(each, field) for each in found]
    if field.has_presence and not message.HasField(field.name):
        return None
    return _single(found, field)


def _single(found: Any, field: Any) -> Any:
    if field.message_type is not None:
        return _value(found)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(found)
        return str(found) if known is None else known.name
    return found


def _fill(message: Any, values: Mapping[str, Any]) -> None:
    fields = message.DESCRIPTOR.fields_by_name
    for name, value in values.items():
        if name not in fields:
            raise FormatError(f"{message.DESCRIPTOR.full_name} has no field {name!r}; there are {', '.join(fields)}")
        if value is None:
            continue
        try:
            _set(message, fields[name], value)
        except (TypeError, ValueError, AttributeError) as error:
            if isinstance(error, FormatError):
                raise
            raise FormatError(f"{value!r} is no value of {fields[name].full_name}: {error}") from error


def _set(message: Any, field: Any, value: Any) -> None:
    if _is_map(field):
        inside = field.message_type.fields_by_name["value"]
        for key, each in value.items():
            if inside.message_type is not None:
                _fill_one(getattr(message, field.name)[key], each)
            else:
                getattr(message, field.name)[key] = _number(inside, each)
    elif field.is_repeated:
        for each in value:
            if field.message_type is not None:
                _fill_one(getattr(message, field.name).add(), each)
            else:
                getattr(message, field.name).append(_number(field, each))
    elif field.message_type is not None:
        getattr(message, field.name).SetInParent()
        _fill_one(getattr(message, field.name), value)
    else:
        setattr(message, field.name, _number(field, value))


def _fill_one(message: Any, value: Any) -> None:
    if message.DESCRIPTOR.full_name == _TIMESTAMP:
        message.FromDatetime(value)
    elif _is_wrapper(message.DESCRIPTOR):
        message.value = value
    else:
        _fill(message, value)


def _number(field: Any, value: Any) -> Any:
    if field.enum_type is not None and isinstance(value, str):
        return field.enum_type.values_by_name[value].number if value in field.enum_type.values_by_name else int(value)
    return int(value) if field.type in (field.TYPE_UINT64, field.TYPE_FIXED64) else value


# --- types ------------------------------------------------------------------------------------------------------------


def _struct(descriptor: Any, inside: tuple[str, ...]) -> Any:
    import pyarrow as pa

    name = descriptor.full_name
    if name in inside:
        raise FormatError(f"{name} contains itself, and no column can: select what you need of it before")
    if name == _TIMESTAMP:
        return pa.timestamp("us", "UTC")
    if _is_wrapper(descriptor):
        return _one(descriptor.fields[0], inside)
    return pa.struct([pa.field(each.name, _type(each, (*inside, name))) for each in descriptor.fields])


def _type(field: Any, inside: tuple[str, ...]) -> Any:
    import pyarrow as pa

    if _is_map(field):
        key, value = (field.message_type.fields_by_name[each] for each in ("key", "value"))
        return pa.map_(_one(key, inside), _one(value, inside))
    return pa.list_(_one(field, inside)) if field.is_repeated else _one(field, inside)


def _one(field: Any, inside: tuple[str, ...]) -> Any:
    import pyarrow as pa

    if field.message_type is not None:
        return _struct(field.message_type, inside)
    if field.type in (field.TYPE_UINT64, field.TYPE_FIXED64):
        return pa.decimal128(20, 0)
    kind = next(name for name in (*_ARROW, "") if not name or field.type == getattr(field, f"TYPE_{name}"))
    return getattr(pa, _ARROW[kind])()
