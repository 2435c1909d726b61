"""The daemon's counters, received as StatsD datagrams by somebody else."""

import asyncio

import asyncio_dgram
from confluent_kafka import Producer

from tests.conftest import Start


def _transactions(bootstrap: str) -> None:
    def producer() -> Producer:
        return Producer({"bootstrap.servers": bootstrap, "transactional.id": "writer"})

    first = producer()
    first.init_transactions(20)
    for commit in (True, False, True):
        first.begin_transaction()
        first.produce("purchases", b"x", partition=0)
        first.flush(10)
        if commit:
            first.commit_transaction(10)
        else:
            first.abort_transaction(10)


async def test_requests_appends_and_ended_transactions_arrive_as_datagrams(start_daemon: Start) -> None:
    receiver = await asyncio_dgram.bind(("127.0.0.1", 0))
    host, port = receiver.sockname
    daemon = start_daemon(f"oncelog.statsd.address={host}:{port}", "oncelog.statsd.interval.ms=20")
    await asyncio.to_thread(_transactions, daemon.bootstrap)

    totals: dict[str, int] = {}
    gauges: dict[str, int] = {}
    async with asyncio.timeout(20):
        while totals.get("transactions_aborted", 0) < 1 or totals.get("transactions_committed", 0) < 2:
            datagram, _ = await receiver.recv()
            for line in datagram.decode("ascii").split("\n"):
                name, _, rest = line.removeprefix("oncelog.").partition(":")
                value, _, kind = rest.partition("|")
                if kind == "c":
                    totals[name] = totals.get(name, 0) + int(value)
                else:
                    gauges[name] = int(value)
    receiver.close()

    assert totals["transactions_started"] == 3
    assert totals["transactions_committed"] == 2
    assert totals["appends"] >= 3
    assert totals["append_bytes"] > 3 * 61
    assert totals["requests"] > 10
    assert totals["request_bytes"] > totals["append_bytes"]
    assert totals["flush_rounds"] > 0
    assert gauges.keys() == {"open_transactions", "open_connections", "fetch_sessions", "offline_partitions"}
