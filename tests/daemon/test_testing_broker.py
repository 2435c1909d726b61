"""`oncelog.testing.Broker`: a real broker inside a test, with its crashes and its time in the test's hands."""

import logging
import signal
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from oncelog import AbortableError, KafkaError, ProducerFenced, TopicPartition
from oncelog.broker.config.settings import ConfigError, StartError
from oncelog.broker.storage.local.data_directory import ADOPTED
from oncelog.faults import Action, Point, Rule, Selector
from oncelog.sync import Consumer, Producer
from oncelog.testing import Broker, KafkaContainer
from tests.support.patience import PATIENCE_S

KINDS: dict[str, dict[str, Any]] = {"memory": {}, "disk": {"storage": "disk"}, "process": {"process": True}}
every_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.mark.sampled(3)
@every_kind
def test_what_was_acknowledged_is_there_after_a_crash_and_a_restart_on_the_same_port(kind: str) -> None:
    with Broker(partitions=3, **KINDS[kind]) as broker:
        address = broker.bootstrap_servers
        written = [broker.produce("orders", b"%d" % number, partition=number % 3) for number in range(6)]
        broker.crash()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(_host_and_port(address), timeout=PATIENCE_S)
        broker.restart()
        assert broker.bootstrap_servers == address
        read = [(each.partition, each.offset, each.value) for each in broker.records("orders")]
        assert read == sorted((each.partition, each.offset, b"%d" % number) for number, each in enumerate(written))


@every_kind
def test_an_open_transaction_is_seen_bounded_and_ended_by_moving_time_on(kind: str) -> None:
    """A minute passes for the broker alone."""
    with Broker(**KINDS[kind]) as broker:
        broker.produce("orders", b"before")
        with Producer(broker.bootstrap_servers, transactional_id="writer", transaction_timeout_ms=60_000) as producer:
            with pytest.raises((AbortableError, ProducerFenced)):
                with producer.transaction() as transaction:
                    transaction.send("orders", b"torn")
                    assert [each.state for each in broker.transactions()] == ["Ongoing"]
                    assert broker.last_stable_offset("orders") == 1
                    assert [each.value for each in broker.records("orders")] == [b"before"]
                    seen = broker.records("orders", isolation="read_uncommitted")
                    assert [each.value for each in seen] == [b"before", b"torn"]
                    broker.clock.advance(75)
                    assert [each.state for each in broker.transactions()] == ["CompleteAbort"]
                    assert broker.last_stable_offset("orders") == 3
        assert [each.value for each in broker.records("orders")] == [b"before"]


@every_kind
def test_time_does_not_go_back_at_a_restart(kind: str) -> None:
    with Broker(**KINDS[kind]) as broker:
        before = broker.produce("orders", b"1").timestamp_ms
        broker.clock.advance(3_600)
        broker.restart()
        broker.create_topic("stamped", config={"message.timestamp.type": "LogAppendTime"})
        assert broker.produce("stamped", b"2").timestamp_ms >= before + 3_600_000


@every_kind
def test_faults_hold_a_commit_between_its_markers(kind: str) -> None:
    with Broker(partitions=2, **KINDS[kind]) as broker:
        broker.create_topic("orders")
        rule = broker.faults.plant(Rule(Point.MARKER, Action.HOLD, Selector(transactional_id="writer"), times=None))
        with Producer(broker.bootstrap_servers, transactional_id="writer") as producer:
            with producer.transaction() as transaction:
                transaction.send("orders", b"a", partition=0)
                transaction.send("orders", b"b", partition=1)
            assert [each.state for each in broker.transactions()] == ["PrepareCommit"]
            assert broker.records("orders") == []
            broker.faults.release(rule)
        with Producer(broker.bootstrap_servers, transactional_id="writer") as next_one:
            next_one.init_transactions()  # waits for the end of the transaction
            assert [each.value for each in broker.records("orders")] == [b"a", b"b"]


@every_kind
def test_a_rule_that_crashes_the_broker_ends_it_and_a_restart_finishes_what_was_prepared(kind: str) -> None:
    with Broker(**KINDS[kind]) as broker:
        broker.create_topic("orders")
        broker.faults.plant(Rule(Point.MARKER, Action.CRASH, Selector(transactional_id="writer")))
        with Producer(broker.bootstrap_servers, transactional_id="writer", max_block_ms=30_000) as producer:
            done = threading.Thread(target=_restart_when_gone, args=(broker,))
            done.start()
            with producer.transaction() as transaction:
                transaction.send("orders", b"kept")
            done.join()
        assert [each.value for each in broker.records("orders")] == [b"kept"]


