"""StatsD: what leaves over UDP, in the format that collectors parse."""

import asyncio
import itertools
import re

import asyncio_dgram
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.broker.observability.metrics import COUNTERS, GAUGES, Metrics
from oncelog.broker.observability.statsd import MAX_DATAGRAM_BYTES, StatsdReporter, pack_datagrams, statsd_lines
from tests.support.hostile import names

_LINE = re.compile(rb"oncelog\.([a-z_]+):(-?\d+)\|([cg])\Z")


def _parsed(datagram: bytes) -> dict[str, tuple[int, str]]:
    parsed = {}
    for line in datagram.split(b"\n"):
        match = _LINE.match(line)
        assert match, line
        parsed[match[1].decode()] = (int(match[2]), match[3].decode())
    return parsed


async def test_datagrams_arrive_with_the_growth_of_counters_and_the_value_of_gauges() -> None:
    receiver = await asyncio_dgram.bind(("127.0.0.1", 0))
    metrics = Metrics()
    open_now = iter((3, 1))

    def refresh() -> None:
        metrics.open_transactions = next(open_now)

    reporter = StatsdReporter(metrics, receiver.sockname, interval_ms=3_600_000, refresh=refresh)
    await reporter.start()
    metrics.requests = 12
    metrics.producers_fenced = 1
    await reporter.report()
    first = _parsed((await asyncio.wait_for(receiver.recv(), 5))[0])
    metrics.requests = 15
    await reporter.close()
    second = _parsed((await asyncio.wait_for(receiver.recv(), 5))[0])
    receiver.close()

    assert first["requests"] == (12, "c")
    assert first["producers_fenced"] == (1, "c")
    assert first["open_transactions"] == (3, "g")
    assert second["requests"] == (3, "c")
    assert second["open_transactions"] == (1, "g")
    assert "producers_fenced" not in second


async def test_reports_leave_by_themselves_at_the_interval() -> None:
    receiver = await asyncio_dgram.bind(("127.0.0.1", 0))
    metrics = Metrics()
    metrics.appends = 4
    reporter = StatsdReporter(metrics, receiver.sockname, interval_ms=10)
    metrics.appends = 9
    await reporter.start()
    datagram = (await asyncio.wait_for(receiver.recv(), 5))[0]
    await reporter.close()
    receiver.close()
    assert _parsed(datagram)["appends"] == (5, "c")


async def test_a_receiver_that_is_not_there_disturbs_nobody() -> None:
    gone = await asyncio_dgram.bind(("127.0.0.1", 0))
    address = gone.sockname
    gone.close()
    metrics = Metrics()
    reporter = StatsdReporter(metrics, address, interval_ms=3_600_000)
    await reporter.start()
    for requests in range(1, 5):
        metrics.requests = requests
        await reporter.report()
    await reporter.close()


async def test_an_address_that_does_not_resolve_is_an_error_at_the_start() -> None:
    reporter = StatsdReporter(Metrics(), ("host.invalid", 8125), interval_ms=1000)
    with pytest.raises(OSError):
        await reporter.start()


@given(st.lists(st.text("abc.:|", min_size=1, max_size=200)), st.integers(200, 400))
def test_packing_keeps_every_line_in_order_and_every_datagram_in_size(lines: list[str], max_bytes: int) -> None:
    datagrams = list(pack_datagrams(lines, max_bytes))
    assert [line for datagram in datagrams for line in datagram.decode().split("\n")] == lines
    assert all(len(datagram) <= max_bytes for datagram in datagrams)
    for datagram, following in itertools.pairwise(datagrams):
        assert len(datagram) + 1 + len(following.split(b"\n")[0]) > max_bytes


@given(names)
def test_no_name_makes_another_metric_or_a_tag(name: str) -> None:
    (datagram,) = pack_datagrams([*statsd_lines({}, {name: 1}, {name: 2})])
    counted, gauged = datagram.split(b"\n")
    assert re.fullmatch(rb"oncelog\.[\w.-]*:1\|c", counted) and re.fullmatch(rb"oncelog\.[\w.-]*:2\|g", gauged)


def test_all_counters_at_once_fit_into_one_datagram() -> None:
    lines = statsd_lines(dict.fromkeys(COUNTERS, 0), dict.fromkeys(COUNTERS, 2**40), dict.fromkeys(GAUGES, 2**40))
    assert [len(datagram) <= MAX_DATAGRAM_BYTES for datagram in pack_datagrams(list(lines))] == [True]


def test_every_counter_and_gauge_starts_at_zero() -> None:
    metrics = Metrics()
    assert metrics.counters() == dict.fromkeys(COUNTERS, 0)
    assert metrics.gauges() == dict.fromkeys(GAUGES, 0)
