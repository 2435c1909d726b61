"""What the paths of `oncelog.metrics.listen` answer.

Owns: the table of metrics, and how they are collected. Does not own: the counters (`observability.metrics`), HTTP
(`http`). Invariants: a scrape changes nothing; it walks through partitions, transactional ids and groups in slices, and
writes the text in a thread, so that no client waits for it.

    GET /metrics  Prometheus' text format
    GET /healthz  200 while the event loop turns
    GET /readyz   200 when every coordinator has replayed its log and the disk works, else 503 with the reason
    GET /witness  mistakes of clients, as JSON; 404 without oncelog.witness.enable
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.registry import Collector

from oncelog.broker.admin.messages import AdminRequest, HttpError, Response
from oncelog.broker.admin.witness_route import witness_response
from oncelog.broker.coordinator.transaction.states import TransactionState
from oncelog.broker.observability.metrics import COUNTERS, GAUGES
from oncelog.protocol.errors import KafkaError

if TYPE_CHECKING:
    from oncelog.broker.broker import Broker

_PREFIX = "oncelog"
_STEPS_A_TURN = 1_000
_READY = {"status": "ready"}
T = TypeVar("T")

_HELP: dict[str, tuple[str, str]] = {
    "requests": ("Requests answered", "kafka.network:type=RequestMetrics,name=RequestsPerSec"),
    "request_bytes": ("Bytes received from clients", "kafka.server:type=socket-server-metrics,name=incoming-byte-rate"),
    "response_bytes": ("Bytes sent to clients", "kafka.server:type=socket-server-metrics,name=outgoing-byte-rate"),
    "appends": ("Record batches appended for producers", ""),
    "append_bytes": ("Bytes of these batches", "kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec"),
    "full_fetches": ("Fetches that named all their partitions", ""),
    "incremental_fetches": ("Fetches that continued a session", ""),
    "fetch_session_evictions": (
        "Fetch sessions that made way for others",
        "kafka.server:type=FetchSessionCache,name=IncrementalFetchSessionEvictionsPerSec",
    ),
    "flush_rounds": (
        "Rounds of appends made durable together",
        "kafka.log:type=LogFlushStats,name=LogFlushRateAndTimeMs",
    ),
    "transactions_started": ("Transactions begun", ""),
    "transactions_committed": ("Transactions committed", ""),
    "transactions_aborted": ("Transactions aborted", ""),
    "producers_fenced": ("Requests of producers that were fenced", ""),
    "connections": ("Connections accepted", "kafka.server:type=socket-server-metrics,name=connection-creation-rate"),
    "connections_refused": ("Connections closed at once: too many from one address", ""),
    "connections_closed_idle": (
        "Connections closed for their silence",
        "kafka.server:type=socket-server-metrics,name=connection-close-rate",
    ),
    "connections_closed_slow": ("Connections closed since they held memory and read nothing", ""),
    "file_problems": ("Log lines about files that are damaged, missing or unreadable", ""),
    "open_transactions": ("Transactions open or ending", ""),
    "open_connections": ("Connections", "kafka.server:type=socket-server-metrics,name=connection-count"),
    "fetch_sessions": ("Fetch sessions", "kafka.server:type=FetchSessionCache,name=NumIncrementalFetchSessions"),
    "offline_partitions": (
        "Partitions whose files cannot be used",
        "kafka.controller:type=KafkaController,name=OfflinePartitionsCount",
    ),
}

Sample = tuple[tuple[str, ...], float]
"""Values of the labels, and the value."""


class _Family(NamedTuple):
    name: str
    text: str
    jmx: str
    labels: tuple[str, ...]
    kind: type[GaugeMetricFamily] | type[CounterMetricFamily] = GaugeMetricFamily


_OF_PARTITIONS = (
    _Family(
        "partition_log_start_offset",
        "The first offset",
        "kafka.log:type=Log,name=LogStartOffset",
        ("topic", "partition"),
    ),
    _Family(
        "partition_log_end_offset", "The next offset", "kafka.log:type=Log,name=LogEndOffset", ("topic", "partition")
    ),
    _Family(
        "partition_size_bytes",
        "Bytes of its records on the disk",
        "kafka.log:type=Log,name=Size",
        ("topic", "partition"),
    ),
    _Family(
        "partition_last_stable_offset_lag",
        "Offsets that read_committed does not reach yet, because of open transactions",
        "kafka.cluster:type=Partition,name=LastStableOffsetLag",
        ("topic", "partition"),
    ),
)
_TRANSACTIONS = _Family("transactional_ids", "Transactional ids by the state of their transaction", "", ("state",))
_OLDEST = _Family("oldest_open_transaction_age_seconds", "Since it began; 0: none is open", "", ())
_GROUPS = _Family(
    "groups",
    "Groups by type and state",
    "kafka.server:type=group-coordinator-metrics,name=group-count",
    ("type", "state"),
)


class MetricsRoutes:
    def __init__(self, broker: "Broker", refresh: Callable[[], None]) -> None:
        """`refresh` updates the gauges of the metrics."""
        self._broker = broker
        self._refresh = refresh

    async def serve(self, request: AdminRequest) -> Response:
        """Raises HttpError."""
        if request.method not in ("GET", "HEAD"):
            raise HttpError(405, "only GET is served here")
        match request.path:
            case ("metrics",):
                families = [family async for family in self._families()]
                text = await asyncio.to_thread(_written, families)
                return Response(200, text, CONTENT_TYPE_PLAIN_0_0_4)
            case ("healthz",):
                return Response(200, {"status": "alive"})
            case ("readyz",):
                reason = self._not_ready()
                return Response(503 if reason else 200, {"status": "not ready", "reason": reason} if reason else _READY)
            case ("witness",):
                return witness_response(self._broker)
        raise HttpError(404, "there are /metrics, /healthz, /readyz and /witness")

    def _not_ready(self) -> str | None:
        if self._broker.rounds.failure.failed:
            return "the disk has failed"
        loaded = self._broker.transactions.list_all()
        if loaded.done and loaded.error is not None:
            return "transactions are still being loaded"
        return None

    async def _families(self) -> AsyncIterator[Metric]:
        self._refresh()
        metrics = self._broker.metrics
        for name in COUNTERS:
            yield _family(_Family(name, *_HELP[name], (), CounterMetricFamily), [((), getattr(metrics, name))])
        for name in GAUGES:
            yield _family(_Family(name, *_HELP[name], ()), [((), getattr(metrics, name))])
        rows = await _in_slices(self._partitions())
        for index, family in enumerate(_OF_PARTITIONS):
            yield _family(family, [(labels, values[index]) for labels, values in rows])
        states: Counter[str] = Counter()
        wall_ms = self._broker.clock.wall_ms()
        longest_ms = 0
        for state, start_wall_ms in await _in_slices(self._transactions()):
            states[state.kafka_name] += 1
            if state is TransactionState.ONGOING and start_wall_ms >= 0:
                longest_ms = max(longest_ms, wall_ms - start_wall_ms)
        yield _family(_TRANSACTIONS, [((state,), count) for state, count in sorted(states.items())])
        yield _family(_OLDEST, [((), longest_ms / 1000)])
        groups = Counter(await _in_slices(self._groups()))
        yield _family(_GROUPS, [(labels, count) for labels, count in sorted(groups.items())])

    def _partitions(self) -> Iterator[tuple[tuple[str, str], tuple[int, int, int, int]]]:
        for log in list(self._broker.logs.logs):
            if not log.is_deleted and not log.offline_error:
                values = (
                    log.log_start_offset,
                    log.log_end_offset,
                    log.size_bytes,
                    log.high_watermark - log.last_stable_offset,
                )
                yield (log.topic, str(log.partition)), values

    def _transactions(self) -> Iterator[tuple[TransactionState, int]]:
        for status in list(self._broker.transactions.current()):
            yield status.metadata.state, status.metadata.start_timestamp_ms

    def _groups(self) -> Iterator[tuple[str, str]]:
        if self._broker.known_groups is None:
            return
        try:
            known = self._broker.known_groups.administration.all()
        except KafkaError:
            return  # they are still being loaded
        for group in known:
            yield group.group_type, group.state


async def _in_slices(rows: Iterator[T]) -> list[T]:
    found = []
    for row in rows:
        found.append(row)
        if len(found) % _STEPS_A_TURN == 0:
            await asyncio.sleep(0)
    return found


class _Collected(Collector):
    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def _written(families: list[Metric]) -> bytes:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collected(families))
    return generate_latest(registry)


def _family(family: _Family, samples: Iterable[Sample]) -> Metric:
    text = f"{family.text}. {f'In Kafka: {family.jmx}' if family.jmx else 'Kafka has no such metric'}."
    metric = family.kind(f"{_PREFIX}_{family.name}", text, labels=family.labels)
    for labels, value in samples:
        metric.add_metric(labels, value)
    return metric
