"""What tables of every format have in common: the steps of one, the Parquet files that tasks write for it.

Owns: how rows become files of about 64 MB, parted by the partition columns. Does not own: what a table remembers
of a batch (`delta`, `iceberg`), and when it is written (`outputs`).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from typing import Any

from oncelog.pipeline.sink.marker import MarkerMismatch

_FILE_BYTES = 64 << 20
"""The size of the rows that a task keeps in memory, as Arrow: they become one file for each partition of the table."""


class TableMismatch(ValueError):
    """Raised if rows and table do not fit: the message names the column, and what to write."""


class FilesLost(Exception):
    """Raised if the driver does not see the files of the tasks as they wrote them; nothing is published."""


class TableStep(Enum):
    """The steps of one table, around those of `publish.Step`: files before the topics, the commit after them."""

    WRITE = "write the files of a table"
    COMMIT = "commit a table"


Commit = Callable[[bytes], bool]
"""Makes the batch visible, with the offsets that Spark planned it for; False if another driver has done so."""
Prepare = Callable[[str, int], Commit | None]
"""Lets Spark's tasks write the files of a batch, given the id under which the table remembers it, and its number; None
if the table has it already."""


def is_applied(applied: int | None, table: str, app_id: str, batch_id: int) -> bool:
    """Return whether the last batch that a table has of this id is this one. Raises MarkerMismatch if it is a later
    one."""
    if applied is not None and applied > batch_id:
        raise MarkerMismatch(
            f"table {table} has the batches up to {applied} of {app_id} already, and this is batch {batch_id}: this "
            "is an old copy of the checkpoint"
        )
    return applied == batch_id


def pieces(batches: Iterable[Any]) -> Iterator[Any]:
    """Yield a task's pyarrow RecordBatches as Tables of some 64 MB, none without a row."""
    import pyarrow as pa

    waiting: list[Any] = []
    waiting_bytes = 0
    for batch in batches:
        waiting.append(batch)
        waiting_bytes += batch.nbytes
        if waiting_bytes >= _FILE_BYTES:
            yield pa.Table.from_batches(waiting)
            waiting, waiting_bytes = [], 0
    if sum(batch.num_rows for batch in waiting):
        yield pa.Table.from_batches(waiting)


def as_table(rows: Any, schema: Any) -> Any:
    """Return a pyarrow Table with the columns of the schema, null where it has none."""
    import pyarrow as pa

    present = set(rows.column_names)
    columns = [
        rows.column(each.name).cast(each.type) if each.name in present else pa.nulls(rows.num_rows, each.type)
        for each in schema
    ]
    return pa.table(columns, schema=schema)


def by_partition(rows: Any, columns: Sequence[str]) -> Iterator[tuple[tuple[str | None, ...], Any]]:
    """Yield the rows of each partition, and the values of its columns as text."""
    if not columns:
        yield (), rows
        return
    indices: dict[tuple[str | None, ...], list[int]] = {}
    texts = [rows.column(name).cast("string").to_pylist() for name in columns]
    for index, values in enumerate(zip(*texts, strict=True)):
        indices.setdefault(values, []).append(index)
    for values, chosen in indices.items():
        yield values, rows.take(chosen)


def files_of(rows: Any, write: Callable[[Iterable[Any]], Iterable[Any]]) -> list[Any]:
    """Let Spark's tasks write a DataFrame, and return what `write` yields for each file, without those of attempts that
    failed."""

    def run(batches: Any) -> Any:
        from pickle import dumps

        import pyarrow

        yield pyarrow.RecordBatch.from_pydict({"files": [dumps(list(write(batches)))]})

    from pickle import loads

    return [file for row in rows.mapInArrow(run, "files binary").collect() for file in loads(bytes(row.files))]
