"""A micro-batch into an Iceberg table, once: the table itself remembers the batch, as Delta's do (iceberg#8809).

    tasks    rows → Parquet files below the table's location; a reader knows none of them        (`write_files`)
    driver   load the table → has it the batch? → tasks → … the topics … → add their files      (`prepare`, `_commit`)

Owns: the decision, the files, the commit. Written with pyiceberg (the extra `iceberg`, on executors too), and no jar.
Invariants
- A property of the table, `oncelog.applied.APP_ID`, has the number of the last batch, and is written in the commit that
  adds its files. Snapshots have it in their summary, too, for people and other tools, but snapshots expire.
- A commit is refused if another has come between, and then the decision is made again. pyiceberg would repeat a refused
  commit on top of the other one by itself, which doubles a batch that two drivers have: that is turned off.
- Files of an attempt that failed are in no snapshot; the removal of orphan files finds them.

What tasks cannot part by themselves, partitions by anything but the values of columns, pyiceberg writes in the driver.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal
from uuid import uuid4

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

_ATTEMPTS = 10
"""How often a batch is committed again, on top of what others have committed."""
_RETRIES = "commit.retry.num-retries"
_PARTITION_TYPES = ("string", "int", "long", "date", "boolean")


class IcebergMissing(ImportError):
    """Raised if the extra `iceberg` is not installed."""


@dataclass(frozen=True, slots=True)
class IcebergOptions:
    """Where a table is, and how a batch goes into it: what `ExactlyOnce.to_iceberg` was given."""

    catalog: str | None = None
    """The name of the catalog in pyiceberg's configuration; None is its default."""
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Properties of the catalog, beside its configuration."""
    schema_mode: Literal["merge"] | None = None
    """With "merge" the table gets the columns that it lacks, and columns that the rows lack are null."""
    partition_by: tuple[str, ...] = ()
    """The columns by whose values a table that is created is partitioned."""


@dataclass(frozen=True, slots=True)
class IcebergPlan:
    """The driver's decisions for the tasks of one table."""

    location: str
    """The location of its data files."""
    properties: dict[str, str]
    """pyiceberg's properties for access to them."""
    schema: Any
    """The table's schema, as pyarrow has it."""
    partition_by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class IcebergFile:
    """A Parquet file that a task has written."""

    path: str
    size_bytes: int


def prepare(rows: Any, identifier: str, options: IcebergOptions, app_id: str, batch_id: int) -> Commit | None:
    """Prepare the batch, as `table_files.Prepare`, and create the table unless it exists. Raises IcebergMissing,
    MarkerMismatch if the table is ahead of the batch, TableMismatch, FilesLost, and pyiceberg's errors."""
    wanted = _arrow_schema(rows)
    table = _load(identifier, wanted, options)
    if _is_applied(table, identifier, app_id, batch_id):
        return None
    if options.schema_mode == "merge":
        _grow(table, wanted)
        if _is_applied(table, identifier, app_id, batch_id):
            return None
    _check_fits(table, wanted, identifier, options)
    schema = _schema_of(table)
    if not _tasks_may_write(table):
        whole = as_table(rows.toArrow(), schema)
        return partial(_commit, table, identifier, app_id, batch_id, (), whole)
    location = table.properties.get("write.data.path", f"{table.location()}/data")
    plan = IcebergPlan(location, dict(table.io.properties), schema, _partition_columns(table))
    files = files_of(rows, partial(write_files, plan))
    _check_files(plan, files)
    return partial(_commit, table, identifier, app_id, batch_id, files, None)


def write_files(plan: IcebergPlan, batches: Iterable[Any]) -> Iterator[IcebergFile]:
    """Write a task's pyarrow RecordBatches into files, with at most some 64 MB of rows in memory. Raises IcebergMissing
    and pyiceberg's errors."""
    from pyarrow import parquet

    io = _file_io(plan)
    for piece in pieces(batches):
        for _, part in by_partition(as_table(piece, plan.schema), plan.partition_by):
            path = f"{plan.location}/{uuid4()}.parquet"
            with io.new_output(path).create() as stream:
                parquet.write_table(part, stream, compression="zstd")
            yield IcebergFile(path, len(io.new_input(path)))


