"""Columns by a schema registry: `from_registry` and `to_registry`, in Confluent's wire format.

Owns: the functions over Spark's columns, whole Arrow arrays at a time. Does not own: the registry and its formats
(`oncelog.schemas`). Open Spark's `from_avro` takes one schema, and records that were written with another cannot be
read; here each record is read by the schema that it names.

The type of a column is fixed when the query is planned: it is the type of the reader's schema, and records of other
versions are read as that one: resolved as Avro defines it, by the numbers of fields as Protobuf does, by their names in
JSON.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, Literal

from oncelog.schemas.format import Format, FormatError, format_of
from oncelog.schemas.framing import NotFramed, framed, unframed
from oncelog.schemas.registry import Schema, SchemaNotFound, SchemaRegistry

Mode = Literal["FAILFAST", "PERMISSIVE"]
_BAD = (NotFramed, FormatError, SchemaNotFound)
"""Errors of a record, rather than of the registry."""


def from_registry(
    column: Any,
    registry: SchemaRegistry,
    *,
    subject: str | None = None,
    version: int | Literal["latest"] = "latest",
    schema: str | Schema | None = None,
    message: str | None = None,
    mode: Mode = "FAILFAST",
) -> Any:
    """Return a column with the values that a binary column has in Avro, JSON or Protobuf.

        orders = rows.select(from_registry("value", REGISTRY, subject="orders-value").alias("order")).select("order.*")

    The reader's schema is this `version` of `subject`, asked for when the column is made, or `schema`; of Protobuf it
    is `message`, by default the first of the file. Null stays null. A record that cannot be read fails the query, or is
    null with `mode="PERMISSIVE"`; a registry that does not answer fails it in either mode. Raises ValueError,
    RegistryError, FormatError.
    """
    wanted = _chosen(registry, subject, version, schema)
    if mode not in ("FAILFAST", "PERMISSIVE"):
        raise ValueError(f"mode={mode!r}: write FAILFAST or PERMISSIVE")
    kind = format_of(registry, wanted, message).arrow_type()
    decoder = _Decoder(registry, wanted, message, kind, is_permissive=mode == "PERMISSIVE")
    return _column(decoder, _spark_type(kind), column)


def to_registry(
    column: Any,
    registry: SchemaRegistry,
    *,
    subject: str,
    schema: str | Schema | None = None,
    message: str | None = None,
    register: bool = False,
) -> Any:
    """Return a binary column with the values of a column in Avro, JSON or Protobuf, each behind the id of its schema.

        rows.select(to_registry(struct("id", "cents"), REGISTRY, subject="orders-value").alias("value"))

    The schema is the latest of `subject`; or `schema`, which the subject must have, or gets with `register=True`. Null
    stays null. Raises RegistryError, FormatError; the query fails for a value that does not fit.
    """
    chosen = _chosen(registry, subject, "latest", schema)
    if schema is None:
        schema_id = registry.version(subject).id
    else:
        schema_id = registry.register(subject, chosen) if register else registry.lookup(subject, chosen)
    format_of(registry, chosen, message)
    return _column(_Encoder(registry, chosen, message, schema_id), "binary", column)


def _chosen(
    registry: SchemaRegistry, subject: str | None, version: int | Literal["latest"], schema: str | Schema | None
) -> Schema:
    if schema is not None:
        return Schema(schema) if isinstance(schema, str) else schema
    if subject is None:
        raise ValueError("subject or schema says what the column is: subject='orders-value'")
    return registry.version(subject, version).schema


class _Decoder:
    """Runs in tasks, which ask the registry for themselves, once for each schema in a process."""

    def __init__(
        self, registry: SchemaRegistry, wanted: Schema, message: str | None, kind: Any, *, is_permissive: bool
    ) -> None:
        self._registry = registry
        self._wanted = wanted
        self._message = message
        self._kind = kind
        self._is_permissive = is_permissive

    def __call__(self, column: Any) -> Any:
        import pyarrow as pa

        reader = _parsed(self._registry, self._wanted, self._message)
        writers: dict[int, Format] = {}
        return pa.array(
            [None if each is None else self._value(each, reader, writers) for each in column.to_pylist()], self._kind
        )

    def _value(self, data: bytes, reader: Format, writers: dict[int, Format]) -> Any:
        try:
            schema_id, content = unframed(data)
            writer = writers.get(schema_id)
            if writer is None:
                writer = writers[schema_id] = _parsed(self._registry, self._registry.schema(schema_id))
            return reader.to_column(writer.decode(content, reader))
        except _BAD:
            if self._is_permissive:
                return None
            raise


class _Encoder:
    """Runs in tasks."""

    def __init__(self, registry: SchemaRegistry, schema: Schema, message: str | None, schema_id: int) -> None:
        self._registry = registry
        self._schema = schema
        self._message = message
        self._id = schema_id

    def __call__(self, column: Any) -> Any:
        import pyarrow as pa

        chosen = _parsed(self._registry, self._schema, self._message)
        values = column.to_pylist(maps_as_pydicts="strict")
        return pa.array(
            [None if each is None else framed(self._id, chosen.encode(each)) for each in values], pa.binary()
        )


@cache
def _parsed_of(_url: str) -> dict[tuple[Schema, str | None], Format]:
    """Return the cache of a registry's parsed schemas in this process: each task unpickles the functions, but processes
    stay."""
    return {}


def _parsed(registry: SchemaRegistry, schema: Schema, message: str | None = None) -> Format:
    known = _parsed_of(registry.url)
    if (schema, message) not in known:
        known[schema, message] = format_of(registry, schema, message)
    return known[schema, message]


def _column(work: Callable[[Any], Any], kind: Any, column: Any) -> Any:
    import pyarrow as pa
    from pyspark.sql.functions import arrow_udf

    def run(values: pa.Array) -> pa.Array:
        return work(values)

    return arrow_udf(run, kind)(column)


def _spark_type(kind: Any) -> Any:
    from pyspark.sql.pandas.types import from_arrow_type

    return from_arrow_type(kind, prefer_timestamp_ntz=True)
