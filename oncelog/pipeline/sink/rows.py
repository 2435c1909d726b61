"""The columns of a DataFrame that is written: which are needed, of which types, and as arrays for `encoding`.

Owns: the sentence about a wrong schema. Columns, names and types are those of Spark's Kafka sink; any other column is
left out, as there.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

HEADERS_TYPE = "array<struct<key:string,value:binary>>"
_TEXT = ("string", "binary")
_TYPES = {"key": _TEXT, "value": _TEXT, "topic": ("string",), "partition": ("int",), "headers": (HEADERS_TYPE,)}


class SchemaError(ValueError):
    """Raised if the DataFrame cannot be written; the message names the column."""


class RowError(ValueError):
    """Raised if a row cannot be written; the message says why."""


@dataclass(frozen=True, slots=True)
class TopicRows:
    """Rows of one topic as Arrow arrays: keys and values are binary, headers are bytes (or NO_HEADERS), partitions are
    int32."""

    topic: str
    keys: Any
    values: Any
    headers: Any
    partitions: Any


def check_columns(columns: Iterable[tuple[str, str]], topic: str | None) -> None:
    """Raise SchemaError for columns that cannot be written. `columns` are names and types as Spark writes them
    (`simpleString`)."""
    found = {name.lower(): type_name for name, type_name in columns}
    if "value" not in found:
        raise SchemaError(
            f"there is no column `value`, which is what a record contains; there are {', '.join(found) or 'none'}. "
            'Make one: df.select(to_json(struct("*")).alias("value"))'
        )
    if topic is None and "topic" not in found:
        raise SchemaError("no topic: set the option topic, or add a column `topic` that names one for each row")
    for name, allowed in _TYPES.items():
        type_name = found.get(name, allowed[0])
        # Nullability and field names' case are Spark's business.
        if type_name.replace(" ", "").lower() not in allowed:
            raise SchemaError(f"column `{name}` is of type {type_name}, and must be {' or '.join(allowed)}: cast it")


def rows_by_topic(table: Any, topic: str | None) -> Iterator[TopicRows]:
    """Yield the rows of a pyarrow Table by topic; `topic` overrides the column. Raises RowError for a row without a
    topic."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if topic is not None:
        yield _rows(table, topic)
        return
    topics = _column(table, "topic", pa.string())
    if topics.null_count:
        raise RowError("a row has null in its column `topic`: every row needs one, or set the option topic")
    for name in pc.unique(topics).to_pylist():
        yield _rows(table.filter(pc.equal(topics, name)), name)


def _rows(table: Any, topic: str) -> TopicRows:
    import pyarrow as pa

    from oncelog.pipeline.sink.encoding import NO_HEADERS, encode_headers

    headers = _find(table, "headers")
    return TopicRows(
        topic,
        _column(table, "key", pa.binary()),
        _column(table, "value", pa.binary()),
        NO_HEADERS if headers is None else encode_headers(headers),
        _column(table, "partition", pa.int32()),
    )


def _find(table: Any, name: str) -> Any:
    """Return the column of this name in any case, as Spark has it, or None."""
    return next((table.column(index) for index, each in enumerate(table.column_names) if each.lower() == name), None)


def _column(table: Any, name: str, wanted: Any) -> Any:
    import pyarrow as pa

    column = _find(table, name)
    if column is None:
        return pa.nulls(table.num_rows, wanted)
    chunks = column.cast(wanted).chunks
    return chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks) if chunks else pa.nulls(0, wanted)
