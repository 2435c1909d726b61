"""Settings that say how often something is done, or when it begins: the broker's background turn goes by them."""

import re

import pytest

from oncelog.broker.config.broker_keys import BROKER_KEYS
from oncelog.broker.config.kafka_names import UNNEEDED_GROUPS
from oncelog.broker.turns.schedule import Schedule
from oncelog.protocol.generated.describe_cluster_request import DescribeClusterRequest
from oncelog.protocol.generated.metadata_request import MetadataRequest
from tests.clients.administration import create, produce
from tests.fakes.broker import VirtualBroker

_PERIODIC = re.compile(r"(check|cleanup|prune|refresh|snapshot|scheduler)\.interval\.ms|backoff\.ms")
PERIODS = [name for name in BROKER_KEYS if _PERIODIC.search(name)]
_OTHERWISE = {
    "metadata.log.max.snapshot.interval.ms": "tests/unit/broker/test_metadata_snapshots.py",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "tests/unit/transaction/test_beyond_kafka.py",
}
"""Settings that no `Schedule` takes, each with the test of its effect."""
_NOT_THE_BROKERS = ("heartbeat", "oncelog.")
_MS = 54_321
_ALL_PARTS = ("delegation.token.secret.key=secret", "oncelog.flush.policy=os")
"""Settings with which every part of the turn has something to do."""


@pytest.mark.interpreted
@pytest.mark.parametrize("name", [name for name in PERIODS if name not in _OTHERWISE])
def test_a_setting_that_says_how_often_is_an_interval_of_the_turn(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = set()
    take = Schedule.take

    def recorded(self: Schedule, interval_ms: int) -> bool:
        taken.add(interval_ms)
        return take(self, interval_ms)

    monkeypatch.setattr(Schedule, "take", recorded)
    for value in (_MS, 2 * _MS):
        broker = VirtualBroker(f"{name}={value}", *_ALL_PARTS).broker
        assert broker.tokens is not None
        for part in (broker.logs, broker.transactions, broker.groups, broker.shares_when_needed.get(), broker.tokens):
            part.step()
        assert taken.intersection((_MS, 2 * _MS)) == {value}
        taken.clear()


def test_no_setting_that_says_how_often_is_left_out() -> None:
    said = {name for name, key in BROKER_KEYS.items() if key.doc.startswith("How often")}
    assert {name for name in said.difference(PERIODS) if not any(part in name for part in _NOT_THE_BROKERS)} == {
        "group.share.delivery.count.limit"
    }


def test_an_interval_without_effect_is_one_of_a_job_that_is_not_done_here() -> None:
    """A setting that comes to such a group has to be one of its job."""
    titles = {
        group.title
        for group in UNNEEDED_GROUPS
        if not group.is_internal and any("interval" in name for name in group.names)
    }
    assert titles == {
        "Checkpoints",
        "Java's metrics",
        "Replication",
        "Requests that wait",
        "Segments of the metadata log",
        "The controllers' quorum",
        "Tiered storage",
    }


@pytest.mark.parametrize("delay_ms", [0, 30_000])
def test_old_segments_stay_for_the_delay_after_a_start(delay_ms: int) -> None:
    broker = VirtualBroker()
    create(broker, "topic", segment_ms="1", retention_ms="5")
    for _ in range(3):
        produce(broker, "topic")
        broker.let_pass(10)
    broker = broker.killed(f"log.initial.task.delay.ms={delay_ms}")
    starts = []
    for _ in range(2):
        broker.broker.logs.step()
        broker.time.settle()
        starts.append(broker.broker.topics.partition("topic", 0).log_start_offset > 0)
        broker.let_pass(30_000)
    assert starts == [delay_ms == 0, True]


@pytest.mark.parametrize(("settings", "rack"), [((), None), (("broker.rack=a rack",), "a rack")])
def test_the_rack_of_the_node_is_shown(settings: tuple[str, ...], rack: str | None) -> None:
    broker = VirtualBroker(*settings)
    shown = [broker.ask(DescribeClusterRequest(), 2).brokers, broker.ask(MetadataRequest(topics=[]), 13).brokers]
    assert [[each.rack for each in brokers] for brokers in shown] == [[rack], [rack]]
