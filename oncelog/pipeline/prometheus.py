"""The progress of queries as Prometheus metrics, in its text format.

    metrics = Metrics()
    metrics.add(progress(query))
    print(metrics.text())

Owns: the names, the sums over batches. Does not own: when a query made progress (`listening`), serving: `text` is for
any endpoint, `listening` writes it to a file for node_exporter's textfile collector. Invariants
- What is not known (`progress`) has no sample: nothing is counted as 0 that was not counted.
- A counter grows by a trigger once, however often that is reported.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from oncelog.pipeline.progress import Progress, SinkProgress, SourceProgress

PREFIX = "oncelog_spark_"
Labels = tuple[tuple[str, str], ...]


class _Metric(NamedTuple):
    kind: str
    help: str
    labels: tuple[str, ...] = ()
    """The labels besides `query` and `name`."""


METRICS = {
    "batch": _Metric("gauge", "The newest micro-batch."),
    "batch_seconds": _Metric("gauge", "How long the newest micro-batch took, by Spark's steps.", ("step",)),
    "source_lag_records": _Metric(
        "gauge", "Offsets from the end of the batch to the last stable one.", ("topic", "partition")
    ),
    "source_waiting_records": _Metric(
        "gauge", "Offsets from the last stable one to the high watermark, behind a transaction.", ("topic", "partition")
    ),
    "source_waiting_seconds": _Metric(
        "gauge",
        "How long they have waited; the labels say for whom, and what ends it.",
        ("topic", "partition", "transactional_id", "producer_id", "command"),
    ),
    "source_lost_records": _Metric(
        "gauge", "Offsets lost over the life of the query, with failOnDataLoss=false.", ("topic", "partition")
    ),
    "source_records_total": _Metric("counter", "Rows read."),
    "source_bytes_total": _Metric("counter", "Bytes fetched."),
    "source_aborted_records_total": _Metric("counter", "Records of aborted transactions that were skipped."),
    "sink_epoch": _Metric("gauge", "The producer epoch of the newest batch."),
    "sink_published_total": _Metric("counter", "Micro-batches published."),
    "sink_skipped_total": _Metric("counter", "Micro-batches that ran again and were skipped by their marker."),
    "sink_records_total": _Metric("counter", "Records published, by output.", ("output",)),
    "sink_seconds": _Metric("gauge", "How long publishing the newest batch took, by step.", ("step",)),
}
"""The metrics by name, without the prefix. Counters begin at 0 with the process."""
_SOURCE_GAUGES = [name for name, each in METRICS.items() if each.kind == "gauge" and name.startswith("source_")]


class Metrics:
    """The metrics of all queries of one driver."""

    def __init__(self) -> None:
        self._samples: dict[str, dict[Labels, float]] = {name: {} for name in METRICS}
        self._counted: dict[str, str] = {}
        """The last trigger that each query's counters include, by its time."""

    def add(self, found: Progress) -> None:
        query = _labels(found)
        self.remove(found, ("gauge",))
        self._set("batch", query, found.batch_id)
        for step, took_ms in found.duration_ms.items():
            self._set("batch_seconds", (*query, ("step", step)), took_ms / 1000)
        self._add_sources(query, found)
        if found.sink is not None:
            self._set("sink_epoch", query, found.sink.producer_epoch)
            for step, seconds in found.sink.seconds.items():
                self._set("sink_seconds", (*query, ("step", step)), seconds)
        if self._counted.get(found.query_id) != found.timestamp:
            self._counted[found.query_id] = found.timestamp
            self._count(query, found)

    def add_idle(self, found: Progress) -> None:
        """Add the progress of a query that has had no new batch: only its sources have anything new."""
        query = _labels(found)
        self._remove(query, _SOURCE_GAUGES)
        self._add_sources(query, found)

    def remove(self, found: Progress, kinds: tuple[str, ...] = ("gauge", "counter")) -> None:
        """Remove the samples of a query that has ended."""
        self._remove(_labels(found), [name for name, metric in METRICS.items() if metric.kind in kinds])

    def text(self) -> str:
        """Return the metrics in Prometheus' text format, version 0.0.4."""
        return "".join(f"{line}\n" for line in self._lines())

    def _remove(self, query: Labels, names: Iterable[str]) -> None:
        for name in names:
            samples = self._samples[name]
            for labels in [each for each in samples if each[: len(query)] == query]:
                del samples[labels]

    def _add_sources(self, query: Labels, found: Progress) -> None:
        for source in found.sources:
            self._add_state(query, source)
            self._add_waiting(query, source)

    def _add_state(self, query: Labels, source: SourceProgress) -> None:
        for name, counts in (("source_lag_records", source.lag), ("source_lost_records", source.lost)):
            for (topic, partition), count in counts.items():
                self._set(name, (*query, ("topic", topic), ("partition", str(partition))), count)

    def _add_waiting(self, query: Labels, source: SourceProgress) -> None:
        for each in source.waiting:
            place = (*query, ("topic", each.topic), ("partition", str(each.partition)))
            whose = (each.transactional_id, each.producer_id, each.command)
            names = METRICS["source_waiting_seconds"].labels[2:]
            labels = ((name, "" if value is None else str(value)) for name, value in zip(names, whose, strict=True))
            self._set("source_waiting_records", place, each.records)
            if each.for_ms is not None:
                self._set("source_waiting_seconds", (*place, *labels), each.for_ms / 1000)

    def _count(self, query: Labels, found: Progress) -> None:
        for source in found.sources:
            self._grow("source_records_total", query, source.records)
            if source.bytes is not None and source.aborted is not None:
                self._grow("source_bytes_total", query, source.bytes)
                self._grow("source_aborted_records_total", query, source.aborted)
        if found.sink is not None:
            self._count_sink(query, found.sink)

    def _count_sink(self, query: Labels, sink: SinkProgress) -> None:
        self._grow("sink_published_total", query, int(sink.published))
        self._grow("sink_skipped_total", query, int(not sink.published))
        for output, records in sink.outputs.items():
            self._grow("sink_records_total", (*query, ("output", output)), records if sink.published else 0)

    def _set(self, name: str, labels: Labels, value: float) -> None:
        self._samples[name][labels] = value

    def _grow(self, name: str, labels: Labels, value: float) -> None:
        self._samples[name][labels] = self._samples[name].get(labels, 0) + value

    def _lines(self) -> Iterator[str]:
        for name, metric in METRICS.items():
            samples = self._samples[name]
            if samples:
                yield f"# HELP {PREFIX}{name} {metric.help}"
                yield f"# TYPE {PREFIX}{name} {metric.kind}"
            for labels, value in samples.items():
                inside = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels)
                yield f"{PREFIX}{name}{{{inside}}} {value:.12g}"


def _labels(found: Progress) -> Labels:
    return (("query", found.query_id), ("name", found.name))


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
