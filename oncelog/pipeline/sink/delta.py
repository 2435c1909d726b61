"""A micro-batch into a Delta table, once: the table itself remembers the batch, as an application's transaction.

    tasks    rows → Parquet files beside the table's own; a reader knows none of them      (`write_files`)
    driver   load the table → has it the batch? → tasks → … the topics … → commit their files  (`prepare`, `commit`)

Owns: the decision, the files, the commit. Written with delta-rs (the extra `delta`, on executors too), without a jar.
Invariants
- The table is loaded once for a batch, before the decision: the commit is checked against everything that came after,
  so of two drivers with the same batch one finds the other's application transaction, and adds nothing.
- A Kafka transaction cannot include a table, so the topics come first: a driver that is fenced there commits to no
  table, and one that dies between the two finds at its next start that the topics have the batch and the table has not.
- Files of an attempt that failed are in no commit. VACUUM removes them.

What delta-rs must look at row by row (constraints, columns that are computed or not null, types to convert) it writes
itself, from the driver's memory: see `_tasks_may_write`.
"""

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any
from uuid import uuid4

from oncelog.pipeline.sink.marker import MarkerMismatch
from oncelog.pipeline.sink.statistics import has_bounds, statistics_of

_FILE_BYTES = 64 << 20
"""The size of the rows that a task keeps in memory, as Arrow: they become one file for each partition of the table."""
_PARTITION_TYPES = ("string", "byte", "short", "integer", "long", "date", "boolean")
_FEATURES = {
    *("appendOnly", "invariants", "checkConstraints", "generatedColumns", "changeDataFeed", "timestampNtz"),
    *("deletionVectors", "v2Checkpoint", "domainMetadata", "clustering", "vacuumProtocolCheck"),
}
"""The features of tables that do not concern files that are only added, if no constraint and no generated column is
declared."""


class DeltaMissing(ImportError):
    """Raised if the extra `delta` is not installed."""


class FilesLost(Exception):
    """Raised if the driver does not see the files of the tasks as they wrote them; nothing is published."""


class TableStep(Enum):
    """The steps of one table, around those of `publish.Step`: files before the topics, the commit after them."""

    WRITE = "write the files of a table"
    COMMIT = "commit a table"


@dataclass(frozen=True, slots=True)
class FilePlan:
    """What the driver decided for the tasks of one table."""

    uri: str
    storage_options: dict[str, str]
    schema: Any
    """The table's schema, as pyarrow has it."""
    partition_by: tuple[str, ...]
    with_bounds: bool = False
    """Whether files say the minimum and maximum of their columns."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """A Parquet file that a task has written, as a commit adds it."""

    path: str
    """The path of the file below the table."""
    size_bytes: int
    partition: dict[str, str | None]
    statistics: str
    """The statistics of the columns as JSON, see `statistics`."""


@dataclass(frozen=True, slots=True)
class TableBatch:
    """A batch that the table has not, ready to be committed."""

    table: Any
    app_id: str
    batch_id: int
    files: Sequence[DataFile]
    rows: Any = None
    """The rows as a pyarrow Table instead of files, where delta-rs writes them."""


def prepare(
    rows: Any, location: str, app_id: str, batch_id: int, storage_options: Mapping[str, str]
) -> TableBatch | None:
    """Let Spark's tasks write a DataFrame into files for batch `batch_id` of `app_id`; None if the table has it.

    Creates the table. Raises DeltaMissing, MarkerMismatch if the table is ahead of the batch, FilesLost, and delta-rs'
    errors.
    """
    fields = json.loads(rows.schema.json())["fields"]  # Delta writes a schema as Spark does
    table = _load(location, fields, storage_options)
    applied: int | None = table.transaction_version(app_id)
    if applied == batch_id:
        return None
    if applied is not None and applied > batch_id:
        raise MarkerMismatch(
            f"table {location} has the batches up to {applied} of {app_id} already, and this is batch {batch_id}: this "
            "is an old copy of the checkpoint"
        )
    if not _tasks_may_write(table, fields):
        return TableBatch(table, app_id, batch_id, (), rows.toArrow())
    import pyarrow as pa

    metadata, schema = table.metadata(), pa.schema(table.schema().to_arrow())
    with_bounds = has_bounds(schema, metadata.configuration)
    plan = FilePlan(table.table_uri, dict(storage_options), schema, tuple(metadata.partition_columns), with_bounds)
    files = _files_of(rows, plan)
    check_files(plan, files)
    return TableBatch(table, app_id, batch_id, files)


def check_files(plan: FilePlan, files: Sequence[DataFile]) -> None:
    """Raise FilesLost for files that the driver does not see: a commit of files on some executor's own disk would lose
    their rows."""
    seen = _file_system(plan).get_file_info([file.path for file in files])
    for file, found in zip(files, seen, strict=True):
        if found.size != file.size_bytes:
            raise FilesLost(
                f"a task wrote {file.size_bytes} bytes to {file.path} of {plan.uri}, and the driver finds "
                f"{found.size or 'none'}: the table must be on a file system that driver and executors share"
            )


def commit(batch: TableBatch, offsets: bytes) -> bool:
    """Make the batch visible; False if another driver did so since `prepare`. Raises delta-rs' errors."""
    from deltalake import CommitProperties, Transaction, write_deltalake
    from deltalake.exceptions import CommitFailedError
    from deltalake.transaction import AddAction

    properties = CommitProperties(
        app_transactions=[Transaction(batch.app_id, batch.batch_id)],
        custom_metadata={"oncelog.batch": str(batch.batch_id), "oncelog.offsets": offsets.decode(errors="replace")},
    )
    now_ms = int(time.time() * 1000)
    table = batch.table
    try:
        if batch.rows is not None:
            write_deltalake(table, batch.rows, mode="append", commit_properties=properties)
        else:
            adds = [
                AddAction(file.path, file.size_bytes, file.partition, now_ms, True, file.statistics)
                for file in batch.files
            ]
            columns = table.metadata().partition_columns
            table.create_write_transaction(
                adds, "append", table.schema(), partition_by=columns, commit_properties=properties
            )
    except CommitFailedError:
        table.update_incremental()
        if table.transaction_version(batch.app_id) != batch.batch_id:
            raise
        return False
    return True


