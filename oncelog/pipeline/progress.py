"""What a micro-batch read, and what the sink did with it: `query.lastProgress`, and what Spark has no place for.

    found = progress(query)  # or query.lastProgress, or the progress of a StreamingQueryListener's event
    found.sources[0].lag     # {TopicPartition("purchases", 0): 120}
    found.sink.seconds       # {"fence": 0.014, ..., "end the transaction": 0.006}

Owns: the values and where each comes from. Spark's progress has offsets and rows; bytes, aborted records and the sink
come from the notes on the driver's machine (`notes`), so they are None where one of them did not get there.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from oncelog.client import TopicPartition
from oncelog.pipeline.notes import WRITES, Notes
from oncelog.pipeline.sink.plan import run_sink_id
from oncelog.pipeline.source.offsets import INITIAL, StreamOffset, from_json
from oncelog.pipeline.source.planning import OffsetRange, ranges
from oncelog.pipeline.source.waiting import Waiting
from oncelog.pipeline.source.waiting import from_json as waiting_from_json


@dataclass(frozen=True, slots=True)
class SourceProgress:
    """One `format("oncelog")` source of the query, in one micro-batch."""

    ranges: tuple[OffsetRange, ...]
    lag: dict[TopicPartition, int]
    """How many offsets there were from the end of the batch to the last stable one, when the batch was planned."""
    lost: dict[TopicPartition, int]
    """How many offsets were lost over the life of the query, with failOnDataLoss=false."""
    records: int
    """The number of rows that Spark counted."""
    bytes: int | None
    """The bytes fetched, also of what is not shown."""
    aborted: int | None
    """The number of records of aborted transactions that were skipped."""
    waiting: tuple[Waiting, ...] = ()
    """The records that have waited behind open transactions for some seconds, which `lag` does not count."""


@dataclass(frozen=True, slots=True)
class SinkProgress:
    """The result of the batch in the sink of `format("oncelog")` or `exactly_once`."""

    sink_id: str
    """The transactional id of the sink."""
    producer_epoch: int
    published: bool
    """Whether it was published; if not, it was skipped, since its marker showed that it was applied."""
    outputs: dict[str, int]
    """The number of records by output."""
    seconds: dict[str, float]
    """The seconds of each step: connect, fence, read the marker, send, send the marker, flush, end the transaction."""
    time_ms: int
    """The time when it was done."""


@dataclass(frozen=True, slots=True)
class Progress:
    """One micro-batch of a query."""

    query_id: str
    name: str
    batch_id: int
    timestamp: str
    """The time when the trigger began, as Spark writes it: UTC, ISO 8601."""
    duration_ms: dict[str, int]
    """The durations of Spark's own steps."""
    sources: tuple[SourceProgress, ...]
    """The sources of `format("oncelog")`."""
    sink: SinkProgress | None
    """The sink; None for another sink, a batch that is not published yet, or one that was published on another
    machine."""


def progress(query: Any, notes: Notes | None = None) -> Progress | None:
    """Return the newest progress of a query, or a given one; None before the first. `notes` are by default this
    machine's."""
    last_progress: Mapping[str, Any] | None = query if isinstance(query, Mapping) else query.lastProgress
    if last_progress is None:
        return None
    notes = notes or Notes.open()
    query_id, batch_id = str(last_progress["id"]), int(last_progress["batchId"])
    readings = [] if notes is None else notes.of_batch(query_id, "source", batch_id)
    outcomes = [] if notes is None else notes.of_batch(query_id, "sink", batch_id)
    return Progress(
        query_id,
        last_progress["name"] or "",
        batch_id,
        last_progress["timestamp"],
        dict(last_progress["durationMs"]),
        tuple(_source(source, readings) for source in last_progress["sources"] if _end_of(source) is not None),
        sink_of(outcomes[-1]) if outcomes else None,
    )


def written(run_id: str, output: str, notes: Notes | None = None) -> SinkProgress | None:
    """Return what the newest batch write with this `runId` did with an output, named by its topic or `outputName`; None
    if it was not noted on this machine."""
    notes = notes or Notes.open()
    found = None if notes is None else notes.of_sink(WRITES, run_sink_id(run_id, output))
    return None if found is None else sink_of(found)


def lag(last_progress: Mapping[str, Any]) -> dict[TopicPartition, int]:
    """Return how many offsets each partition had to the last stable one when the batch was planned, from its end on.

        query.lastProgress → {TopicPartition("purchases", 0): 120}

    Sources of other formats are left out.
    """
    return {each: count for source in last_progress["sources"] for each, count in _lag(source).items()}


def lost(last_progress: Mapping[str, Any]) -> dict[TopicPartition, int]:
    """Return how many offsets were lost over the life of the query, with failOnDataLoss=false."""
    return {each: count for source in last_progress["sources"] for each, count in _lost(source).items()}


def totals_of(readings: Sequence[Mapping[str, Any]], wanted: Sequence[OffsetRange]) -> tuple[int, int] | None:
    """Return bytes and aborted records of these ranges, from the notes of one batch; None unless all of it was noted. A
    task that ran twice has noted its range twice."""
    found = {(each["topic"], each["partition"], each["start"]): each for each in readings}
    size = aborted = 0
    for part in wanted:
        inside = [
            each
            for (topic, partition, start), each in found.items()
            if (topic, partition) == (part.topic, part.partition) and part.start <= start < part.end
        ]
        if sum(each["end"] - each["start"] for each in inside) != part.end - part.start:
            return None
        size += sum(each["bytes"] for each in inside)
        aborted += sum(each["aborted"] for each in inside)
    return size, aborted


def sink_of(note: Mapping[str, Any]) -> SinkProgress:
    """Return the sink's progress from its note."""
    return SinkProgress(**{name: note[name] for name in SinkProgress.__slots__})


def _source(source: Mapping[str, Any], readings: Sequence[Mapping[str, Any]]) -> SourceProgress:
    wanted = tuple(ranges(_offset(source["startOffset"]) or INITIAL, _end_of(source) or INITIAL))
    noted = totals_of(readings, wanted)
    size, aborted = noted if noted is not None else (None, None)
    waiting = waiting_from_json((_json(source["latestOffset"]) or {}).get("waiting", ()))
    return SourceProgress(wanted, _lag(source), _lost(source), source["numInputRows"], size, aborted, waiting)


def _lag(source: Mapping[str, Any]) -> dict[TopicPartition, int]:
    end, latest = _end_of(source) or INITIAL, _offset(source["latestOffset"]) or INITIAL
    return {
        TopicPartition(name, partition): max(0, stable - end[name].next[partition])
        for name, topic in latest.items()
        for partition, stable in topic.next.items()
        if name in end and partition in end[name].next
    }


def _lost(source: Mapping[str, Any]) -> dict[TopicPartition, int]:
    return dict(_pairs(_end_of(source) or INITIAL))


def _pairs(end: StreamOffset) -> Iterator[tuple[TopicPartition, int]]:
    for name, topic in end.items():
        for partition, count in topic.lost.items():
            yield TopicPartition(name, partition), count


def _end_of(source: Mapping[str, Any]) -> StreamOffset | None:
    return _offset(source["endOffset"])


def _offset(text: Any) -> StreamOffset | None:
    """Return an offset; None before the first batch, and for one of another source."""
    value = _json(text)
    return None if value is None else from_json(value)


def _json(text: Any) -> dict[str, Any] | None:
    """Return an offset as JSON has it. Spark has it so, or as the text of it."""
    try:
        value = json.loads(text) if isinstance(text, str) else text
    except ValueError:
        return None
    return value if isinstance(value, dict) and "topics" in value else None
