"""Topic and Delta table from one micro-batch, each once under every fault of the proof; and what tasks write."""

import datetime
import operator
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from oncelog.pipeline.sink import Step
from oncelog.pipeline.sink.delta import (
    FilePlan,
    TableBatch,
    TableOptions,
    check_files,
    commit,
    prepare,
    write_files,
)
from oncelog.pipeline.sink.outputs import ExactlyOnce
from oncelog.pipeline.sink.statistics import has_bounds
from oncelog.pipeline.sink.table_files import FilesLost, TableMismatch, TableStep
from tests.spark.scenes import BATCHES
from tests.spark.table_query import HIT, TableQuery, outlast_a_death, outlast_a_second_driver
from tests.support.processes.daemon import Daemon
from tests.support.spark.driver_death import MOMENTS, Death, deaths

pytest.importorskip("deltalake")
import pyarrow
import pyarrow.dataset
from deltalake import DeltaTable, Field, Schema, write_deltalake

pytestmark = pytest.mark.spark
POINTS = [
    *(pytest.param(each, marks=() if each.step is Step.END else pytest.mark.slow) for each in deaths(1)),
    *(Death(step, moment, nth) for step in TableStep for nth in (1, 2) for moment in MOMENTS),
]
"""Around each step of a batch with one topic and two tables."""


def column(table: Path, name: str) -> list[Any]:
    found: list[Any] = DeltaTable(str(table)).to_pyarrow_table().column(name).to_pylist()
    return found


@pytest.fixture
def tables(tmp_path: Path) -> tuple[Path, Path]:
    """One that is written before the topic, and one after it."""
    return tmp_path / "before", tmp_path / "after"


@pytest.fixture
def query(
    spark: Any, daemon: Daemon, tmp_path: Path, tables: tuple[Path, Path], request: pytest.FixtureRequest
) -> TableQuery:
    topic = "tables-" + "".join(each if each.isalnum() else "-" for each in request.node.name)
    before, after = map(str, tables)

    def write(once: ExactlyOnce, batch: Any) -> None:
        once.to_delta(batch, before).to_topic(batch, topic).to_delta(batch, after)

    return TableQuery(
        spark, daemon, tmp_path, topic, write, lambda: [Counter(column(table, "value")) for table in tables]
    )


@pytest.mark.parametrize("death", POINTS, ids=repr)
def test_a_driver_that_dies_at_any_step_leaves_each_batch_once(query: TableQuery, death: Death) -> None:
    """Files of the dead driver are in no commit."""
    outlast_a_death(query, death)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("point", POINTS, ids=repr)
def test_of_two_drivers_each_batch_comes_once(query: TableQuery, point: Death) -> None:
    outlast_a_second_driver(query, point)


def test_a_batch_that_spark_runs_again_is_in_topic_and_tables_once(
    query: TableQuery, tables: tuple[Path, Path], caplog: pytest.LogCaptureFixture
) -> None:
    """Spark does not know of the last batch: nothing is written again, no task runs for the tables, and it is said."""
    query.run()
    files = [len(list(table.glob("*.parquet"))) for table in tables]
    query.forget_last_commit()
    query.tasks = 5
    query.run()
    query.check()
    assert query.outcome is not None
    assert not query.outcome.published
    assert query.outcome.tables == {str(table): False for table in tables}
    skipped = [each for each in caplog.messages if "skipped" in each]
    assert len(skipped) == 1 + len(tables)
    assert all(any(f"is in table {table} already" in each for each in skipped) for table in tables)
    assert [len(list(table.glob("*.parquet"))) for table in tables] == files
    commits = [each for each in DeltaTable(str(tables[0])).history() if "oncelog.batch" in each]
    assert [each["oncelog.batch"] for each in commits] == ["2", "1", "0"]
    assert all(each["oncelog.offsets"].startswith("v1") for each in commits)


def test_an_old_copy_of_the_checkpoint_changes_neither_topic_nor_table(query: TableQuery, tmp_path: Path) -> None:
    old = tmp_path / "old"
    later = [tmp_path / "in" / f"{batch}.json" for batch in range(HIT, BATCHES)]
    for path in later:
        path.rename(tmp_path / path.name)
    query.run()
    shutil.copytree(query.checkpoint, old)
    for path in later:
        (tmp_path / path.name).rename(path)
    query.run()
    shutil.rmtree(query.checkpoint)
    old.rename(query.checkpoint)
    with pytest.raises(Exception, match="old copy of the checkpoint"):
        query.run()
    query.check()


