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

What delta-rs must look at row by row (constraints, columns that are computed or not null, types to convert, rows that
replace others by their key) it writes itself, from the driver's memory: see `_tasks_may_write`.
"""

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal
from uuid import uuid4

from oncelog.pipeline.sink.statistics import has_bounds, statistics_of
from oncelog.pipeline.sink.table_files import (
    Commit,
    FilesLost,
    TableMismatch,
    as_table,
    by_partition,
    files_of,
    is_applied,
    pieces,
)

_PARTITION_TYPES = ("string", "byte", "short", "integer", "long", "date", "boolean")
_FEATURES = {
    *("appendOnly", "invariants", "checkConstraints", "generatedColumns", "changeDataFeed", "timestampNtz"),
    *("deletionVectors", "v2Checkpoint", "domainMetadata", "clustering", "vacuumProtocolCheck"),
}
"""The features of tables that do not concern files that are only added, if no constraint and no generated column is
declared."""


class DeltaMissing(ImportError):
    """Raised if the extra `delta` is not installed."""


@dataclass(frozen=True, slots=True)
class TableOptions:
    """How a batch goes into a table: what `ExactlyOnce.to_delta` was given."""

    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    schema_mode: Literal["merge"] | None = None
    """With "merge" the table gets the columns that it lacks, and columns that the rows lack are null."""
    partition_by: tuple[str, ...] = ()
    """The partition columns of a table that is created."""
    merge_on: tuple[str, ...] = ()
    """The columns of the key by which a row replaces the one that the table has."""


@dataclass(frozen=True, slots=True)
class FilePlan:
    """The driver's decisions for the tasks of one table."""

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
    options: TableOptions = TableOptions()


def prepare_delta(rows: Any, location: str, options: TableOptions, app_id: str, batch_id: int) -> Commit | None:
    """Prepare the batch, as `table_files.Prepare`. Raises as `prepare`."""
    batch = prepare(rows, location, app_id, batch_id, options)
    return None if batch is None else partial(commit, batch)


def prepare(
    rows: Any, location: str, app_id: str, batch_id: int, options: TableOptions = TableOptions()
) -> TableBatch | None:
    """Let Spark's tasks write a DataFrame into files for batch `batch_id` of `app_id`; None if the table has it.

    Creates the table. Raises DeltaMissing, MarkerMismatch if the table is ahead of the batch, TableMismatch, FilesLost,
    and delta-rs' errors.
    """
    fields = json.loads(rows.schema.json())["fields"]  # Delta writes a schema as Spark does
    table = _load(location, fields, options)
    if _is_applied(table, location, app_id, batch_id):
        return None
    # New columns are a commit of their own, and the batch is not compared any more with what came before it.
    has_grown = options.schema_mode == "merge" and _grow(table, fields)
    if has_grown and _is_applied(table, location, app_id, batch_id):
        return None
    _check_fits(table, fields, location, options)
    if options.merge_on:
        return TableBatch(table, app_id, batch_id, (), _with_unique_keys(rows.toArrow(), options), options)
    if not _tasks_may_write(table, fields):
        return TableBatch(table, app_id, batch_id, (), rows.toArrow(), options)
    import pyarrow as pa

    metadata, schema = table.metadata(), pa.schema(table.schema().to_arrow())
    with_bounds = has_bounds(schema, metadata.configuration)
    storage_options = dict(options.storage_options)
    plan = FilePlan(table.table_uri, storage_options, schema, tuple(metadata.partition_columns), with_bounds)
    files = files_of(rows, partial(write_files, plan))
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
        if batch.options.merge_on:
            _merge(table, batch.rows, batch.options.merge_on, properties)
        elif batch.rows is not None:
            write_deltalake(
                table,
                batch.rows,
                mode="append",
                schema_mode=batch.options.schema_mode,
                commit_properties=properties,
            )
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
    from pyarrow import parquet

    files = _file_system(plan)
    for piece in pieces(batches):
        for values, part in _by_partition(as_table(piece, plan.schema), plan.partition_by):
            path = f"part-{uuid4()}.snappy.parquet"
            with files.open_output_stream(path) as stream:
                parquet.write_table(part, stream, compression="snappy")
                size_bytes = stream.tell()
            yield DataFile(path, size_bytes, values, statistics_of(part, plan.with_bounds))


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
    for values, part in by_partition(rows, columns):
        yield {name: text or None for name, text in zip(columns, values, strict=True)}, part.drop_columns([*columns])


def _merge(table: Any, rows: Any, keys: Sequence[str], properties: Any) -> None:
    """Let the rows replace those of the table that have their key, and add the others. Columns that they lack stay."""
    quoted = {name: '"' + name.replace('"', '""') + '"' for name in rows.column_names}
    columns = {name: f"source.{quoted[name]}" for name in rows.column_names}
    same = " AND ".join(f"target.{quoted[name]} = source.{quoted[name]}" for name in keys)
    merging = table.merge(rows, same, source_alias="source", target_alias="target", commit_properties=properties)
    merging.when_matched_update(columns).when_not_matched_insert(columns).execute()


