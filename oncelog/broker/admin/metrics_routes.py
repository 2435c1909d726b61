"""What the paths of `oncelog.metrics.listen` answer.

Owns: the paths, and Prometheus' text format. Does not own: the metrics (`admin.collection`), HTTP (`http`).
Invariant: the text is written in a thread, so that no client waits for it.

    GET /metrics  Prometheus' text format
    GET /healthz  200 while the event loop turns
    GET /readyz   200 when every coordinator has replayed its log and the disk or the database takes writes, or when a
                  node that stands by has followed the leader lately; else 503 with the reason. The certificate of a
                  listener that ends within 30 days, or has ended, is in `warnings`. It returns 503 only when every
                  listener's certificate has expired; an earlier 503 would take working listeners out of service.
    GET /witness  mistakes of clients, as JSON; 404 without oncelog.witness.enable
    GET /share-groups/GROUP  what a share group has in flight, and which records fail, as JSON
"""

import asyncio
from collections.abc import Iterable
from itertools import accumulate
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.registry import Collector

from oncelog.broker.admin.collection import Collection
from oncelog.broker.admin.messages import AdminRequest, HttpError, Response
from oncelog.broker.admin.share_groups_route import share_group_response
from oncelog.broker.admin.witness_route import witness_response
from oncelog.broker.observability.catalogue import COUNTER, HISTOGRAM, PREFIX, Distribution, Sampled
from oncelog.broker.security.file_changes import EndingCertificate, ending

if TYPE_CHECKING:
    from oncelog.broker.requests.parts import Broker

_READY = {"status": "ready"}


class MetricsRoutes:
    def __init__(self, broker: "Broker", collection: Collection) -> None:
        self._broker = broker
        self._collection = collection

    async def serve(self, request: AdminRequest) -> Response:
        """Raises HttpError."""
        match request.path:
            case ("metrics",):
                text = await asyncio.to_thread(_written, await self._collection.collect())
                return Response(200, text, CONTENT_TYPE_PLAIN_0_0_4)
            case ("healthz",):
                return Response(200, {"status": "alive"})
            case ("readyz",):
                reason = self._not_ready()
                if reason:
                    return Response(503, {"status": "not ready", "reason": reason})
                warnings = [str(each) for each in self._ending_certificates()]
                return Response(200, {**_READY, "warnings": warnings} if warnings else _READY)
            case ("witness",):
                return await witness_response(self._broker)
            case ("share-groups", group_id):
                return await share_group_response(self._broker, group_id)
        raise HttpError(404, "no such path: there are /metrics, /healthz, /readyz, /witness and /share-groups/GROUP")

    def _not_ready(self) -> str | None:
        standing = self._broker.standing
        if standing is not None and standing.trouble is not None:
            return standing.trouble
        trouble = self._broker.logs.store.trouble
        if trouble is not None:
            is_database = self._broker.config.place.storage == "postgres"
            if trouble.is_final:
                return f"the {'database' if is_database else 'disk'} has failed"
            return f"{'the database refuses writes' if is_database else 'the disk is full'}: {trouble.error}"
        loaded = self._broker.transactions.list_all()
        if loaded.done and loaded.error is not None:
            return "transactions are still being loaded"
        ended = {each.listener_name: each for each in self._ending_certificates() if each.has_ended}
        listeners = [each.name for each in self._broker.config.listeners]
        if all(name in ended for name in listeners):
            return str(ended[listeners[0]])
        return None

    def _ending_certificates(self) -> list[EndingCertificate]:
        """Return the certificates of listeners and HTTP ports that end soon, or have ended."""
        broker = self._broker
        return list(ending(broker.live_config.file_readers, broker.clock.wall_ms()))


class _Collected(Collector):
    def __init__(self, sampled: list[Sampled]) -> None:
        self._sampled = sampled

    def collect(self) -> Iterable[Metric]:
        return map(_family, self._sampled)


def _written(sampled: list[Sampled]) -> bytes:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collected(sampled))
    return generate_latest(registry)


def _family(sampled: Sampled) -> Metric:
    family = sampled.family
    name, labels = f"{PREFIX}_{family.name}", family.labels
    if family.kind == HISTOGRAM:
        histogram = HistogramMetricFamily(name, family.help, labels=labels)
        for values, value in sampled.samples:
            if isinstance(value, Distribution):
                histogram.add_metric(values, _buckets(value), value.sum_s)
        return histogram
    kind = CounterMetricFamily if family.kind == COUNTER else GaugeMetricFamily
    metric = kind(name, family.help, labels=labels)
    for values, value in sampled.samples:
        if not isinstance(value, Distribution):
            metric.add_metric(values, value)
    return metric


def _buckets(distribution: Distribution) -> list[tuple[str, float]]:
    """Return cumulative buckets, as Prometheus has them."""
    bounds = [*(str(float(bound_s)) for bound_s in distribution.bounds_s), "+Inf"]
    return list(zip(bounds, accumulate(distribution.counts), strict=True))
