"""A ledger's input and what must come of it, computed from the very bytes that were sent, without Spark.

Owns: arrivals (purchases of a data set in the order of their dates, some delivered days later, with broken records in
between), sending them, reading topics, and the independent computation: integers, `json` and `datetime`, a customer at
a time. Does not share code with `oncelog/pipeline/ledger`; only its numbers of days and cents are repeated here, on
purpose.
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, NamedTuple
from zlib import crc32

from oncelog.client import NewTopic
from oncelog.client.blocking.clients import Admin, Producer
from oncelog.pipeline.demo.data import Purchase
from oncelog.pipeline.demo.verify import read_topic

INPUT = "purchases"
OUTPUTS = ("accepted", "rejected", "balances", "alerts", "sessions")
PARTITIONS = 3
LATENESS = timedelta(days=45)
GAP = timedelta(days=30)
LEVEL_CENTS = 50_000
HOUR_MS = 3_600_000
# Every so many purchases, one arrives days after it was made: the first within the lateness, the second not.
DELAYS = {37: timedelta(days=20), 41: timedelta(days=60)}
BROKEN: tuple[tuple[bytes | None, str], ...] = (
    (None, "no value"),
    (b'{"id": "x\xff", "customer": "1"}', "not UTF-8"),
    (b"not json", "not a JSON object"),
    (b"[1, 2]", "not a JSON object"),
    (b'{"id": "1", "customer": "1", "at": "1997-01-', "not a JSON object"),
    (b'{"customer": "1", "at": "1997-01-01T00:00:00Z", "amount": "1.00"}', "no id"),
    (b'{"id": "1", "customer": "", "at": "1997-01-01T00:00:00Z", "amount": "1.00"}', "no customer"),
    (b'{"id": "1", "customer": "1", "amount": "1.00"}', "at is not a time such as 1997-01-18T00:00:00Z"),
    (
        b'{"id": "1", "customer": "1", "at": "1997-02-30T00:00:00Z", "amount": "1.00"}',
        "at is not a time such as 1997-01-18T00:00:00Z",
    ),
    *(
        (
            f'{{"id": "1", "customer": "1", "at": "1997-01-01T00:00:00Z", "amount": {amount}}}'.encode(),
            "amount is not text such as 29.33",
        )
        for amount in ('"29.3"', '"29.333"', '"-1.00"', '"1e3"', '"12345678901234.00"', "29.3", "null", '" 1.00"')
    ),
)
"""Values and the reasons for which they are rejected."""


class Arrival(NamedTuple):
    partition: int
    arrived_ms: int
    key: bytes
    value: bytes | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class Expected:
    """The records that each output must hold: money in cents."""

    accepted: set[str]
    rejected: Counter[str]
    """The number of rejected records by reason."""
    balances: dict[str, tuple[int, int, int, int]]
    """cents, purchases, and of these what came late"""
    alerts: set[tuple[str, int]]
    sessions: Counter[tuple[str, str, str, int, int]]
    months: dict[str, tuple[int, int]]


def arrivals_of(purchases: Sequence[Purchase]) -> list[Arrival]:
    """In the order of arrival. Customers keep to one partition."""
    timed = []
    for number, purchase in enumerate(purchases):
        at = datetime.strptime(purchase.date, "%Y%m%d").replace(tzinfo=UTC)
        delay = next((delay for every, delay in DELAYS.items() if number % every == every - 1), timedelta(minutes=5))
        amount = f"{purchase.cents // 100}.{purchase.cents % 100:02d}"
        value = {"id": str(number), "customer": purchase.customer, "at": f"{at:%Y-%m-%dT%H:%M:%SZ}", "amount": amount}
        key = purchase.customer.encode()
        partition = crc32(key) % PARTITIONS
        timed.append(Arrival(partition, _ms(at + delay), key, json.dumps(value).encode(), None))
    timed.sort(key=lambda arrival: arrival.arrived_ms)
    every = max(1, len(timed) // len(BROKEN))
    for number, (broken, reason) in enumerate(BROKEN):
        before = timed[number * every]
        timed.insert(number * every, before._replace(key=b"key \xff", value=broken, reason=reason))
    return timed


def create_topics(bootstrap: str, prefix: str) -> None:
    """Without retention: records have the time of their purchase, decades ago."""
    configs = {"retention.ms": "-1"}
    names = [prefix + name for name in (INPUT, *OUTPUTS)]
    with Admin(bootstrap) as admin:
        admin.create_topics(*(NewTopic(name, partition_count=PARTITIONS, configs=configs) for name in names))


def send(bootstrap: str, prefix: str, arrivals: Iterable[Arrival]) -> None:
    """In one transaction."""
    with Producer(bootstrap, transactional_id=f"{prefix}load", linger_ms=20) as producer:
        with producer.transaction() as transaction:
            for each in arrivals:
                transaction.send_soon(
                    prefix + INPUT,
                    each.value,
                    key=each.key,
                    partition=each.partition,
                    timestamp_ms=each.arrived_ms,
                )


def expected_of(arrivals: Iterable[Arrival]) -> Expected:
    """Each customer's purchases one after the other; sessions up to where time has moved on for certain."""
    rejected: Counter[str] = Counter()
    balances: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    months: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    on_time: dict[str, list[tuple[datetime, int]]] = defaultdict(list)
    accepted = set()
    for arrival in arrivals:
        if arrival.reason is not None:
            rejected[arrival.reason] += 1
            continue
        value = json.loads(arrival.value or b"")
        cents = int(re.sub(r"\.", "", value["amount"]))
        at = datetime.fromisoformat(value["at"])
        late = _ms(at + LATENESS) < arrival.arrived_ms
        accepted.add(value["id"])
        for sums, amounts in (
            (balances[value["customer"]], (cents, 1, cents * late, int(late))),
            (months[f"{at:%Y-%m}"], (cents, 1)),
        ):
            sums[:] = [total + more for total, more in zip(sums, amounts, strict=True)]
        if not late:
            on_time[value["customer"]].append((at, cents))
    return Expected(
        accepted,
        rejected,
        {customer: (each[0], each[1], each[2], each[3]) for customer, each in balances.items()},
        {
            (customer, level)
            for customer, (cents, *_) in balances.items()
            for level in range(LEVEL_CENTS, cents + 1, LEVEL_CENTS)
        },
        _sessions(on_time),
        {month: (cents, count) for month, (cents, count) in months.items()},
    )