# --- what the tasks write ---------------------------------------------------------------------------------------------

ALL_TYPES = """select cast(id as int) as small, id as large, cast(id as string) as text,
    cast(cast(id as string) as binary) as bytes, cast(id as decimal(12, 2)) as money, id % 2 = 0 as even,
    date_add(date '2026-01-01', cast(id as int)) as day,
    timestamp_seconds(id) as at, cast(timestamp_seconds(id) as timestamp_ntz) as local, id / 3 as third,
    array(named_struct('a', id, 'b', cast(null as string), 'at', timestamp_seconds(id))) as nested,
    map('k', id) as pairs,
    if(id % 3 = 0, null, repeat('long', cast(id as int))) as gaps from range(50)"""


def append(rows: Any, table: Path, batch_id: int, app_id: str = "app") -> bool:
    batch = prepare(rows, str(table), app_id, batch_id)
    return batch is not None and commit(batch, b"{}")


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
def test_a_table_has_the_rows_and_types_that_spark_has(spark: Any, tmp_path: Path, zone: str) -> None:
    """Delta-rs and Spark read the same rows and types from the table as the query gave."""
    with small_driver(spark, 1), setting(spark, "spark.sql.session.timeZone", zone):  # nothing is left to the driver
        rows = spark.sql(ALL_TYPES)
        assert append(rows, tmp_path, 0)
        table = DeltaTable(str(tmp_path))
        paths = [str(tmp_path / each) for each in table.get_add_actions().column("path").to_pylist()]
        assert sorted(table.to_pyarrow_table().to_pylist(), key=str) == sorted(in_utc(rows), key=str)
        assert sorted(spark.read.parquet(*paths).collect(), key=str) == sorted(rows.collect(), key=str)
        assert append(rows, tmp_path, 1)
    assert DeltaTable(str(tmp_path)).to_pyarrow_table().num_rows == 100


