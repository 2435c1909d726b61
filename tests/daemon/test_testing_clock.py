"""The fixture's time: what it writes has the broker's time, and moving that time on does what time does."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from oncelog import AbortableError, ProducerFenced, TopicPartition
from oncelog.sync import Consumer, Producer
from oncelog.testing import Broker

HOUR_S = 3_600
DAY_S = 24 * HOUR_S
KINDS: dict[str, dict[str, Any]] = {"memory": {}, "disk": {"storage": "disk"}, "process": {"process": True}}
every_kind = pytest.mark.parametrize("kind", KINDS)
SMALL_SEGMENTS = {"segment.bytes": "1048576"}
FILLER = b"x" * 400_000


@every_kind
def test_a_record_has_the_time_of_the_broker_or_the_time_that_it_is_given(kind: str) -> None:
    with Broker(**KINDS[kind]) as broker:
        before_ms = broker.clock.now_ms()
        broker.clock.advance(30 * DAY_S)
        broker.produce("orders", b"now")
        broker.produce("orders", b"then", timestamp_ms=before_ms)
        broker.produce("orders", b"first", timestamp_ms=0)
        now_ms = broker.clock.now_ms()
        stamps = {record.value: record.timestamp_ms for record in broker.records("orders")}
        assert before_ms + 30 * DAY_S * 1000 <= stamps[b"now"] <= now_ms
        assert (stamps[b"then"], stamps[b"first"]) == (before_ms, 0)


def test_retention_by_time_reaches_closed_segments() -> None:
    with Broker() as broker:
        broker.create_topic("orders", config={"retention.ms": str(DAY_S * 1000), **SMALL_SEGMENTS})
        for _ in range(6):
            broker.produce("orders", FILLER)
        broker.clock.advance(HOUR_S)
        assert len(broker.records("orders")) == 6
        broker.clock.advance(2 * DAY_S)
        broker.produce("orders", b"fresh")
        assert broker.records("orders")[0].offset >= 4
        assert broker.records("orders")[-1].value == b"fresh"


def test_a_log_is_compacted_once_its_lag_has_passed() -> None:
    lag = {"cleanup.policy": "compact", "min.compaction.lag.ms": str(HOUR_S * 1000), **SMALL_SEGMENTS}
    with Broker() as broker:
        broker.create_topic("prices", config={**lag, "min.cleanable.dirty.ratio": "0.01"})
        for _ in range(6):
            broker.produce("prices", FILLER, key=b"shoe")
        broker.clock.advance(HOUR_S / 2)
        assert len(broker.records("prices")) == 6
        broker.clock.advance(HOUR_S)
        for _ in range(1_000):  # it pauses between its slices
            if len(broker.records("prices")) < 6:
                break
            broker.clock.advance(1)
        assert broker.records("prices")[0].offset > 0


def test_a_look_up_by_time_finds_what_was_written_after_it() -> None:
    with Broker() as broker:
        broker.produce("orders", b"old")
        broker.clock.advance(30 * DAY_S)
        between_ms = broker.clock.now_ms() - DAY_S * 1000
        broker.produce("orders", b"new")
        place = TopicPartition("orders", 0)
        with Consumer(bootstrap_servers=broker.bootstrap_servers) as consumer:
            found = consumer.offsets_for_times({place: between_ms})[place]
        assert found is not None and found.offset == 1


def test_offsets_of_an_empty_group_expire() -> None:
    with Broker(config={"offsets.retention.minutes": 60}) as broker:
        broker.produce("orders", b"1")
        place = TopicPartition("orders", 0)
        with Consumer(bootstrap_servers=broker.bootstrap_servers, group_id="billing") as consumer:
            consumer.assign([place])
            consumer.commit_sync({place: 1})
        broker.clock.advance(HOUR_S / 2)
        assert broker.committed("billing") == {place: 1}
        broker.clock.advance(HOUR_S)
        assert broker.committed("billing") == {}


def test_an_idle_transactional_id_expires() -> None:
    with Broker(config={"transactional.id.expiration.ms": HOUR_S * 1000}) as broker:
        with Producer(broker.bootstrap_servers, transactional_id="billing") as producer:
            with producer.transaction() as transaction:
                transaction.send("orders", b"42")
        broker.clock.advance(HOUR_S / 2)
        assert [each.transactional_id for each in broker.transactions()] == ["billing"]
        broker.clock.advance(2 * HOUR_S)
        assert broker.transactions() == []


@every_kind
def test_a_restart_lets_no_time_pass_a_second_time(kind: str) -> None:
    """An open transaction that began after the move is as old as it is."""
    with Broker(**KINDS[kind]) as broker:
        broker.clock.advance(2 * DAY_S)
        with Producer(broker.bootstrap_servers, transactional_id="writer", transaction_timeout_ms=600_000) as producer:
            with producer.transaction() as transaction:
                transaction.send("orders", b"kept")
                broker.restart()
                assert [each.state for each in broker.transactions()] == ["Ongoing"]
                broker.clock.advance(60)
                assert [each.state for each in broker.transactions()] == ["Ongoing"]
        assert [each.value for each in broker.records("orders")] == [b"kept"]


@pytest.mark.sampled(3)
@every_kind
def test_a_transaction_that_was_open_at_a_restart_ends_at_its_timeout(kind: str) -> None:
    with Broker(**KINDS[kind]) as broker:
        broker.clock.advance(2 * DAY_S)
        with Producer(broker.bootstrap_servers, transactional_id="writer", transaction_timeout_ms=600_000) as producer:
            with pytest.raises((AbortableError, ProducerFenced)):
                with producer.transaction() as transaction:
                    transaction.send("orders", b"torn")
                    broker.restart()
                    broker.clock.advance(601)
                    assert [each.state for each in broker.transactions()] == ["CompleteAbort"]


def test_a_clock_that_is_ahead_without_fault_injection_is_refused(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "oncelog.broker", "serve", "--data-dir", str(tmp_path / "data")]
    command += ["--listen", "127.0.0.1:0", "--override", "oncelog.admin.clock.ahead.ms=1"]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert answer.returncode != 0
    assert "oncelog.admin.clock.ahead.ms needs oncelog.admin.listen" in answer.stderr