def _sessions(on_time: dict[str, list[tuple[datetime, int]]]) -> Counter[tuple[str, str, str, int, int]]:
    watermark = max(at for purchases in on_time.values() for at, _ in purchases) - LATENESS
    found: Counter[tuple[str, str, str, int, int]] = Counter()
    for customer, purchases in on_time.items():
        purchases.sort()
        cuts = [0, *(n for n, (one, two) in enumerate(pairwise(purchases), 1) if two[0] - one[0] > GAP), len(purchases)]
        for start, end in pairwise(cuts):
            session = purchases[start:end]
            opened, closed = session[0][0], session[-1][0] + GAP
            if closed <= watermark:
                cents = sum(cents for _, cents in session)
                found[customer, _iso(opened), _iso(closed), cents, len(session)] += 1
    return found


def read_json(bootstrap: str, topic: str) -> list[dict[str, Any]]:
    """Committed values, in order by partition."""
    return [json.loads(value or b"") for _, value in read_topic(bootstrap, topic, "read_committed")]


def check(bootstrap: str, prefix: str, expected: Expected) -> None:
    """Compares every topic of a ledger with `expected`. Raises AssertionError."""
    accepted = [each["id"] for each in read_json(bootstrap, f"{prefix}accepted")]
    assert Counter(accepted) == Counter(expected.accepted)
    assert Counter(each["reason"] for each in read_json(bootstrap, f"{prefix}rejected")) == expected.rejected
    check_balances(read_json(bootstrap, f"{prefix}balances"), expected)
    alerts = Counter((each["customer"], each["reached_cents"]) for each in read_json(bootstrap, f"{prefix}alerts"))
    assert alerts == Counter(expected.alerts)
    names = ("customer", "opened", "closed", "cents", "purchases")
    sessions = Counter(tuple(each[name] for name in names) for each in read_json(bootstrap, f"{prefix}sessions"))
    assert sessions == expected.sessions


def check_balances(rows: Iterable[dict[str, Any]], expected: Expected) -> None:
    """The last balance of each customer is right, and none was published twice."""
    names = ("cents", "purchases", "late_cents", "late_purchases")
    last: dict[str, tuple[int, ...]] = {}
    for row in rows:
        balance = tuple(row[name] for name in names)
        assert balance[1] > last.get(row["customer"], (0, 0))[1], f"a balance came twice, or late: {row}"
        last[row["customer"]] = balance
    assert last == expected.balances


def _ms(time: datetime) -> int:
    return int(time.timestamp() * 1000)


def _iso(time: datetime) -> str:
    return f"{time:%Y-%m-%dT%H:%M:%S.000Z}"