def write_files(plan: FilePlan, batches: Iterable[Any]) -> Iterator[DataFile]:
    """Write a task's pyarrow RecordBatches into files, with at most some 64 MB of rows in memory. Raises delta-rs'
    errors."""
    waiting: list[Any] = []
    waiting_bytes = 0
    for batch in batches:
        waiting.append(batch)
        waiting_bytes += batch.nbytes
        if waiting_bytes >= _FILE_BYTES:
            yield from _write(plan, waiting)
            waiting, waiting_bytes = [], 0
    yield from _write(plan, waiting)


def _write(plan: FilePlan, batches: Sequence[Any]) -> Iterator[DataFile]:
    import pyarrow as pa
    from pyarrow import parquet

    if not sum(batch.num_rows for batch in batches):
        return
    files = _file_system(plan)
    rows = pa.Table.from_batches(batches).select(plan.schema.names).cast(plan.schema)
    for partition, part in _by_partition(rows, plan.partition_by):
        path = f"part-{uuid4()}.snappy.parquet"
        with files.open_output_stream(path) as stream:
            parquet.write_table(part, stream, compression="snappy")
            size_bytes = stream.tell()
        yield DataFile(path, size_bytes, partition, statistics_of(part, plan.with_bounds))


def _file_system(plan: FilePlan) -> Any:
    """Return the directory of the table, on whatever delta-rs knows. Raises DeltaMissing."""
    from pyarrow.fs import PyFileSystem

    try:
        from deltalake.fs import DeltaStorageHandler
    except ImportError as error:
        raise DeltaMissing("to_delta needs deltalake on the executors too: pip install deltalake there") from error
    return PyFileSystem(DeltaStorageHandler(plan.uri, plan.storage_options))


def _by_partition(rows: Any, columns: Sequence[str]) -> Iterator[tuple[dict[str, str | None], Any]]:
    """Yield the rows of each partition without its columns, which a file does not repeat, and their values as Delta
    writes them: text, and no text for null."""
    if not columns:
        yield {}, rows
        return
    indices: dict[tuple[str | None, ...], list[int]] = {}
    texts = [rows.column(name).cast("string").to_pylist() for name in columns]
    for index, values in enumerate(zip(*texts, strict=True)):
        indices.setdefault(tuple(value or None for value in values), []).append(index)
    rest = rows.drop_columns(list(columns))
    for key, chosen in indices.items():
        yield dict(zip(columns, key, strict=True)), rest.take(chosen)


def _files_of(rows: Any, plan: FilePlan) -> list[DataFile]:
    """Let Spark's tasks write a DataFrame, and return their files, without those of attempts that failed."""

    def write(batches: Any) -> Any:
        from pickle import dumps

        import pyarrow

        yield pyarrow.RecordBatch.from_pydict({"files": [dumps(list(write_files(plan, batches)))]})

    from pickle import loads

    return [file for row in rows.mapInArrow(write, "files binary").collect() for file in loads(bytes(row.files))]


def _load(location: str, fields: list[Any], storage_options: Mapping[str, str]) -> Any:
    """Return the table as it is now, created if there is none: with columns that may be null, as Spark's own Delta
    does."""
    try:
        from deltalake import DeltaTable, Schema
        from deltalake.exceptions import TableNotFoundError
    except ImportError as error:
        raise DeltaMissing("to_delta needs deltalake: pip install 'oncelog[delta]'") from error
    options = dict(storage_options)
    try:
        return DeltaTable(location, storage_options=options)
    except TableNotFoundError:
        nullable = [{**field, "nullable": True, "metadata": {}} for field in fields]
        schema = Schema.from_json(json.dumps({"type": "struct", "fields": nullable}))
        return DeltaTable.create(location, schema, mode="ignore", storage_options=options)


def _tasks_may_write(table: Any, fields: list[Any]) -> bool:
    """Whether any row of these columns may be added to the table as it is. What is not known here, delta-rs decides."""
    metadata = table.metadata()
    declared = json.loads(table.schema().to_json())["fields"]
    types = {field["name"]: _without_nullability(field["type"]) for field in declared}
    return (
        set(table.protocol().writer_features or ()) <= _FEATURES
        and not any(key.startswith(("delta.constraints.", "delta.columnMapping")) for key in metadata.configuration)
        and all(field["nullable"] and not field["metadata"] for field in declared)
        and types == {field["name"]: _without_nullability(field["type"]) for field in fields}
        and all(types[name] in _PARTITION_TYPES for name in metadata.partition_columns)
    )


def _without_nullability(node: Any) -> Any:
    """Return a type in JSON, reduced to what a value of it looks like."""
    if not isinstance(node, dict):
        return [_without_nullability(each) for each in node] if isinstance(node, list) else node
    left_out = ("nullable", "containsNull", "valueContainsNull", "metadata")
    return {name: _without_nullability(each) for name, each in node.items() if name not in left_out}
