"""Pushes the broker's metrics as OTLP over HTTP, with OpenTelemetry's own exporter.

Owns: when they are pushed, and how a collected metric looks to OpenTelemetry. Does not own: the metrics (`collection`),
the protocol and its retries (the exporter; headers, certificates and compression are its own variables,
`OTEL_EXPORTER_OTLP_...`). Invariants
- Sums and histograms are cumulative since the broker's start.
- Export runs in a thread; a collector that is away costs that thread, and is reported once until it answers again. A
  stop waits no longer than `_LAST_REPORT_S` for it.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from oncelog.broker.observability.catalogue import COUNTER, HISTOGRAM, PREFIX, Distribution, Sampled
from oncelog.broker.observability.periodic import Periodic

_TIMEOUT_S = 10.0
_LAST_REPORT_S = 2.0


class OtlpReporter:
    """Reports every `interval_ms` from `start` to `close`."""

    def __init__(
        self,
        collect: Callable[[], Awaitable[list[Sampled]]],
        endpoint: str,
        interval_ms: int,
        resource: dict[str, str],
        log: Any,
    ) -> None:
        """`resource` is what reports the metrics, by OpenTelemetry's names."""
        # It logs each attempt; without a handler Python would print that between the lines of our log.
        logging.getLogger("opentelemetry").addHandler(logging.NullHandler())
        self._collect = collect
        self._exporter = OTLPMetricExporter(endpoint=endpoint, timeout=min(interval_ms / 1000, _TIMEOUT_S))
        self._resource = Resource.create(resource)
        self._log = log
        self._endpoint = endpoint
        self._started_ns = time.time_ns()
        self._is_failing = False
        self._periodic = Periodic(self.report, interval_ms, "otlp")

    def start(self) -> None:
        self._periodic.start()

    async def report(self) -> None:
        result = await asyncio.to_thread(self._export, await self._collect())
        is_failing = result is not MetricExportResult.SUCCESS
        if is_failing and not self._is_failing:
            self._log.warning(
                "otlp.failed",
                endpoint=self._endpoint,
                message="metrics cannot be pushed: check oncelog.otlp.endpoint and that a collector listens there",
            )
        self._is_failing = is_failing

    def _export(self, metrics: list[Sampled]) -> MetricExportResult:
        """Export in a thread: this waits for the collector."""
        return self._exporter.export(metrics_data(metrics, self._resource, self._started_ns, time.time_ns()))

    async def close(self) -> None:
        """Report once more, and stop."""
        if not await self._periodic.stop():
            return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.report(), _LAST_REPORT_S)
        self._exporter.shutdown()  # an export that has not ended is not repeated


def metrics_data(metrics: list[Sampled], resource: Resource, started_ns: int, wall_ns: int) -> MetricsData:
    """Return what the exporter takes; names, texts and labels are those of Prometheus, without a counter's `_total`."""
    converted = [_metric(sampled, started_ns, wall_ns) for sampled in metrics if sampled.samples]
    scope = ScopeMetrics(InstrumentationScope(PREFIX), converted, "")
    return MetricsData([ResourceMetrics(resource, [scope], "")])


def _metric(sampled: Sampled, started_ns: int, wall_ns: int) -> Metric:
    family, samples = sampled
    numbers: list[NumberDataPoint] = []
    distributions: list[HistogramDataPoint] = []
    for values, value in samples:
        labels = dict(zip(family.labels, values, strict=True))
        if isinstance(value, Distribution):
            distributions.append(_distribution(labels, value, started_ns, wall_ns))
        else:
            numbers.append(NumberDataPoint(labels, started_ns, wall_ns, value))
    temporality = AggregationTemporality.CUMULATIVE
    data: Sum | Gauge | Histogram
    if family.kind == HISTOGRAM:
        data = Histogram(distributions, temporality)
    elif family.kind == COUNTER:
        data = Sum(numbers, temporality, is_monotonic=True)
    else:
        data = Gauge(numbers)
    unit = "s" if family.name.endswith("_seconds") else "By" if family.name.endswith("_bytes") else "1"
    return Metric(f"{PREFIX}_{family.name}", family.help, unit, data)


def _distribution(labels: dict[str, str], value: Distribution, started_ns: int, wall_ns: int) -> HistogramDataPoint:
    # The least and the greatest are not kept: infinities are what the SDK itself has before the first observation.
    return HistogramDataPoint(
        labels,
        started_ns,
        wall_ns,
        value.total,
        value.sum_s,
        value.counts,
        value.bounds_s,
        min=float("inf"),
        max=float("-inf"),
    )