def _check_files(plan: IcebergPlan, files: Sequence[IcebergFile]) -> None:
    """Raise FilesLost for files that the driver does not see: a commit of files on some executor's own disk would lose
    their rows."""
    io = _file_io(plan)
    for file in files:
        found = io.new_input(file.path)
        size_bytes = len(found) if found.exists() else None
        if size_bytes != file.size_bytes:
            raise FilesLost(
                f"a task wrote {file.size_bytes} bytes to {file.path}, and the driver finds {size_bytes or 'none'}: "
                "the table must be on a file system that driver and executors share"
            )


def _commit(
    table: Any, identifier: str, app_id: str, batch_id: int, files: Sequence[IcebergFile], rows: Any, offsets: bytes
) -> bool:
    """Make the batch visible; False if another driver did so since `prepare`. Raises pyiceberg's errors."""
    from pyiceberg.exceptions import CommitFailedException

    summary = {
        "oncelog.app-id": app_id,
        "oncelog.batch-id": str(batch_id),
        "oncelog.offsets": offsets.decode(errors="replace"),
    }
    for attempt in range(1, _ATTEMPTS + 1):
        table.metadata.properties[_RETRIES] = "0"  # of this copy in memory: no update of the transaction has it
        try:
            with table.transaction() as transaction:
                if rows is not None:
                    transaction.append(rows, snapshot_properties=summary)
                else:
                    paths = [file.path for file in files]
                    transaction.add_files(paths, snapshot_properties=summary, check_duplicate_files=False)
                transaction.set_properties({_applied_key(app_id): str(batch_id)})
            return True
        except CommitFailedException:
            table.refresh()
            if _is_applied(table, identifier, app_id, batch_id):
                return False
            if attempt == _ATTEMPTS:
                raise
    raise AssertionError


def _applied_key(app_id: str) -> str:
    return f"oncelog.applied.{app_id}"


def _is_applied(table: Any, identifier: str, app_id: str, batch_id: int) -> bool:
    applied = table.properties.get(_applied_key(app_id))
    return is_applied(None if applied is None else int(applied), identifier, app_id, batch_id)


def _load(identifier: str, wanted: Any, options: IcebergOptions) -> Any:
    """Return the table as it is now, created if there is none, in a namespace that is."""
    try:
        from pyiceberg.catalog import load_catalog
        from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, TableAlreadyExistsError
    except ImportError as error:
        from oncelog.installing import how_to_install

        raise IcebergMissing(f"to_iceberg needs pyiceberg: {how_to_install('iceberg')}") from error
    catalog = load_catalog(options.catalog, **options.properties)
    try:
        return catalog.load_table(identifier)
    except NoSuchTableError:
        catalog.create_namespace_if_not_exists(identifier.rpartition(".")[0])
    try:
        with catalog.create_table_transaction(identifier, wanted) as transaction, transaction.update_spec() as spec:
            for name in options.partition_by:
                spec.add_identity(name)
    except (TableAlreadyExistsError, CommitFailedException):  # another driver has just created it
        pass
    return catalog.load_table(identifier)


def _grow(table: Any, wanted: Any) -> None:
    """Add the columns, and the fields inside of columns, that the table lacks. Raises pyiceberg's errors."""
    from pyiceberg.exceptions import CommitFailedException

    for _ in range(_ATTEMPTS):
        if all(each.is_lacking for each in _misfits(wanted, _schema_of(table))):
            return
        try:
            with table.update_schema() as update:
                update.union_by_name(wanted)
        except CommitFailedException:
            table.refresh()


@dataclass(frozen=True, slots=True)
class _Misfit:
    """A column, or a field inside of one, in which rows and table differ."""

    path: str
    given: Any
    """Its type in the rows; None if they lack it."""
    present: Any
    """Its type in the table; None if that lacks it."""

    @property
    def is_lacking(self) -> bool:
        return self.given is None


def _misfits(given: Any, present: Any, path: str = "") -> Iterator[_Misfit]:
    """Yield where the values of one schema or struct cannot be those of another as they are."""
    ours, theirs = ({each.name: each.type for each in fields} for fields in (given, present))
    for name in sorted({*ours, *theirs}):
        yield from _misfits_of(ours.get(name), theirs.get(name), f"{path}{name}")


