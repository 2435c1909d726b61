"""Quotas with real clients over real sockets: each has its rate, and a throttled client slows no other."""

import time
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from oncelog.protocol.generated.alter_client_quotas_request import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from tests.clients.wire import WireBroker
from tests.conftest import Start
from tests.support.patience import PATIENCE_S

RATE = 400_000
SECONDS = 4
LARGEST_PIECE = 200_000
VALUE, BATCH_BYTES = b"x" * 2_000, 2_070
"""One record a batch."""


@pytest.fixture
def limited(start_daemon: Start) -> str:
    """Client ids that begin with `slow` have a quota of this rate; rates are measured over a second."""
    daemon = start_daemon("quota.window.num=2", "oncelog.flush.policy=os")
    ops = [OpData(key=key, value=float(RATE)) for key in ("producer_byte_rate", "consumer_byte_rate")]
    entity = [EntityData(entity_type="client-id", entity_name="slow")]
    broker = WireBroker(daemon.bootstrap)
    answer = broker.ask(AlterClientQuotasRequest(entries=[EntryData(entity=entity, ops=ops)]), 1)
    assert answer.entries[0].error_code == 0
    broker.close()
    admin = AdminClient({"bootstrap.servers": daemon.bootstrap})
    admin.create_topics([NewTopic("t", 1)])["t"].result(PATIENCE_S)
    return daemon.bootstrap


def has_its_quota(step: Callable[[], int]) -> bool:
    """Something, and no more than the quota allows for, five percent and the largest piece aside; a second's worth it
    has at once. That it is not less either, tests/unit/security/test_quotas.py says: here a client may be late."""
    moved, began = 0, time.monotonic()
    while time.monotonic() - began < SECONDS:
        moved += step()
    elapsed = time.monotonic() - began
    return 0 < moved < 1.05 * RATE * (elapsed + 1) + LARGEST_PIECE


def producing(bootstrap: str, client_id: str, waits: list[int] | None = None) -> Callable[[], int]:
    settings = {"bootstrap.servers": bootstrap, "client.id": client_id, "linger.ms": 0, "batch.num.messages": 1}
    if waits is not None:
        settings["throttle_cb"] = lambda event: waits.append(int(event.throttle_time * 1_000))
    producer = Producer(settings)

    def step() -> int:
        for _ in range(10):
            producer.produce("t", VALUE)
        assert producer.flush(PATIENCE_S) == 0
        return 10 * BATCH_BYTES

    return step


def test_a_producer_has_the_rate_of_its_quota_and_others_all_they_want(limited: str) -> None:
    waits: list[int] = []
    assert has_its_quota(producing(limited, "slow", waits))
    assert any(waits), "the client is told"
    other_waits: list[int] = []
    step = producing(limited, "other", other_waits)
    for _ in range(100):
        step()
    assert not any(other_waits)


def test_a_consumer_has_the_rate_of_its_quota(limited: str) -> None:
    produce = producing(limited, "other")
    for _ in range(int(RATE * (SECONDS + 4) / 10 / BATCH_BYTES)):
        produce()
    consumer = Consumer(
        {
            "bootstrap.servers": limited,
            "client.id": "slow",
            "group.id": "g",
            "fetch.message.max.bytes": LARGEST_PIECE,
        }
    )
    consumer.assign([TopicPartition("t", 0, 0)])

    def step() -> int:
        return BATCH_BYTES * len(consumer.consume(10, 0.1))

    assert has_its_quota(step)
    consumer.close()
