"""Reads everything back with confluent-kafka, a third-party client, and compares it with the file.

Owns: the comparison. The only expectation is what `data.totals_of` computed from the input.
"""

import json
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from oncelog.pipeline.demo.data import Totals

_POLL_S = 0.2
_STALLED_POLLS = 150
_BATCH = 5_000
_LIST_S = 10


class Unreadable(Exception):
    """Raised if the broker stopped returning records before the end."""


@dataclass(slots=True)
class Seen:
    """The sums of one reader of the purchases topic."""

    records: int = 0
    cents: int = 0
    rows: Counter[int] = field(default_factory=Counter)
    by_customer: Counter[str] = field(default_factory=Counter)


def read_topic(bootstrap: str, topic: str, isolation_level: str) -> Iterator[tuple[bytes | None, bytes | None]]:
    """Yield key and value of each record up to the end that the isolation level may reach. Raises Unreadable."""
    from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"verify-{uuid.uuid4().hex[:8]}",
            "isolation.level": isolation_level,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    try:
        partitions = consumer.list_topics(topic, _LIST_S).topics[topic].partitions
    except KafkaException as failure:
        raise Unreadable(f"{topic} cannot be read: {failure}") from failure
    consumer.assign([TopicPartition(topic, index, 0) for index in partitions])
    left = set(partitions)
    stalled = 0
    while left:
        messages = consumer.consume(_BATCH, _POLL_S)
        stalled = 0 if messages else stalled + 1
        if stalled > _STALLED_POLLS:
            waited_s = _STALLED_POLLS * _POLL_S
            raise Unreadable(
                f"no record and no end of {topic} within {waited_s:g} s, partitions {sorted(left)} are left"
            )
        for message in messages:
            error = message.error()
            if error is None:
                yield message.key(), message.value()
            elif error.code() == KafkaError._PARTITION_EOF:
                left.discard(message.partition())
            else:
                raise Unreadable(str(error))
    consumer.close()


def read_purchases_back(bootstrap: str, topic: str, isolation_level: str) -> Seen:
    seen = Seen()
    for _, value in read_topic(bootstrap, topic, isolation_level):
        purchase: dict[str, Any] = json.loads(value or b"{}")
        seen.records += 1
        seen.cents += purchase["cents"]
        seen.rows[purchase["row"]] += 1
        seen.by_customer[purchase["customer"]] += purchase["cents"]
    return seen


@dataclass(slots=True)
class Published:
    """The newest total of each key in the output topic."""

    records: int = 0
    by_customer: dict[str, int] = field(default_factory=dict)
    by_month: dict[str, int] = field(default_factory=dict)
    purchases: int = 0


def read_totals_back(bootstrap: str, topic: str) -> Published:
    published = Published()
    counts: dict[str, int] = {}
    for key, value in read_topic(bootstrap, topic, "read_committed"):
        kind, _, name = (key or b"").decode().partition(":")
        total = json.loads(value or b"{}")
        published.records += 1
        (published.by_customer if kind == "customer" else published.by_month)[name] = total["cents"]
        if kind == "customer":
            counts[name] = total["purchases"]
    published.purchases = sum(counts.values())
    return published


def differences(expected: Totals, committed: Seen, published: Published) -> list[str]:
    """Return every difference between what was read back and the file; nothing if there is none."""
    found = []
    doubled = [row for row, times in committed.rows.items() if times > 1]
    missing = [row for row in range(expected.count) if row not in committed.rows]
    if doubled:
        found.append(f"{len(doubled)} purchases were read more than once, first row {min(doubled)}")
    if missing:
        found.append(f"{len(missing)} purchases are missing, first row {min(missing)}")
    found += _compare("read_committed total", expected.cents, committed.cents)
    found += _compare_keys("read_committed, customer", expected.by_customer, committed.by_customer)
    found += _compare("pipeline purchases", expected.count, published.purchases)
    found += _compare_keys("pipeline, customer", expected.by_customer, published.by_customer)
    found += _compare_keys("pipeline, month", expected.by_month, published.by_month)
    return found


def _compare(what: str, expected: int, found: int) -> list[str]:
    return [] if expected == found else [f"{what}: {found:,} instead of {expected:,} ({found - expected:+,})"]


def _compare_keys(what: str, expected: dict[str, int], found: "dict[str, int] | Counter[str]") -> list[str]:
    wrong = sorted(key for key in expected.keys() | found.keys() if expected.get(key) != found.get(key))
    if not wrong:
        return []
    first = wrong[0]
    return [f"{what}: {len(wrong)} differ, first {first}: {found.get(first)} instead of {expected.get(first)}"]
