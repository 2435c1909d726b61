"""The door for `foreachBatch`: several outputs of one micro-batch, to topics and Delta tables, each exactly once.

Owns: collecting the outputs of a batch, the order topics then tables. Does not own: encoding and publishing, which are
those of `format("oncelog")`.
Invariants
- All topics are written in one transaction; then each table is committed, which remembers the batch by itself
  (`delta`). What tasks do comes before both: after the transaction nothing is left but commits.
- The marker has the id of Spark's run: a second `exactly_once` for the same batch in the same run is refused, since
  skipping it as applied would lose its rows.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import TracebackType
from typing import Any, Literal, Self

from oncelog.pipeline.notes import note_outcome
from oncelog.pipeline.options import parse
from oncelog.pipeline.sink.delta import TableOptions, prepare_delta
from oncelog.pipeline.sink.plan import (
    checkpoint_of,
    group_offsets_of,
    plan_output,
    sink_id_of,
    sink_settings,
    stream_sink_id,
    topics_of,
    wanted_marker,
)
from oncelog.pipeline.sink.publish import Moment, Outcome, SinkSettings, publish
from oncelog.pipeline.sink.running import has_jvm, running
from oncelog.pipeline.sink.spool import TaskOutput
from oncelog.pipeline.sink.table_files import Prepare, TableStep
from oncelog.pipeline.sink.task import TaskPlan, encode_task

logger = logging.getLogger("oncelog.spark.sink")

Run = Callable[[Coroutine[Any, Any, Outcome]], Outcome]
OnStep = Callable[[Any, Moment], Awaitable[None]]
"""Called around each `publish.Step` and each `TableStep`."""
_ROWS = "rows"
"""The name of an output that has none of its own."""


async def _ignore(step: object, moment: str) -> None:
    """Do nothing, as the default observer."""


def exactly_once(
    batch: Any,
    batch_id: int,
    options: Mapping[str, str],
    *,
    on_step: OnStep = _ignore,
    run: Run = asyncio.run,
) -> "ExactlyOnce":
    """The outputs of one micro-batch, in the function that `foreachBatch` calls.

        def publish(batch, batch_id):
            with exactly_once(batch, batch_id, OPTIONS) as once:
                once.to_topic(totals(batch), "totals").to_topic(alerts(batch), "alerts").to_delta(batch, "/tables/all")

        query = rows.writeStream.option("checkpointLocation", CHECKPOINT).foreachBatch(publish).start()

    `options` are those of `writeStream.format("oncelog")`; `checkpointLocation` must be the query's own. Everything
    happens when the block ends; after an exception nothing does. `outcome` is there afterwards. `on_step` is called
    around each step of publishing and of a table, in the event loop that `run` runs: for measurements and tests.

    Raises OptionError, SchemaError, MarkerMismatch, ConfigError and KafkaError; Spark then fails the query, and its
    next start runs the batch again.
    """
    return ExactlyOnce(batch, batch_id, options, on_step, run)


def publisher(options: Mapping[str, str], *, topic: str | None = None) -> "Publisher":
    """The function for `foreachBatch` that publishes each micro-batch, exactly once, as `format("oncelog")` does.

        totals.writeStream.outputMode("update").option("checkpointLocation", CHECKPOINT).foreachBatch(
            publisher(OPTIONS, topic="totals")
        ).start()

    For `outputMode("update")`, which Spark refuses for every sink in Python. `options` are those of
    `writeStream.format("oncelog")`, with the query's own `checkpointLocation`; without `topic`, here and in them, each
    row names its own. Raises OptionError at once; what a batch raises: see `exactly_once`.
    """
    checkpoint_of(parse(options, "writeStream"))
    return Publisher(dict(options), topic)


@dataclass(frozen=True, slots=True)
class Publisher:
    """See `publisher`."""

    options: Mapping[str, str] = field(repr=False)
    topic: str | None

    def __call__(self, batch: Any, batch_id: int) -> None:
        with exactly_once(batch, batch_id, self.options) as once:
            once.to_topic(batch, self.topic, name=_ROWS)


@dataclass(frozen=True, slots=True)
class _Table:
    location: str
    prepare: Prepare


class ExactlyOnce:
    """See `exactly_once`."""

    def __init__(self, batch: Any, batch_id: int, options: Mapping[str, str], on_step: OnStep, run: Run) -> None:
        self.outcome: Outcome | None = None
        self._options = parse(options, "writeStream")
        session = batch.sparkSession
        self._checkpoint = checkpoint_of(self._options, session if has_jvm(session) else None)
        query = running(session, self._checkpoint, batch_id)
        self._query_name = query.query_name or self._options["queryName"]
        self._wanted = wanted_marker(self._checkpoint, batch_id, query.run_id)
        self._on_step = on_step
        self._run = run
        self._topics: dict[str, tuple[Any, TaskPlan]] = {}
        self._tables: dict[str, _Table] = {}
        self._is_open = False

    def __enter__(self) -> Self:
        self._is_open = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._is_open = False
        if error is None:
            self._publish()

    def to_topic(self, rows: Any, topic: str | None = None, *, name: str | None = None) -> Self:
        """Publish a DataFrame with Spark's columns of a Kafka sink. Without `topic` each row names its own; `name`
        (default: the topic) names the output in the marker. Raises ValueError for a name that is taken, SchemaError,
        ConfigError for a topic that does not exist."""
        chosen = self._free_name(name or topic or _ROWS)
        owner = f"{self._checkpoint.location} {chosen}"
        plan = plan_output(self._options, rows.dtypes, chosen, topic or self._options["topic"], owner)
        self._topics[chosen] = (rows, plan)
        return self

    def to_delta(
        self,
        rows: Any,
        table: str,
        *,
        name: str | None = None,
        storage_options: Mapping[str, str] | None = None,
        schema_mode: Literal["merge"] | None = None,
        partition_by: Sequence[str] = (),
        merge_on: Sequence[str] = (),
    ) -> Self:
        """Append a DataFrame to a Delta table, a path or URI, which is created if it does not exist, partitioned by
        the columns `partition_by`. Needs the extra `delta`.

        With `schema_mode="merge"` the table gets columns that it lacks, and columns that the rows lack are null. With
        `merge_on` a row replaces the one that has the same values in these columns. Spark's tasks write the files; rows
        of a table that has constraints, generated or not-null columns, or columns of other types, and those of a merge,
        pass through the driver's memory. Raises ValueError for a name that is taken; when the block ends, TableMismatch
        for rows that do not fit.
        """
        for columns in (partition_by, merge_on):
            if isinstance(columns, str):
                raise ValueError(f"columns are a list of names: [{columns!r}]")
        options = TableOptions(storage_options or {}, schema_mode, tuple(partition_by), tuple(merge_on))
        self._tables[self._free_name(name or table)] = _Table(table, partial(prepare_delta, rows, table, options))
        return self

    def to_iceberg(
        self,
        rows: Any,
        table: str,
        *,
        name: str | None = None,
        catalog: str | None = None,
        properties: Mapping[str, str] | None = None,
        schema_mode: Literal["merge"] | None = None,
        partition_by: Sequence[str] = (),
    ) -> Self:
        """Append a DataFrame to an Iceberg table, `namespace.table`, which is created if it does not exist, partitioned
        by the values of the columns `partition_by`. Needs the extra `iceberg`.

        `catalog` is the name of a catalog in pyiceberg's configuration, `properties` are those of `load_catalog`. With
        `schema_mode="merge"` the table gets columns that it lacks, and columns that the rows lack are null. Spark's
        tasks write the files; rows of a table that is partitioned by more than values pass through the driver's memory.
        Raises ValueError for a name that is taken; when the block ends, TableMismatch for rows that do not fit.
        """
        if isinstance(partition_by, str):
            raise ValueError(f"columns are a list of names: [{partition_by!r}]")
        from oncelog.pipeline.sink import iceberg

        options = iceberg.IcebergOptions(catalog, properties or {}, schema_mode, tuple(partition_by))
        self._tables[self._free_name(name or table)] = _Table(table, partial(iceberg.prepare, rows, table, options))
        return self

    def _free_name(self, name: str) -> str:
        if not self._is_open:
            raise ValueError("use `with exactly_once(...) as once`: the outputs are published when the block ends")
        if name in self._topics or name in self._tables:
            raise ValueError(f"this batch has an output {name!r} already: give the second one another name=")
        return name

    def _publish(self) -> None:
        query_id = self._wanted.query_id
        settings = sink_settings(self._options, stream_sink_id(self._options, query_id), query_id)
        try:
            outputs = [output for rows, plan in self._topics.values() for output in _encode(rows, plan)]
            self._wanted = replace(self._wanted, topics=topics_of(plan for _, plan in self._topics.values()))
            # An output without a row has no task perhaps; its name belongs into the marker all the same.
            outputs += [TaskOutput(name) for name in self._topics]
            self.outcome = self._run(self._write(settings, outputs))
            note_outcome(query_id, self.outcome, self._query_name)
        finally:
            for _, plan in self._topics.values():
                if plan.spool is not None:
                    plan.spool.clear()

    async def _write(self, settings: SinkSettings, outputs: list[TaskOutput]) -> Outcome:
        batch_id = self._wanted.batch_id
        seconds: dict[str, float] = {}

        async def around(step: TableStep, work: Callable[[], Any]) -> Any:
            await self._on_step(step, "before")
            began_s = time.perf_counter()
            result = work()
            seconds[step.value] = seconds.get(step.value, 0.0) + time.perf_counter() - began_s
            await self._on_step(step, "after")
            return result

        batches = {}
        for name, table in self._tables.items():
            # Of the query, whatever the sinkId: a new query with that sinkId has a batch 0 of its own. Two outputs into
            # one table are two applications to it.
            app_id = f"{sink_id_of(self._wanted.query_id)}/{name}"
            batches[name] = await around(TableStep.WRITE, partial(table.prepare, app_id, batch_id))
        positions = group_offsets_of(self._options, self._checkpoint, batch_id)
        outcome = await publish(settings, self._wanted, outputs, self._on_step, positions)
        tables = {}
        for name, commit in batches.items():
            tables[name] = commit is not None and await around(
                TableStep.COMMIT, partial(commit, self._checkpoint.offsets(batch_id))
            )
            if not tables[name]:
                location = self._tables[name].location
                logger.warning("batch %d is in table %s already and is skipped there", batch_id, location)
        return replace(outcome, seconds={**outcome.seconds, **seconds}, tables=tables)


def _encode(rows: Any, plan: TaskPlan) -> list[TaskOutput]:
    """Let Spark's tasks encode a DataFrame, and return their outputs, without those of attempts that failed."""

    def encode(batches: Any) -> Any:
        from pickle import dumps

        import pyarrow

        yield pyarrow.RecordBatch.from_pydict({"output": [dumps(encode_task(plan, batches))]})

    from pickle import loads

    return [loads(bytes(row.output)) for row in rows.mapInArrow(encode, "output binary").collect()]
