"""From options to what tasks and driver need: the plan of an output, the settings of the sink, the wanted marker.

Owns: the names of sinks, the defaults of batches. Shared by `writers` and `outputs`.
"""

from collections.abc import Iterable
from typing import Any

from oncelog.pipeline.group_offsets import GroupOffsets, group_offsets
from oncelog.pipeline.notes import noted_marker_offset
from oncelog.pipeline.options import OptionError, Options, reach_of
from oncelog.pipeline.sink.checkpoint import Checkpoint, planned
from oncelog.pipeline.sink.marker import Marker
from oncelog.pipeline.sink.publish import DEFAULTS, SinkSettings
from oncelog.pipeline.sink.rows import check_columns
from oncelog.pipeline.sink.spool import Spool
from oncelog.pipeline.sink.task import TaskPlan, partition_counts

RUN_PREFIX = "spark-run-"


def plan_output(
    options: Options,
    columns: list[tuple[str, str]],
    name: str,
    topic: str | None,
    owner: str,
    *,
    has_digest: bool = False,
) -> TaskPlan:
    """Return how the tasks encode one output. Raises SchemaError, ConfigError for a topic that does not exist,
    KafkaError."""
    check_columns(columns, topic)
    client = {**DEFAULTS, **options.client}
    reach = reach_of(client)
    return TaskPlan(
        name=name,
        bootstrap_servers=options.bootstrap_servers,
        topic=topic,
        partition_counts={} if topic is None else partition_counts(options.bootstrap_servers, reach, topic),
        batch_size=client["batch_size"],
        compression=options.client.get("compression_type", "none"),
        spool=Spool.open(options["spoolLocation"], owner),
        reach=reach,
        has_digest=has_digest,
    )


def columns_of(schema: Any) -> list[tuple[str, str]]:
    """Return names and types of Spark's StructType."""
    return [(each.name, each.dataType.simpleString()) for each in schema.fields]


def sink_settings(options: Options, sink_id: str, query_id: str = "") -> SinkSettings:
    """Return the settings of a sink. With a query's id, its newest outcome that was noted on this machine says where to
    look for the marker."""
    hint = noted_marker_offset(query_id) if query_id else -1
    return SinkSettings(options.bootstrap_servers, sink_id, dict(options.client), options["markerTopic"], hint)


def checkpoint_of(options: Options, spark: Any = None) -> Checkpoint:
    """Return the query's checkpoint; `spark` is the session of this process, if there is one. Raises OptionError."""
    location = options["checkpointLocation"]
    if location is None:
        raise OptionError(
            "checkpointLocation is missing: the sink needs the query's own checkpoint to know a batch again "
            "(spark.sql.streaming.checkpointLocation does not reach it)"
        )
    return Checkpoint(location, spark)


def stream_sink_id(options: Options, query_id: str) -> str:
    return str(options["sinkId"] or sink_id_of(query_id))


def sink_id_of(query_id: str) -> str:
    return f"spark-sink-{query_id}"


def run_sink_id(run_id: str, output: str) -> str:
    """Return the sink's id of a batch write with the option runId. The name of an output has no slash."""
    return f"{former_run_sink_id(run_id)}/{output}"


def former_run_sink_id(run_id: str) -> str:
    """Return the sink's id that earlier versions gave all outputs of a runId."""
    return f"{RUN_PREFIX}{run_id}"


def group_offsets_of(options: Options, checkpoint: Checkpoint, batch_id: int) -> GroupOffsets | None:
    """Return what the option commitGroup commits with this batch. Raises CheckpointError, OptionError."""
    group_id = options["commitGroup"]
    if group_id is None:
        return None
    ends = [end for end in planned(checkpoint.offsets(batch_id))[1] if end is not None]
    if not ends:
        raise OptionError(f"commitGroup={group_id!r} commits offsets of Kafka, and no source of this query reads Kafka")
    return group_offsets(group_id, ends)


def topics_of(plans: Iterable[TaskPlan]) -> dict[str, str]:
    """Return the topic of each output by its name, as a marker has it."""
    return {plan.name: plan.topic or "" for plan in plans}


def wanted_marker(checkpoint: Checkpoint, batch_id: int, run_id: str = "") -> Marker:
    """Return what the marker says once this batch is applied. Raises CheckpointError."""
    return Marker(batch_id, checkpoint.query_id(), checkpoint.fingerprint(batch_id), run_id)
