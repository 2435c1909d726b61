"""The types in Kafka's messages.

Owns: their names, sizes and Python types. Does not own: their encoding, which plain construct defines
(`protocol.plain_construct`), messages and versions (`protocol.schema`).
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Primitive:
    """A type of fixed size: its letter for `struct`, its Python type."""

    name: str
    letter: str
    size: int
    python: str


@dataclass(frozen=True, slots=True)
class Variable:
    """A type with a length prefix: text, bytes or record data."""

    name: str
    python: str


Int8 = Primitive("int8", "b", 1, "int")
Int16 = Primitive("int16", "h", 2, "int")
Int32 = Primitive("int32", "i", 4, "int")
Int64 = Primitive("int64", "q", 8, "int")
UInt16 = Primitive("uint16", "H", 2, "int")
UInt32 = Primitive("uint32", "I", 4, "int")
Float64 = Primitive("float64", "d", 8, "float")
Boolean = Primitive("bool", "?", 1, "bool")
Uuid = Primitive("uuid", "16s", 16, "UUID")
String = Variable("string", "str")
Bytes = Variable("bytes", "bytes")
Records = Variable("records", "Data")
