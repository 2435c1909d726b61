"""Collects every metric of a broker for its reporters: Prometheus, StatsD, OpenTelemetry.

Owns: what is read for each metric, and how many series one may have. Does not own: the numbers that are kept
(`metrics`), texts (`catalogue`), formats (`admin.metrics_routes`, `statsd`, `otlp`). Invariants
- A collection changes nothing but gauges. It walks through partitions, transactional ids and groups in slices, so that
  no client waits for it.
- A metric has at most `max_series` series; how many more there would be is reported too. Names of groups come from
  clients: they are shown printable and at most 200 characters long.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from oncelog.broker.coordinator.transaction.states import TransactionState
from oncelog.broker.observability.catalogue import (
    BOUNDS,
    CERTIFICATE_END,
    GROUPS,
    KEPT,
    LEFT_OUT,
    OF_COMMITTED,
    OF_NODES,
    OF_PARTITIONS,
    OF_TABLES,
    OF_VOLUME,
    OLDEST_DECIDED,
    OLDEST_OPEN,
    TRANSACTIONAL_IDS,
    Distribution,
    Family,
    Sample,
    Sampled,
)
from oncelog.broker.observability.metrics import Histogram, Metrics
from oncelog.protocol.errors import KafkaError
from oncelog.protocol.printable import printable
from oncelog.protocol.transaction_states import DECIDED_NAMES, OPEN_NAMES, meaning_of

if TYPE_CHECKING:
    from oncelog.broker.requests.parts import Broker

_STEPS_A_TURN = 1_000
_LABEL_CHARACTERS = 200
T = TypeVar("T")
_Rows = Iterator[tuple[tuple[str, ...], tuple[int, ...]]]
"""The values of the labels, and one of each metric that has these labels."""


class Bound(NamedTuple):
    """A limit of the broker, by the setting that sets it, and how much of it is in use."""

    name: str
    used: int
    limit: int
    """The limit; -1 if there is none."""


class Collection:
    def __init__(
        self,
        broker: "Broker",
        max_series: int,
        refresh: Callable[[], None],
        bounds: Callable[[], Iterable[Bound]],
    ) -> None:
        """`refresh` updates the gauges of `broker.metrics`, except those of transactions."""
        self._broker = broker
        self._max_series = max_series
        self._refresh = refresh
        self._bounds = bounds

    async def collect(self) -> list[Sampled]:
        """Return every metric, in the order of the catalogue."""
        left_out: Counter[str] = Counter()
        transactions = await self._transactions()
        self._refresh()
        found = _kept(self._broker.metrics)
        found += await self._table(OF_PARTITIONS, self._partitions(), left_out)
        found += _figures(OF_TABLES, self._broker.logs.store.figures())
        standing = self._broker.standing
        found += _figures(OF_NODES, {} if standing is None else standing.figures())
        found += transactions
        groups = Counter([group async for group in _in_slices(self._groups())])
        found.append(Sampled(GROUPS, [Sample(labels, count) for labels, count in sorted(groups.items())]))
        found += await self._table(OF_COMMITTED, self._committed(), left_out)
        rows = (((name,), (used, limit)) for name, used, limit in self._bounds())
        found += await self._table(BOUNDS, rows, left_out)
        found += self._volume()
        ends = ((each.listener_name, each.certificate_end_s) for each in self._broker.live_config.file_readers)
        found.append(Sampled(CERTIFICATE_END, [Sample((name,), end_s) for name, end_s in ends if end_s is not None]))
        found.append(Sampled(LEFT_OUT, [Sample((name,), count) for name, count in left_out.items()]))
        return found

    def _volume(self) -> list[Sampled]:
        size_bytes, free_bytes = self._broker.logs.store.volume_bytes()
        sizes = zip(OF_VOLUME, (size_bytes, free_bytes), strict=True)
        return [Sampled(family, [Sample((), each)] if size_bytes > 0 else []) for family, each in sizes]

    async def _table(self, families: tuple[Family, ...], rows: _Rows, left_out: Counter[str]) -> list[Sampled]:
        """Return metrics that have the same labels: each row has a value for each of them."""
        samples: list[list[Sample]] = [[] for _ in families]
        seen: set[tuple[str, ...]] = set()
        async for labels, values in _in_slices(rows):
            if labels in seen:
                continue  # groups whose names look the same
            if len(seen) == self._max_series:
                left_out.update(family.name for family in families)
                continue
            seen.add(labels)
            for column, value in zip(samples, values, strict=True):
                column.append(Sample(labels, value))
        return list(map(Sampled, families, samples))

    def _partitions(self) -> _Rows:
        for log in list(self._broker.logs.logs):
            if not log.is_closed and not log.offline_error:
                values = (
                    log.log_start_offset,
                    log.log_end_offset,
                    log.size_bytes,
                    log.high_watermark - log.last_stable_offset,
                )
                yield (log.topic, str(log.partition)), values

    async def _transactions(self) -> list[Sampled]:
        states = {state.kafka_name: 0 for state in TransactionState}
        wall_ms = self._broker.clock.wall_ms()
        open_ms = decided_ms = 0
        async for metadata in _in_slices(self._broker.transactions.all()):
            states[metadata.state.kafka_name] += 1
            phase = meaning_of(metadata.state.kafka_name).phase
            if phase == "open":
                open_ms = max(open_ms, wall_ms - metadata.start_timestamp_ms)
            elif phase == "decided":
                decided_ms = max(decided_ms, wall_ms - metadata.last_update_timestamp_ms)
        self._broker.metrics.open_transactions = sum(states[name] for name in OPEN_NAMES)
        self._broker.metrics.decided_transactions = sum(states[name] for name in DECIDED_NAMES)
        by_state = [Sample((state,), count) for state, count in sorted(states.items())]
        return [
            Sampled(TRANSACTIONAL_IDS, by_state),
            Sampled(OLDEST_OPEN, [Sample((), open_ms / 1000)]),
            Sampled(OLDEST_DECIDED, [Sample((), decided_ms / 1000)]),
        ]

    def _groups(self) -> Iterator[tuple[str, str]]:
        groups = self._broker.known_groups
        with suppress(KafkaError):  # some are still being loaded
            for group in groups.administration.all() if groups is not None else ():
                yield group.group_type, group.state

    def _committed(self) -> _Rows:
        broker = self._broker
        groups = broker.known_groups
        for group_id, (topic, partition), committed in groups.administration.committed() if groups is not None else ():
            log = broker.topics.find_partition(topic, partition)
            if log is not None and not log.offline_error:
                labels = (printable(group_id)[:_LABEL_CHARACTERS], topic, str(partition))
                yield labels, (max(0, log.high_watermark - committed), max(0, log.last_stable_offset - committed))


async def _in_slices(rows: Iterator[T]) -> AsyncIterator[T]:
    for count, row in enumerate(rows, 1):
        yield row
        if count % _STEPS_A_TURN == 0:
            await asyncio.sleep(0)


def _figures(families: tuple[Family, ...], figures: Mapping[str, float]) -> list[Sampled]:
    """Return the families with their figures; those without a figure have no sample."""
    return [Sampled(each, [Sample((), figures[each.name])] if each.name in figures else []) for each in families]


def _kept(metrics: Metrics) -> list[Sampled]:
    return [Sampled(family, list(_samples(getattr(metrics, family.name)))) for family in KEPT]


def _samples(value: int | Histogram | Mapping[str, int | Histogram]) -> Iterator[Sample]:
    by_label = {(label,): each for label, each in value.items()} if isinstance(value, Mapping) else {(): value}
    for labels, each in by_label.items():
        yield Sample(labels, _distribution(each) if isinstance(each, Histogram) else each)


def _distribution(histogram: Histogram) -> Distribution:
    return Distribution(histogram.bounds_s, tuple(histogram.counts), histogram.sum_ns / 1_000_000_000)
