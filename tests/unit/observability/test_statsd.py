"""DogStatsD: what leaves over UDP, in the format that collectors parse."""

import asyncio
import itertools
import re

import asyncio_dgram
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.broker.observability.catalogue import COUNTER, GAUGE, HISTOGRAM, Distribution, Family, Sample, Sampled
from oncelog.broker.observability.statsd import (
    MAX_DATAGRAM_BYTES,
    StatsdReporter,
    pack_datagrams,
    series_of,
    statsd_lines,
)
from tests.support.patience import PATIENCE_S
from tests.support.requests.hostile import names

_LINE = re.compile(rb"oncelog\.([a-z_.]+):(-?[0-9.]+)\|([cg])(?:\|#([a-z_]+:[\w./-]*(?:,[a-z_]+:[\w./-]*)*))?\Z")
REQUESTS = Family("requests", COUNTER, "Requests")
OPEN = Family("open_transactions", GAUGE, "Open")
LAG = Family("group_lag", GAUGE, "Lag", "", ("group", "topic"))
SECONDS = Family("sync_seconds", HISTOGRAM, "Syncs")


def _parsed(datagram: bytes) -> dict[tuple[str, str], tuple[float, str]]:
    parsed = {}
    for line in datagram.split(b"\n"):
        match = _LINE.match(line)
        assert match, line
        parsed[match[1].decode(), (match[4] or b"").decode()] = (float(match[2]), match[3].decode())
    return parsed


class _Numbers:
    """A collector that returns the next of these collections each time."""

    def __init__(self, *collections: list[Sampled]) -> None:
        self._collections = iter(collections)

    async def collect(self) -> list[Sampled]:
        return next(self._collections)


def _kept(requests: int, opened: int) -> list[Sampled]:
    return [Sampled(REQUESTS, [Sample((), requests)]), Sampled(OPEN, [Sample((), opened)])]


async def test_datagrams_arrive_with_the_growth_of_counters_and_the_value_of_gauges() -> None:
    receiver = await asyncio_dgram.bind(("127.0.0.1", 0))
    numbers = _Numbers(_kept(12, 3), _kept(15, 1))
    reporter = StatsdReporter(numbers.collect, receiver.sockname, interval_ms=3_600_000)
    await reporter.start()
    await reporter.report()
    first = _parsed((await asyncio.wait_for(receiver.recv(), PATIENCE_S))[0])
    await reporter.close()
    second = _parsed((await asyncio.wait_for(receiver.recv(), PATIENCE_S))[0])
    receiver.close()
    assert first == {("requests", ""): (12, "c"), ("open_transactions", ""): (3, "g")}
    assert second == {("requests", ""): (3, "c"), ("open_transactions", ""): (1, "g")}


async def test_a_gauge_that_is_gone_is_sent_once_more_as_0() -> None:
    receiver = await asyncio_dgram.bind(("127.0.0.1", 0))
    numbers = _Numbers([Sampled(LAG, [Sample(("a", "b"), 3)])], [Sampled(LAG, [])], _kept(1, 0))
    reporter = StatsdReporter(numbers.collect, receiver.sockname, interval_ms=3_600_000)
    await reporter.start()
    received = []
    for report in (reporter.report, reporter.report, reporter.close):
        await report()
        received.append(_parsed((await asyncio.wait_for(receiver.recv(), PATIENCE_S))[0]))
    receiver.close()
    lag = "group_lag", "group:a,topic:b"
    assert [each.get(lag) for each in received] == [(3, "g"), (0, "g"), None]


async def test_reports_leave_by_themselves_at_the_interval() -> None:
    receiver = await asyncio_dgram.bind(("127.0.0.1", 0))
    reporter = StatsdReporter(_Numbers(_kept(5, 0), *[_kept(6, 0)] * 1_000).collect, receiver.sockname, interval_ms=10)
    await reporter.start()
    datagram = (await asyncio.wait_for(receiver.recv(), PATIENCE_S))[0]
    await reporter.close()
    receiver.close()
    assert _parsed(datagram)["requests", ""] == (5, "c")


async def test_a_missing_receiver_disturbs_nothing() -> None:
    gone = await asyncio_dgram.bind(("127.0.0.1", 0))
    address = gone.sockname
    gone.close()
    reporter = StatsdReporter(_Numbers(*[_kept(5, 0)] * 5).collect, address, interval_ms=3_600_000)
    await reporter.start()
    for _ in range(4):
        await reporter.report()
    await reporter.close()


async def test_an_address_that_does_not_resolve_is_an_error_at_the_start() -> None:
    reporter = StatsdReporter(_Numbers().collect, ("host.invalid", 8125), interval_ms=1000)
    with pytest.raises(OSError):
        await reporter.start()


def test_a_histogram_is_counted_by_bucket_and_only_what_grew_is_sent() -> None:
    def of(*counts: int, sum_s: float) -> list[Sampled]:
        return [Sampled(SECONDS, [Sample((), Distribution((0.1, 1), counts, sum_s))])]

    before, _ = series_of(of(1, 0, 0, sum_s=0.05))
    now, gauged = series_of(of(1, 0, 2, sum_s=7.05))
    assert list(statsd_lines(before, now, gauged)) == [
        "oncelog.sync_seconds.count:2|c",
        "oncelog.sync_seconds.sum:7.000000000|c",
        "oncelog.sync_seconds.bucket:2|c|#upper_bound:inf",
    ]


@given(st.lists(st.text("abc.:|", min_size=1, max_size=200)), st.integers(200, 400))
def test_packing_keeps_every_line_in_order_and_every_datagram_in_size(lines: list[str], max_bytes: int) -> None:
    datagrams = list(pack_datagrams(iter(lines), max_bytes))
    assert [line for datagram in datagrams for line in datagram.decode().split("\n")] == lines
    assert all(len(datagram) <= max_bytes for datagram in datagrams)
    for datagram, following in itertools.pairwise(datagrams):
        assert len(datagram) + 1 + len(following.split(b"\n")[0]) > max_bytes


@given(names, names)
def test_no_name_makes_another_metric_or_a_tag(group: str, topic: str) -> None:
    """A label of any text is one tag of one line."""
    counted, gauged = series_of([Sampled(LAG, [Sample((group, topic), 2)])])
    (datagram,) = pack_datagrams(statsd_lines({}, counted, gauged))
    ((name, tags),) = _parsed(datagram)
    assert name == "group_lag" and [tag.partition(":")[0] for tag in tags.split(",")] == ["group", "topic"]


def test_the_longest_names_fit_into_a_datagram() -> None:
    counted, gauged = series_of([Sampled(LAG, [Sample(("g" * 200, "t" * 249), 2**63)])])
    assert [len(each) <= MAX_DATAGRAM_BYTES for each in pack_datagrams(statsd_lines({}, counted, gauged))] == [True]