def _with_unique_keys(rows: Any, options: TableOptions) -> Any:
    """Return the rows. Raises TableMismatch if two have the same key, or one has none: which one is to stay, and what
    it replaces, is not said."""
    keys = list(options.merge_on)
    for name in keys:
        if rows.column(name).null_count:
            raise TableMismatch(f"merge_on={keys}: {name} is null in a row, and no row of a table has that key")
    counts = rows.group_by(keys).aggregate([([], "count_all")]).column("count_all")
    if rows.num_rows != len(counts):
        raise TableMismatch(
            f"merge_on={keys}: the batch has {rows.num_rows} rows and {len(counts)} keys: leave one row of each key, "
            "by max_by() say"
        )
    return rows


def _is_applied(table: Any, location: str, app_id: str, batch_id: int) -> bool:
    return is_applied(table.transaction_version(app_id), location, app_id, batch_id)


def _grow(table: Any, fields: list[Any]) -> bool:
    """Add the columns that the table lacks, if there are any. Raises delta-rs' errors."""
    from deltalake.exceptions import DeltaError

    present = _names(table)
    wanted = [each for each in fields if each["name"] not in present]
    if not wanted:
        return False
    try:
        table.alter.add_columns(_schema(wanted).fields)
    except DeltaError:
        table.update_incremental()
        if not {each["name"] for each in wanted} <= _names(table):  # another driver has not added them either
            raise
    return True


def _check_fits(table: Any, fields: list[Any], location: str, options: TableOptions) -> None:
    """Raises TableMismatch."""
    present, given = _names(table), {each["name"] for each in fields}
    hint = 'give to_delta schema_mode="merge"'
    for name in sorted(given - present):
        raise TableMismatch(f"table {location} has no column {name!r}: {hint} to add it, or select the others")
    if options.schema_mode is None and not options.merge_on:
        computed = {each.name for each in table.schema().fields if "delta.generationExpression" in each.metadata}
        for name in sorted(present - given - computed):
            raise TableMismatch(
                f"table {location} has a column {name!r} that the rows lack: {hint} for null, or add it"
            )
    for name in sorted(set(options.merge_on) - given):
        raise TableMismatch(f"merge_on: the rows have no column {name!r}; there are {', '.join(sorted(given))}")
    partitions = tuple(table.metadata().partition_columns)
    if options.partition_by and options.partition_by != partitions:
        raise TableMismatch(
            f"table {location} is partitioned by {', '.join(partitions) or 'nothing'}, and partition_by says "
            f"{', '.join(options.partition_by)}: a table keeps what it was created with"
        )


def _names(table: Any) -> set[str]:
    return {each.name for each in table.schema().fields}


def _schema(fields: list[Any]) -> Any:
    """Return columns that may be null, and so may all that is in them, as Spark's own Delta creates them."""
    from deltalake import Schema

    nullable = [{**_nullable(each), "metadata": {}} for each in fields]
    return Schema.from_json(json.dumps({"type": "struct", "fields": nullable}))


def _nullable(node: Any) -> Any:
    """Return a type in JSON of which every value may be null."""
    if not isinstance(node, dict):
        return [_nullable(each) for each in node] if isinstance(node, list) else node
    may_be = ("nullable", "containsNull", "valueContainsNull")
    return {name: True if name in may_be else _nullable(each) for name, each in node.items()}


def _load(location: str, fields: list[Any], options: TableOptions) -> Any:
    """Return the table as it is now, created if there is none."""
    try:
        from deltalake import DeltaTable
        from deltalake.exceptions import TableNotFoundError
    except ImportError as error:
        from oncelog.installing import how_to_install

        raise DeltaMissing(f"to_delta needs deltalake: {how_to_install('delta')}") from error
    storage_options = dict(options.storage_options)
    try:
        return DeltaTable(location, storage_options=storage_options)
    except TableNotFoundError:
        partition_by = list(options.partition_by) or None
        schema = _schema(fields)
        return DeltaTable.create(
            location, schema, mode="ignore", partition_by=partition_by, storage_options=storage_options
        )


def _tasks_may_write(table: Any, fields: list[Any]) -> bool:
    """Whether any row of these columns may be added to the table as it is. What is not known here, delta-rs decides."""
    metadata = table.metadata()
    declared = json.loads(table.schema().to_json())["fields"]
    types = {each["name"]: _without_nullability(each["type"]) for each in declared}
    return (
        set(table.protocol().writer_features or ()) <= _FEATURES
        and not any(key.startswith(("delta.constraints.", "delta.columnMapping")) for key in metadata.configuration)
        and all(each["nullable"] and not each["metadata"] for each in declared)
        and all(types[each["name"]] == _without_nullability(each["type"]) for each in fields)
        and all(types[name] in _PARTITION_TYPES for name in metadata.partition_columns)
    )


def _without_nullability(node: Any) -> Any:
    """Return a type in JSON, reduced to what a value of it looks like."""
    if not isinstance(node, dict):
        return [_without_nullability(each) for each in node] if isinstance(node, list) else node
    left_out = ("nullable", "containsNull", "valueContainsNull", "metadata")
    return {name: _without_nullability(each) for name, each in node.items() if name not in left_out}
