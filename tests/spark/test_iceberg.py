"""Topic and Iceberg table from one micro-batch, each once under the faults of the Delta table; and what tasks write."""

import datetime
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from oncelog.pipeline.sink import Step
from oncelog.pipeline.sink.iceberg import IcebergOptions, prepare
from oncelog.pipeline.sink.marker import MarkerMismatch
from oncelog.pipeline.sink.outputs import ExactlyOnce
from oncelog.pipeline.sink.table_files import TableMismatch, TableStep
from tests.spark.scenes import BATCHES
from tests.spark.table_query import TableQuery, outlast_a_death, outlast_a_second_driver
from tests.support.processes.daemon import Daemon
from tests.support.spark.driver_death import MOMENTS, Death, deaths

pytest.importorskip("pyiceberg")
from pyiceberg.catalog import load_catalog

pytestmark = pytest.mark.spark
POINTS = [
    *(pytest.param(each, marks=() if each.step is Step.END else pytest.mark.slow) for each in deaths(1)),
    *(Death(step, moment) for step in TableStep for moment in MOMENTS),
]
"""Around each step of a batch with one topic and one table."""


@pytest.fixture
def options(tmp_path: Path) -> IcebergOptions:
    """A catalog of this test's own."""
    (tmp_path / "warehouse").mkdir()
    return IcebergOptions(
        "tests",
        {
            "type": "sql",
            "uri": f"sqlite:///{tmp_path}/catalog.db",
            "warehouse": (tmp_path / "warehouse").as_uri(),
        },
    )


def loaded(options: IcebergOptions, table: str = "shop.rows") -> Any:
    return load_catalog(options.catalog, **options.properties).load_table(table)


def rows_of(options: IcebergOptions, table: str = "shop.rows") -> list[dict[str, Any]]:
    return sorted(loaded(options, table).scan().to_arrow().to_pylist(), key=str)


def put(rows: Any, options: IcebergOptions, batch_id: int, app_id: str = "app") -> bool:
    commit = prepare(rows, "shop.rows", options, app_id, batch_id)
    return commit is not None and commit(b"v1")


@pytest.fixture
def query(spark: Any, daemon: Daemon, tmp_path: Path, options: IcebergOptions) -> TableQuery:
    topic = f"iceberg-{tmp_path.name}"
    place = {"catalog": options.catalog, "properties": options.properties}

    def write(once: ExactlyOnce, batch: Any) -> None:
        once.to_topic(batch, topic).to_iceberg(batch, "shop.rows", **place)

    return TableQuery(
        spark, daemon, tmp_path, topic, write, lambda: [Counter(each["value"] for each in rows_of(options))]
    )


@pytest.mark.sampled(3)
@pytest.mark.parametrize("death", POINTS, ids=repr)
def test_a_driver_that_dies_at_any_step_leaves_each_batch_once(query: TableQuery, death: Death) -> None:
    """Files of the dead driver are in no snapshot."""
    outlast_a_death(query, death)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("point", POINTS, ids=repr)
def test_of_two_drivers_each_batch_comes_once(query: TableQuery, point: Death) -> None:
    outlast_a_second_driver(query, point)


def test_a_batch_that_spark_runs_again_is_skipped_also_when_its_snapshot_has_expired(
    query: TableQuery, options: IcebergOptions
) -> None:
    """The summary of a snapshot names the batch, and a property of the table remembers it."""
    query.run()
    table = loaded(options)
    summaries = [each.summary.additional_properties for each in table.metadata.snapshots]
    assert [each["oncelog.batch-id"] for each in summaries] == [str(batch) for batch in range(BATCHES)]
    assert all(each["oncelog.offsets"].startswith("v1") for each in summaries)
    current = table.current_snapshot()
    old = [each.snapshot_id for each in table.metadata.snapshots if each.snapshot_id != current.snapshot_id]
    table.maintenance.expire_snapshots().by_ids(old).commit()
    table.append(table.scan().to_arrow().slice(0, 0))  # the newest snapshot is another's
    query.forget_last_commit()
    query.run()
    assert query.outcome is not None
    assert (query.outcome.published, query.outcome.tables) == (False, {"shop.rows": False})
    query.check()


def test_an_old_copy_of_the_checkpoint_is_refused(spark: Any, options: IcebergOptions) -> None:
    rows = spark.sql("select 1 as n")
    assert put(rows, options, 0) and put(rows, options, 1)
    with pytest.raises(MarkerMismatch, match="old copy of the checkpoint"):
        put(rows, options, 0)
    assert len(rows_of(options)) == 2


def test_a_second_driver_between_decision_and_commit_is_noticed(spark: Any, options: IcebergOptions) -> None:
    """pyiceberg would repeat a refused commit on top of the other one. Another application's commit is no obstacle; an
    empty batch is remembered as any other."""
    rows, none = spark.sql("select id from range(3)"), spark.sql("select id from range(0)")
    assert put(rows, options, 0)
    first, second, other, empty = (
        prepare(each, "shop.rows", options, app, 1)
        for each, app in ((rows, "app"), (rows, "app"), (rows, "other"), (none, "empty"))
    )
    assert first and second and other and empty
    assert second(b"") and other(b"") and empty(b"")
    assert not first(b"")
    assert Counter(each["id"] for each in rows_of(options)) == {0: 3, 1: 3, 2: 3}
    assert prepare(rows, "shop.rows", options, "empty", 1) is None
    assert loaded(options).properties.get("commit.retry.num-retries") is None