def test_a_power_cut_without_syncs_loses_the_end_of_what_was_acknowledged_as_the_seed_decides() -> None:
    def left(seed: int) -> int:
        with Broker(config={"oncelog.flush.policy": "os"}, seed=seed) as broker:
            broker.create_topic("orders")
            broker.restart()
            for number in range(20):
                broker.produce("orders", b"%d" % number)
            broker.power_cut()
            broker.restart()
            values = [each.value for each in broker.records("orders")]
            assert values == [b"%d" % number for number in range(len(values))]
            return len(values)

    found = [left(seed) for seed in range(8)]
    assert min(found) < 20
    assert len(set(found)) > 2


def test_a_kill_loses_nothing_that_was_answered_where_a_power_cut_does() -> None:
    """Not even without syncs, and not from seed to seed."""
    for seed in range(4):
        with Broker(config={"oncelog.flush.policy": "os"}, seed=seed) as broker:
            for number in range(20):
                broker.produce("orders", b"%d" % number)
            broker.kill()
            broker.restart()
            assert [each.value for each in broker.records("orders")] == [b"%d" % number for number in range(20)]


@every_kind
def test_a_transaction_that_is_open_at_a_kill_can_be_committed_after_it(kind: str) -> None:
    with Broker(**KINDS[kind]) as broker:
        with Producer(broker.bootstrap_servers, transactional_id="writer") as producer:
            with producer.transaction() as transaction:
                transaction.send("orders", b"42")
                broker.kill()
                broker.restart()
        assert [each.value for each in broker.records("orders")] == [b"42"]


def test_a_commit_after_a_power_cut_succeeds_with_all_records_or_fails_and_leaves_none() -> None:
    """The outcome depends on how long the transaction was open."""
    with Broker() as broker:
        expected = [b"42"]
        with Producer(broker.bootstrap_servers, transactional_id="writer") as producer:
            try:
                with producer.transaction() as transaction:
                    transaction.send("orders", b"42")
                    broker.power_cut()
                    broker.restart()
            except ProducerFenced:
                expected = []
        assert [each.value for each in broker.records("orders")] == expected
        assert [each.state for each in broker.transactions()] == ["CompleteCommit" if expected else "CompleteAbort"]


@pytest.mark.parametrize("kind", ["disk", "process"])
def test_a_real_disk_takes_no_power_cut_and_runs_on(kind: str) -> None:
    with Broker(**KINDS[kind]) as broker:
        with pytest.raises(RuntimeError, match=r"use kill\(\)"):
            broker.power_cut()
        broker.produce("orders", b"1")
        broker.crash()
        broker.restart()
        assert len(broker.records("orders")) == 1


@every_kind
def test_a_clean_stop_keeps_everything_and_start_continues(kind: str) -> None:
    broker = Broker(**KINDS[kind]).start()
    try:
        broker.produce("orders", b"1")
        broker.stop()
        broker.start()
        assert [each.value for each in broker.records("orders")] == [b"1"]
    finally:
        broker.close()


def test_a_directory_that_is_named_stays(tmp_path: Path) -> None:
    for number in range(2):
        with Broker(storage=tmp_path / "data") as broker:
            broker.produce("orders", b"%d" % number)
    with Broker(storage=tmp_path / "data", process=True) as broker:
        assert [each.value for each in broker.records("orders")] == [b"0", b"1"]


@pytest.mark.parametrize("process", [False, True])
def test_an_adopted_directory_is_read_and_not_written_until_that_is_asked_for(tmp_path: Path, process: bool) -> None:
    data = tmp_path / "data"
    with Broker(storage=data) as broker:
        broker.produce("orders", b"1")
    mark = data / ADOPTED
    mark.touch()
    before = {path: path.read_bytes() for path in data.rglob("*") if path.is_file()}
    with Broker(storage=data, process=process) as broker:
        assert [each.value for each in broker.records("orders")] == [b"1"]
        with pytest.raises(KafkaError, match=r"oncelog\.read\.only"):
            broker.create_topic("more")
    assert {path: path.read_bytes() for path in data.rglob("*") if path.is_file()} == before
    with Broker(storage=data, process=process, config={"oncelog.read.only": False}) as broker:
        broker.produce("orders", b"2")
    assert not mark.exists()


def test_offsets_that_a_group_commits_are_seen() -> None:
    with Broker() as broker:
        broker.produce("orders", b"1")
        with Consumer(
            "orders", bootstrap_servers=broker.bootstrap_servers, group_id="billing", auto_offset_reset="earliest"
        ) as consumer:
            while not consumer.poll(1_000):
                pass
            consumer.commit_sync()
        assert broker.committed("billing") == {TopicPartition("orders", 0): 1}
        assert broker.committed("others") == {}