def _misfits_of(given: Any, present: Any, path: str) -> Iterator[_Misfit]:
    import pyarrow as pa

    if given is None or present is None:
        yield _Misfit(path, given, present)
    elif pa.types.is_struct(given) and pa.types.is_struct(present):
        yield from _misfits(given, present, f"{path}.")
    elif _is_list(given) and _is_list(present):
        yield from _misfits_of(given.value_type, present.value_type, f"{path}.element")
    elif pa.types.is_map(given) and pa.types.is_map(present):
        yield from _misfits_of(given.key_type, present.key_type, f"{path}.key")
        yield from _misfits_of(given.item_type, present.item_type, f"{path}.value")
    elif not _fits(given, present):
        yield _Misfit(path, given, present)


def _is_list(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _fits(given: Any, present: Any) -> bool:
    """Whether every value of a simple type is one of another, the same or a wider one."""
    from pyarrow import types

    for is_of in (types.is_integer, types.is_floating):
        if is_of(given) and is_of(present):
            return bool(given.bit_width <= present.bit_width)
    for is_text in ((types.is_string, types.is_large_string), (types.is_binary, types.is_large_binary)):
        if any(is_of(given) for is_of in is_text) and any(is_of(present) for is_of in is_text):
            return True
    if types.is_decimal(given) and types.is_decimal(present):
        return bool(given.scale == present.scale and given.precision <= present.precision)
    if types.is_timestamp(given) and types.is_timestamp(present):
        return (given.tz is None) == (present.tz is None)
    return bool(given == present)


def _check_fits(table: Any, wanted: Any, identifier: str, options: IcebergOptions) -> None:
    """Raises TableMismatch."""
    hint = 'give to_iceberg schema_mode="merge"'
    for each in _misfits(wanted, _schema_of(table)):
        name = each.path
        if each.present is None:
            raise TableMismatch(f"table {identifier} has no column {name!r}: {hint} to add it, or select the others")
        if each.given is not None:
            raise TableMismatch(
                f"column {name!r} is {each.present} in table {identifier}, and {each.given} in the rows: cast it"
            )
        if options.schema_mode is None:
            raise TableMismatch(f"table {identifier} has a column {name!r} that the rows lack: {hint} for null there")
    partitions = _partition_columns(table)
    if options.partition_by and options.partition_by != partitions:
        raise TableMismatch(
            f"table {identifier} is partitioned by {', '.join(partitions) or 'nothing'}, and partition_by says "
            f"{', '.join(options.partition_by)}"
        )


def _tasks_may_write(table: Any) -> bool:
    """Whether tasks can part rows by the table's partitions: by the values of columns of simple types."""
    schema = table.schema()
    return all(
        str(each.transform) == "identity" and str(schema.find_field(each.source_id).field_type) in _PARTITION_TYPES
        for each in table.spec().fields
    )


def _partition_columns(table: Any) -> tuple[str, ...]:
    return tuple(table.schema().find_column_name(each.source_id) for each in table.spec().fields)


def _schema_of(table: Any) -> Any:
    """Return the table's schema as pyarrow has it, without the ids of its columns: pyiceberg adds files that have names
    alone, by a mapping of these that it keeps with the table."""
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    return schema_to_pyarrow(table.schema(), include_field_ids=False)


def _arrow_schema(rows: Any) -> Any:
    """Return the schema of a DataFrame as pyarrow has it, with times in UTC and columns that may be null."""
    import pyarrow as pa

    return pa.schema([pa.field(each.name, _in_utc(each.type)) for each in rows.limit(0).toArrow().schema])


def _in_utc(kind: Any) -> Any:
    import pyarrow as pa

    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", "UTC" if kind.tz else None)
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(each.name, _in_utc(each.type)) for each in kind])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_in_utc(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(_in_utc(kind.key_type), _in_utc(kind.item_type))
    return kind


def _file_io(plan: IcebergPlan) -> Any:
    try:
        from pyiceberg.io import load_file_io
    except ImportError as error:
        raise IcebergMissing("to_iceberg needs pyiceberg on the executors too: pip install pyiceberg there") from error
    return load_file_io(plan.properties, plan.location)
