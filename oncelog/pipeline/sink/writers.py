"""`writeStream.format("oncelog")` and `write.format("oncelog")`: Spark's two kinds of writer, around the same steps.

Owns: what Spark calls when. Spark makes a writer three times a batch: to plan the tasks (that one is pickled into
them), and once more in the process that commits; nothing but the messages of the tasks comes from the one to the other.
Invariant: `abort` decides nothing: Spark calls it after any error in `commit`, also when the transaction is committed.
"""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from oncelog.pipeline.imported import set_imported_aside
from oncelog.pipeline.notes import WRITES, note_outcome
from oncelog.pipeline.options import OptionError, Options
from oncelog.pipeline.sink.marker import Marker
from oncelog.pipeline.sink.plan import (
    checkpoint_of,
    columns_of,
    former_run_sink_id,
    group_offsets_of,
    plan_output,
    run_sink_id,
    sink_settings,
    stream_sink_id,
    topics_of,
    wanted_marker,
)
from oncelog.pipeline.sink.publish import publish
from oncelog.pipeline.sink.spool import Spool, SpoolLost, TaskOutput
from oncelog.pipeline.sink.task import encode_task

_OUTPUT = "rows"


@dataclass
class Written(WriterCommitMessage):
    """The message of a task."""

    output: TaskOutput


def batch_writer(options: Options, schema: Any, overwrite: bool) -> "BatchWriter":
    """Raises OptionError, SchemaError, ConfigError and KafkaError."""
    if overwrite:
        raise OptionError('a topic cannot be overwritten: use mode("append")')
    return BatchWriter(options, schema)


def stream_writer(options: Options, schema: Any) -> "StreamWriter":
    """Raises OptionError, SchemaError, ConfigError and KafkaError."""
    checkpoint_of(options)
    return StreamWriter(options, schema)


class BatchWriter(DataSourceArrowWriter):
    """Writes in one transaction for the whole job; with `runId`, once per id and output."""

    def __init__(self, options: Options, schema: Any) -> None:
        self._options = options
        run_id, topic = options["runId"], options["topic"]
        name = options["outputName"] or topic or _OUTPUT
        self._sink_id = run_sink_id(run_id, name) if run_id else f"spark-write-{uuid4()}"
        self._plan = plan_output(options, columns_of(schema), name, topic, self._sink_id, has_digest=run_id is not None)

    def write(self, iterator: Iterator[Any]) -> Written:
        return Written(encode_task(self._plan, iterator))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        # A write without a row has no task perhaps; its name belongs into the marker all the same.
        outputs = [*outputs_of(messages), TaskOutput(self._plan.name)]
        settings = sink_settings(self._options, self._sink_id)
        run_id = self._options["runId"]
        if run_id is None:
            asyncio.run(publish(settings, None, outputs))
        else:
            title = f"runId {run_id} (output {self._plan.name})"
            settings = replace(settings, former_id=former_run_sink_id(run_id), title=title)
            wanted = Marker(0, topics=topics_of([self._plan]))
            note_outcome(WRITES, asyncio.run(publish(settings, wanted, outputs)))
        _clear(self._plan.spool)
        set_imported_aside("commit")

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        _clear(self._plan.spool)


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes in one transaction for each micro-batch, with its marker."""

    def __init__(self, options: Options, schema: Any) -> None:
        self._options = options
        self._plan = plan_output(
            options, columns_of(schema), _OUTPUT, options["topic"], checkpoint_of(options).location
        )

    def write(self, iterator: Iterator[Any]) -> Written:
        return Written(encode_task(self._plan, iterator))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  # Spark's
        checkpoint = checkpoint_of(self._options)
        wanted = replace(wanted_marker(checkpoint, batchId), topics=topics_of([self._plan]))
        settings = sink_settings(self._options, stream_sink_id(self._options, wanted.query_id), wanted.query_id)
        positions = group_offsets_of(self._options, checkpoint, batchId)
        outcome = asyncio.run(publish(settings, wanted, outputs_of(messages), group_offsets=positions))
        _clear(self._plan.spool)
        note_outcome(wanted.query_id, outcome, self._options["queryName"])
        set_imported_aside("commit")

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        _clear(self._plan.spool)


def outputs_of(messages: Sequence[WriterCommitMessage | None]) -> list[TaskOutput]:
    """Return the outputs of all tasks. Raises SpoolLost if one has none: Spark commits only what every task has
    finished."""
    outputs = [message.output for message in messages if isinstance(message, Written)]
    if len(outputs) != len(messages):
        raise SpoolLost(f"{len(messages) - len(outputs)} of {len(messages)} tasks sent no message")
    return outputs


def _clear(spool: Spool | None) -> None:
    if spool is not None:
        spool.clear()