def test_settings_are_kafkas_and_a_wrong_one_is_refused() -> None:
    with Broker(config={"auto.create.topics.enable": False, "message.max.bytes": 1_000}) as broker:
        topic = broker.create_topic()
        assert topic in broker.topics()
        with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"):
            broker.produce(topic, b"x" * 2_000)
    with pytest.raises(ConfigError, match=r"message\.max\.bytes"):
        Broker(config={"message.max.bytes": "many"}).start()


def test_a_broker_leaves_the_process_as_it_found_it(caplog: pytest.LogCaptureFixture) -> None:
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    threads = set(threading.enumerate())
    with caplog.at_level(logging.INFO, "oncelog.broker"), Broker() as broker:
        broker.produce("orders", b"1")
        broker.crash()
        broker.restart()
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers
    assert set(threading.enumerate()) <= threads
    assert {record.name for record in caplog.records} == {"oncelog.broker"}


def test_what_a_crash_leaves_is_expected_and_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "oncelog.broker"), Broker() as broker:
        broker.produce("orders", b"1")
        broker.crash()
        broker.restart()
        assert len(broker.records("orders")) == 1
    left = [each for each in caplog.records if each.getMessage().startswith(("log.recovered", "data_dir.damaged"))]
    assert {each.levelno for each in left} == {logging.INFO}
    assert all(each.getMessage().endswith("(expected after the crash)") for each in left)


def test_many_brokers_run_side_by_side() -> None:
    brokers = [Broker().start() for _ in range(8)]
    try:
        for number, broker in enumerate(brokers):
            broker.produce("orders", b"%d" % number)
        assert [[each.value for each in broker.records("orders")] for broker in brokers] == [
            [b"%d" % number] for number in range(8)
        ]
    finally:
        for broker in brokers:
            broker.close()


def test_the_stand_in_for_a_container_needs_a_changed_import_alone() -> None:
    with KafkaContainer("confluentinc/cp-kafka:7.6.0").with_kraft().with_env("KAFKA_NUM_PARTITIONS", "4") as kafka:
        with Producer(kafka.get_bootstrap_server()) as producer:
            producer.send("orders", b"1")
        with Consumer(bootstrap_servers=kafka.get_bootstrap_server()) as consumer:
            assert len(consumer.partitions_for("orders")) == 4
        assert kafka.get_bootstrap_server() == f"{kafka.get_container_host_ip()}:{kafka.get_exposed_port(9093)}"
        with pytest.raises(NotImplementedError, match=r"KafkaContainer\.exec: there is no container"):
            kafka.exec("kafka-topics.sh --list")
    with pytest.raises(RuntimeError, match="not running"):
        kafka.get_bootstrap_server()


def _host_and_port(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)


def _restart_when_gone(broker: Broker) -> None:
    broker.wait_ended()
    broker.restart()


def test_a_broker_that_does_not_run_and_a_mistyped_storage_are_reported_at_once() -> None:
    for use in (lambda: Broker().produce("orders", b"1"), lambda: Broker().records("orders"), lambda: Broker().faults):
        with pytest.raises(RuntimeError, match="the broker is not running: start it"):
            use()
    with Broker() as broker:
        broker.kill()
        with pytest.raises(RuntimeError, match=r"the broker was killed: restart\(\) starts it again"):
            broker.topics()
        broker.restart()
        broker.stop()
        with pytest.raises(RuntimeError, match=r"the broker was stopped: restart\(\) starts it again"):
            broker.clock.now_ms()
    with pytest.raises(RuntimeError, match="the broker is not running: start it"):
        broker.topics()
    with pytest.raises(ValueError, match="storage='dsk': it is 'memory', 'disk', 'postgresql://…' or a pathlib"):
        Broker(storage="dsk")


@pytest.mark.parametrize("process", [False, True])
def test_a_port_that_is_taken_is_named_with_what_to_do(process: bool) -> None:
    """The error names the argument `port`, at the first start and at a later one, and no option of a command."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(StartError, match=f"cannot have port {port} .*leave out `port=`") as refused:
            Broker(port=port, process=process).start()
    assert "--listen" not in str(refused.value)
    with Broker(port=port, process=process) as broker:
        broker.stop()
        with socket.create_server(("127.0.0.1", port)), pytest.raises(StartError, match="end what listens there"):
            broker.start()
        broker.start()


@pytest.mark.parametrize("seconds", [-1, -0.001, float("nan"), float("inf"), 10 * 366 * 86_400 + 1])
def test_a_clock_that_cannot_be_moved_so_says_how_it_can(seconds: float) -> None:
    with Broker() as broker:
        with pytest.raises(ValueError, match="time moves on by 0 to 316224000 seconds, never back"):
            broker.clock.advance(seconds)
        assert broker.clock.ahead_ms == 0
        broker.clock.advance(0)