def in_utc(rows: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = rows.toArrow().to_pylist()
    for row in found:
        row["at"] = row["at"].astimezone(datetime.UTC)
        row["nested"] = [{**each, "at": each["at"].astimezone(datetime.UTC)} for each in row["nested"]]
    return found


def test_a_reader_that_skips_files_finds_the_rows_of_all(spark: Any, tmp_path: Path) -> None:
    """Other files have minima and maxima, which delta-rs writes: files that had them for some columns lost rows."""
    for batch_id in range(2):
        assert append(spark.sql(ALL_TYPES), tmp_path, batch_id)
        write_deltalake(str(tmp_path), spark.sql(ALL_TYPES).toArrow(), mode="append")
    table = DeltaTable(str(tmp_path))
    wanted = next(row for row in table.to_pyarrow_table().to_pylist() if row["large"] == 40)
    for name in wanted.keys() - {"nested", "pairs"}:
        found = table.to_pyarrow_table(filters=[(name, "=", wanted[name])]).column("large").to_pylist()
        assert found.count(40) == 4, name


def test_a_reader_skips_the_files_that_cannot_have_what_it_looks_for(spark: Any, tmp_path: Path) -> None:
    """Batches of 50 rows each: a value of one batch is looked for in its files only, by each type with an order."""
    for batch_id in range(2):
        shifted = ALL_TYPES.replace("range(50)", f"range({100 * batch_id}, {100 * batch_id + 50})")
        assert append(spark.sql(shifted), tmp_path, batch_id)
    table = DeltaTable(str(tmp_path))
    added = pyarrow.table(table.get_add_actions(flatten=True)).to_pylist()
    files = {each["path"]: each["max.large"] < 100 for each in added}
    assert {*files.values()} == {True, False}
    row = next(row for row in table.to_pyarrow_table().to_pylist() if row["large"] == 140)
    dataset = table.to_pyarrow_dataset()
    for name in ("small", "large", "money", "day", "at", "local", "third"):
        for compare, is_first in ((operator.eq, False), (operator.lt, None), (operator.gt, False)):
            wanted = compare(pyarrow.dataset.field(name), row[name])
            looked_into = {files[Path(each.path).name] for each in dataset.get_fragments(filter=wanted)}
            assert looked_into == ({True, False} if is_first is None else {is_first}), (name, compare)


ODD = {
    "noise": [float("nan"), 1.0, 2.0],
    "endless": [float("inf"), float("-inf"), 2.0],
    "zeros": [0.0, -0.0, None],
    "nothing": [None, None, None],
    "long": ["a" * 70, "é" * 40, "\U0010ffff" * 40],
    "bytes": [b"\xff", None, b""],
    "at": [datetime.datetime(2026, 1, 1, microsecond=each, tzinfo=datetime.UTC) for each in (1, 999_999, 500_500)],
    "money": [Decimal("99999999999.99"), Decimal("-0.01"), None],
    "inside": [{"n": 1}, None, {"n": 3}],
}


COMPARE = (operator.eq, operator.ge, operator.le)


@pytest.mark.parametrize("columns", [*([name] for name in ODD), [*ODD]], ids=",".join)
def test_rows_of_odd_values_are_found_beside_files_of_delta_rs(tmp_path: Path, columns: list[str]) -> None:
    """Not a number, without end, both zeros, nulls only, text and times beyond what a bound has; no session needed."""
    kinds = {"nothing": pyarrow.int64()}
    rows = pyarrow.table({"id": [1, 2, 3], **{name: pyarrow.array(ODD[name], kinds.get(name)) for name in columns}})
    theirs = rows.set_column(0, "id", [[-1, -2, -3]])
    write_deltalake(str(tmp_path), theirs)
    table = DeltaTable(str(tmp_path))
    schema = pyarrow.schema(table.schema().to_arrow())
    plan = FilePlan(tmp_path.as_uri(), {}, schema, (), has_bounds(schema, {}))
    assert commit(TableBatch(table, "app", 0, list(write_files(plan, rows.to_batches()))), b"")
    write_deltalake(str(tmp_path), theirs, mode="append")
    dataset = DeltaTable(str(tmp_path)).to_pyarrow_dataset()
    for name in (each for each in columns if each != "inside"):
        field = pyarrow.dataset.field(name)
        wanted = [field.is_null(), *(compare(field, value) for value in {*ODD[name]} - {None} for compare in COMPARE)]
        for each in wanted:
            ours = each & (pyarrow.dataset.field("id") > 0)
            assert dataset.to_table(filter=ours).column("id") == rows.filter(ours).column("id"), each


def test_a_partitioned_table_is_written_by_tasks(spark: Any, tmp_path: Path) -> None:
    """Text with characters that a path must escape, dates, null and the empty text, which Delta holds to be null."""
    rows = spark.sql(
        """select id, element_at(array('a/b =%20', 'ü', '', null), cast(id % 4 + 1 as int)) as name,
                  date_add(date '2026-01-01', cast(id % 2 as int)) as day from range(40)"""
    )
    write_deltalake(str(tmp_path), rows.limit(0).toArrow(), partition_by=["name", "day"])
    with small_driver(spark, 1):
        assert append(rows, tmp_path, 0)
    found = {(row["id"], row["name"], row["day"]) for row in DeltaTable(str(tmp_path)).to_pyarrow_table().to_pylist()}
    assert found == {(row.id, row.name or None, row.day) for row in rows.collect()}
    one = [("name", "=", "ü"), ("day", "=", datetime.date(2026, 1, 2))]
    ids = DeltaTable(str(tmp_path)).to_pyarrow_table(filters=one).column("id").to_pylist()
    assert sorted(ids) == list(range(1, 40, 4))


def test_what_delta_must_check_is_written_by_delta(spark: Any, tmp_path: Path) -> None:
    """A constraint holds, a type is converted, and a column that the table has not is refused; each batch once."""
    table = str(tmp_path)
    write_deltalake(table, spark.sql("select cast(id as int) as n from range(1)").toArrow())
    DeltaTable(table).alter.add_constraint({"positive": "n >= 0"})
    assert append(spark.sql("select id as n from range(3)"), tmp_path, 0)
    for _ in range(2):
        assert prepare(spark.sql("select id as n from range(3)"), table, "app", 0) is None
    for rows in ("select cast(-1 as int) as n", "select 1 as n, 2 as m"):
        with pytest.raises(Exception, match=r"validation check|has no column 'm'"):
            append(spark.sql(rows), tmp_path, 1)
    assert sorted(column(tmp_path, "n")) == [0, 0, 1, 2]


def test_a_column_that_the_table_computes_may_be_left_out(spark: Any, tmp_path: Path) -> None:
    computed = Field("m", "integer", metadata={"delta.generationExpression": "n + 1"})
    DeltaTable.create(str(tmp_path), Schema([Field("n", "integer"), computed]))
    assert append(spark.sql("select cast(id as int) as n from range(2)"), tmp_path, 0)
    assert sorted(column(tmp_path, "m")) == [1, 2]


@pytest.mark.parametrize(
    "rows", ["select cast(id as int) as n from range(3)", "select id as n from range(3)"], ids=["tasks", "delta"]
)
def test_a_second_driver_between_decision_and_commit_is_noticed(spark: Any, tmp_path: Path, rows: str) -> None:
    """Both have decided that the table has not this batch; the second to commit finds that it has. Another
    application's commit in between is no obstacle."""
    append(spark.sql("select cast(id as int) as n from range(1)"), tmp_path, 0)
    first, second, other = (prepare(spark.sql(rows), str(tmp_path), app, 1) for app in ("app", "app", "other"))
    assert first and second and other
    assert commit(second, b"") and commit(other, b"")
    assert not commit(first, b"")
    assert sorted(column(tmp_path, "n")) == [0, 0, 0, 1, 1, 2, 2]


def test_an_empty_batch_is_remembered(spark: Any, tmp_path: Path) -> None:
    rows = spark.sql("select 1 as n")
    for batch_id, each in enumerate((rows.where("n = 2"), rows, rows.where("n = 2"))):
        assert append(each, tmp_path, batch_id)
    assert DeltaTable(str(tmp_path)).transaction_version("app") == 2
    assert column(tmp_path, "n") == [1]


def test_files_that_the_driver_does_not_see_are_not_committed(tmp_path: Path) -> None:
    """An executor on another machine wrote to the same path on its own disk."""
    rows = pyarrow.table({"n": [1, 2, 3]})
    here, there = (tmp_path / name for name in ("here", "there"))
    for each in (here, there):
        write_deltalake(str(each), rows)
    elsewhere, plan = (FilePlan(each.as_uri(), {}, rows.schema, ()) for each in (there, here))
    files = list(write_files(elsewhere, rows.to_batches()))
    check_files(elsewhere, files)
    with pytest.raises(FilesLost, match="that driver and executors share"):
        check_files(plan, files)
    (here / files[0].path).write_bytes(b"cut")
    with pytest.raises(FilesLost, match="finds 3"):
        check_files(plan, files)


@contextmanager
def setting(spark: Any, name: str, value: str) -> Iterator[None]:
    before = spark.conf.get(name)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.set(name, before)


@contextmanager
def small_driver(spark: Any, megabytes: int) -> Iterator[None]:
    """A driver that takes no more than so much from the tasks of a job: Spark ends the job that sends it more."""
    settings = spark.sparkContext._jsc.sc().conf()
    before = settings.get("spark.driver.maxResultSize", "1g")
    settings.set("spark.driver.maxResultSize", f"{megabytes}m")
    try:
        yield
    finally:
        settings.set("spark.driver.maxResultSize", before)


def test_rows_of_a_table_do_not_pass_through_the_driver(spark: Any, tmp_path: Path) -> None:
    """200 MB of rows and a driver that takes 1 MB; a table whose rows do pass through it shows that it would not."""
    rows = spark.range(400_000, numPartitions=4).selectExpr(
        "id", "array_join(transform(sequence(1, 15), i -> sha2(string(id * 100 + i), 224)), '') as text"
    )
    written: Callable[[Path], bool] = lambda table: append(rows, table, 0)  # noqa: E731
    with small_driver(spark, 1):
        assert written(tmp_path / "tasks")
        write_deltalake(str(tmp_path / "driver"), rows.limit(0).toArrow())
        DeltaTable(str(tmp_path / "driver")).alter.add_constraint({"positive": "id >= 0"})
        with pytest.raises(Exception, match="maxResultSize"):
            written(tmp_path / "driver")
    table = DeltaTable(str(tmp_path / "tasks"))
    assert table.to_pyarrow_dataset().count_rows() == 400_000
    assert (
        sum(
            Path(tmp_path / "tasks" / each).stat().st_size
            for each in table.get_add_actions().column("path").to_pylist()
        )
        > 100_000_000
    )


# --- growth, partitions, keys -----------------------------------------------------------------------------------------

GROWING = TableOptions(schema_mode="merge")
KEYED = TableOptions(merge_on=("key",))


def rows_of(table: Path) -> list[dict[str, Any]]:
    return sorted(DeltaTable(str(table)).to_pyarrow_table().to_pylist(), key=str)


def put(rows: Any, table: Path, batch_id: int, options: TableOptions) -> bool:
    batch = prepare(rows, str(table), "app", batch_id, options)
    return batch is not None and commit(batch, b"{}")


@pytest.mark.parametrize("by", ["tasks", "delta"])
def test_a_table_gets_the_columns_that_it_lacks_and_nulls_for_those_that_rows_lack(
    spark: Any, tmp_path: Path, by: str
) -> None:
    """The columns are added once, also where the driver dies between the columns and the rows; without schema_mode they
    are refused by name.
    """
    kind = "int" if by == "tasks" else "bigint"  # delta-rs converts, row by row
    first, second = (
        spark.sql(each)
        for each in (
            "select cast(1 as int) as n",
            f"select 's' as s, cast(2 as {kind}) as n, named_struct('a', 1) as inside",
        )
    )
    assert put(first, tmp_path, 0, TableOptions())
    with pytest.raises(TableMismatch, match=r"has no column 'inside'.*schema_mode=\"merge\" to add it"):
        put(second, tmp_path, 1, TableOptions())
    assert prepare(second, str(tmp_path), "app", 1, GROWING) is not None  # the driver dies here
    assert put(second, tmp_path, 1, GROWING)
    assert not put(second, tmp_path, 1, GROWING)
    with pytest.raises(TableMismatch, match=r"has a column 'inside' that the rows lack"):
        put(first, tmp_path, 2, TableOptions())
    assert put(first, tmp_path, 2, GROWING)
    lacking = {"n": 1, "s": None, "inside": None}
    assert rows_of(tmp_path) == sorted([lacking, lacking, {"n": 2, "s": "s", "inside": {"a": 1}}], key=str)


def test_two_drivers_that_add_the_same_column_add_the_rows_once(spark: Any, tmp_path: Path) -> None:
    assert put(spark.sql("select 1 as n"), tmp_path, 0, GROWING)
    wider = spark.sql("select 1 as n, 2 as m")
    first = prepare(wider, str(tmp_path), "app", 1, GROWING)
    assert put(wider, tmp_path, 1, GROWING)
    assert first is not None and not commit(first, b"{}")
    assert rows_of(tmp_path) == sorted([{"n": 1, "m": None}, {"n": 1, "m": 2}], key=str)


def test_a_new_table_has_the_partitions_that_were_asked_for_and_keeps_them(spark: Any, tmp_path: Path) -> None:
    rows = spark.sql("select id, date_add(date '2026-01-01', cast(id % 2 as int)) as day from range(10)")
    with small_driver(spark, 1):
        assert put(rows, tmp_path, 0, TableOptions(partition_by=("day",)))
        assert put(rows, tmp_path, 1, TableOptions())
    assert DeltaTable(str(tmp_path)).metadata().partition_columns == ["day"]
    assert len(rows_of(tmp_path)) == 20
    with pytest.raises(TableMismatch, match="is partitioned by day, and partition_by says id"):
        put(rows, tmp_path, 2, TableOptions(partition_by=("id",)))


def test_rows_replace_those_with_their_key_once(spark: Any, tmp_path: Path) -> None:
    """One of two drivers commits; a batch that runs again changes nothing, also after a later one."""
    name = 'the "total"'
    totals = f"select concat('k', id) as key, {{0}} + id as `{name}` from range({{1}})"
    assert put(spark.sql(totals.format(0, 2)), tmp_path, 0, KEYED)
    batch = spark.sql(totals.format(10, 3))
    first, second = (prepare(batch, str(tmp_path), "app", 1, KEYED) for _ in range(2))
    assert first is not None and second is not None
    assert commit(second, b"{}") and not commit(first, b"{}")
    assert not put(batch, tmp_path, 1, KEYED)
    assert rows_of(tmp_path) == [{"key": f"k{n}", name: 10 + n} for n in range(3)]
    wider = spark.sql(f"select 'k1' as key, 1L as `{name}`, 'new' as s")
    assert put(wider, tmp_path, 2, replace(KEYED, schema_mode="merge"))
    assert rows_of(tmp_path)[1] == {"key": "k1", name: 1, "s": "new"}
    assert put(spark.sql(f"select 'k1' as key, 2L as `{name}`"), tmp_path, 3, KEYED)
    assert rows_of(tmp_path)[1] == {"key": "k1", name: 2, "s": "new"}  # what a row lacks stays


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ("select 'k' as key, id from range(2)", "2 rows and 1 keys"),
        ("select cast(null as string) as key, 1 as id", "key is null in a row"),
        ("select 1 as id", "rows have no column 'key'"),
    ],
)
def test_a_batch_without_one_row_for_each_key_is_refused(spark: Any, tmp_path: Path, rows: str, sentence: str) -> None:
    with pytest.raises(TableMismatch, match=sentence):
        put(spark.sql(rows), tmp_path, 0, KEYED)
    assert rows_of(tmp_path) == []