def test_a_table_has_the_rows_and_types_that_spark_has(spark: Any, options: IcebergOptions) -> None:
    rows = spark.sql(
        """select cast(id as int) as small, id as large, cast(id as string) as text,
        cast(id as decimal(12, 2)) as money, cast(cast(id as string) as binary) as bytes, id % 2 = 0 as even,
        date_add(date '2026-01-01', cast(id as int)) as day,
        timestamp_seconds(id) as at, cast(timestamp_seconds(id) as timestamp_ntz) as local, id / 3 as third,
        array(named_struct('a', id, 'at', timestamp_seconds(id))) as nested, map('k', id) as pairs,
        if(id % 3 = 0, null, 'long') as gaps from range(20)"""
    )
    assert put(rows, options, 0)
    wanted = rows.toArrow().to_pylist()
    for row in wanted:
        row["at"] = row["at"].astimezone(datetime.UTC)
        row["nested"] = [{**each, "at": each["at"].astimezone(datetime.UTC)} for each in row["nested"]]
    assert rows_of(options) == sorted(wanted, key=str)


@pytest.mark.parametrize("by", ["tasks", "pyiceberg"])
def test_a_partitioned_table_has_its_rows_in_their_partitions(spark: Any, options: IcebergOptions, by: str) -> None:
    """Tasks partition by values; pyiceberg partitions by the day of a time, in the driver."""
    rows = spark.sql(
        """select id, element_at(array('a/b =%20', 'ü', null), cast(id % 3 + 1 as int)) as name,
        timestamp_seconds(86400 * (id % 2)) as at from range(12)"""
    )
    assert put(rows.limit(0), replace(options, partition_by=("name",)), 0)
    if by == "pyiceberg":
        pytest.importorskip("pyiceberg_core")
        with loaded(options).update_spec() as spec:
            spec.add_field("at", "day")
    assert put(rows, options, 1)
    assert Counter(each["id"] for each in rows_of(options)) == dict.fromkeys(range(12), 1)
    table = loaded(options)
    assert sorted(table.scan(row_filter="name = 'ü'").to_arrow().column("id").to_pylist()) == [1, 4, 7, 10]
    assert len({str(each.file.partition) for each in table.scan().plan_files()}) == (3 if by == "tasks" else 6)
    with pytest.raises(TableMismatch, match="is partitioned by name"):
        put(rows, replace(options, partition_by=("id",)), 2)


@pytest.mark.parametrize(
    ("first", "second", "grown"),
    [
        ("struct(1 as a)", "struct(2 as a, 'x' as b)", [{"a": 1, "b": None}, {"a": 2, "b": "x"}]),
        ("array(struct(1 as a))", "array(struct(2 as a, 'x' as b))", [[{"a": 1, "b": None}], [{"a": 2, "b": "x"}]]),
        ("1", "2L", [1, 2]),
        ("1L", "2", [1, 2]),
        ("1L", "'007'", None),
        ("'text'", "7", None),
        ("struct(1 as a)", "struct('x' as a)", None),
        ("cast(1 as decimal(10, 2))", "cast(1 as decimal(10, 4))", None),
    ],
)
def test_no_value_is_cut_or_changed_to_fit_into_a_table(
    spark: Any, options: IcebergOptions, first: str, second: str, grown: list[Any] | None
) -> None:
    """A field more inside of a column, or a wider type, is refused or grown; another type is refused."""
    growing = replace(options, schema_mode="merge")
    assert put(spark.sql(f"select {first} as c"), options, 0)
    rows = spark.sql(f"select {second} as c")
    if second != "2":  # a narrower type fits
        with pytest.raises(TableMismatch, match=r"'c.*'"):
            put(rows, options, 1)
    if grown is None:
        with pytest.raises(Exception, match=r"(?i)'c.*'|cannot change column type|incompatible|c:|c\.a:"):
            put(rows, growing, 1)
        assert len(rows_of(options)) == 1
    else:
        assert put(rows, growing, 1)
        assert sorted((each["c"] for each in rows_of(options)), key=str) == grown
        assert put(spark.sql(f"select {first} as c"), growing, 2)  # what it lacks inside is null
        assert [each["c"] for each in rows_of(options)].count(grown[0]) == 2


def test_a_table_that_is_there_keeps_its_partitions(spark: Any, options: IcebergOptions) -> None:
    """A table without a row, created by another program, keeps its partitions too."""
    assert put(spark.sql("select 1 as n"), options, 0)
    load_catalog(options.catalog, **options.properties).create_table("shop.empty", loaded(options).schema())
    with pytest.raises(TableMismatch, match="is partitioned by nothing"):
        prepare(spark.sql("select 1 as n"), "shop.empty", replace(options, partition_by=("n",)), "app", 0)


def test_a_table_gets_the_columns_that_it_lacks_and_nulls_for_those_that_rows_lack(
    spark: Any, options: IcebergOptions
) -> None:
    """The columns are added once, also where the driver dies between the columns and the rows; without schema_mode they
    are refused by name.
    """
    first, second = spark.sql("select 1 as n"), spark.sql("select 's' as s, 2 as n, named_struct('a', 1) as inside")
    growing = replace(options, schema_mode="merge")
    assert put(first, options, 0)
    with pytest.raises(TableMismatch, match=r"has no column 'inside'.*schema_mode=\"merge\" to add it"):
        put(second, options, 1)
    assert prepare(second, "shop.rows", growing, "app", 1) is not None  # the driver dies here
    assert put(second, growing, 1)
    assert not put(second, growing, 1)
    with pytest.raises(TableMismatch, match="has a column 'inside' that the rows lack"):
        put(first, options, 2)
    assert put(first, growing, 2)
    lacking = {"n": 1, "s": None, "inside": None}
    assert rows_of(options) == sorted([lacking, lacking, {"n": 2, "s": "s", "inside": {"a": 1}}], key=str)
