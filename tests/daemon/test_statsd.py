"""The daemon's counters, received as StatsD datagrams by another process."""

import asyncio

import asyncio_dgram
from confluent_kafka import Producer

from tests.conftest import Start
from tests.support.patience import PATIENCE_S

_END_OFFSET = "partition_log_end_offset|#topic:purchases,partition:0"


def _transactions(bootstrap: str) -> None:
    def producer() -> Producer:
        return Producer({"bootstrap.servers": bootstrap, "transactional.id": "writer"})

    first = producer()
    first.init_transactions(PATIENCE_S)
    for commit in (True, False, True):
        first.begin_transaction()
        first.produce("purchases", b"x", partition=0)
        first.flush(PATIENCE_S)
        if commit:
            first.commit_transaction(PATIENCE_S)
        else:
            first.abort_transaction(PATIENCE_S)


async def test_requests_appends_and_ended_transactions_arrive_as_datagrams(start_daemon: Start) -> None:
    receiver = await asyncio_dgram.bind(("127.0.0.1", 0))
    host, port = receiver.sockname
    daemon = start_daemon(f"oncelog.statsd.address={host}:{port}", "oncelog.statsd.interval.ms=20")
    await asyncio.to_thread(_transactions, daemon.bootstrap)

    totals: dict[str, float] = {}
    gauges: dict[str, float] = {}
    async with asyncio.timeout(PATIENCE_S):
        while not (
            totals.get("transactions_aborted", 0) == 1
            and totals.get("transaction_seconds.count|#result:committed", 0) == 2
            and gauges.get("transactional_ids|#state:CompleteCommit")
            and _END_OFFSET in gauges  # perhaps in a datagram of its own
        ):
            datagram, _ = await receiver.recv()
            for line in datagram.decode("ascii").split("\n"):
                name, _, rest = line.removeprefix("oncelog.").partition(":")
                value, kind, *tags = rest.split("|")
                series = "|".join((name, *tags))
                if kind == "c":
                    totals[series] = totals.get(series, 0) + float(value)
                else:
                    gauges[series] = float(value)
    receiver.close()

    assert totals["transactions_started"] == 3
    assert totals["transactions_committed"] == 2
    assert totals["appends"] >= 3
    assert totals["append_bytes"] > 3 * 61
    assert totals["requests"] > 10
    assert totals["request_bytes"] > totals["append_bytes"]
    assert totals["flush_rounds"] > 0
    assert totals["request_seconds.count|#api:PRODUCE"] >= 3
    assert totals["sync_seconds.sum"] > 0
    assert gauges[_END_OFFSET] > 0
    assert gauges["transactional_ids|#state:CompleteCommit"] == 1
