"""What becomes of transactions and groups when containers are killed, stopped, cut off the network, or out of disk."""

import time
from collections.abc import Callable
from pathlib import PurePosixPath

import pytest

from tests.integration.clients import Refused
from tests.integration.conftest import Hire, create_topic
from tests.integration.containers import Container, Worker

pytestmark = pytest.mark.compose
COMMITTED = "read_committed"
SMALL = "small-broker:9092"
BALLAST = PurePosixPath("/small/ballast")
_PATIENCE_S = 60

Find = Callable[[str], Container]


def _open_transaction(worker: Worker, topic: str, **options: int) -> None:
    """Open a transaction with one record in each partition."""
    worker.open_producer(topic, **options)
    worker.begin()
    worker.send(topic, 0, "0")
    worker.send(topic, 1, "1")


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_a_transaction_continues_after_the_broker_was_restarted_in_its_middle(
    hire: Hire, topic: str, container: Find, how: str
) -> None:
    alice, bob, broker = hire("alice"), hire("bob"), container("broker")
    _open_transaction(alice, topic)
    getattr(broker, how)()
    broker.start()
    alice.send(topic, 0, "2")
    assert bob.read(topic, COMMITTED) == []
    alice.commit()
    assert bob.read(topic, COMMITTED) == ["0", "1", "2"]


def test_a_commit_that_is_sent_while_the_broker_is_down_succeeds_once_it_is_back(
    hire: Hire, topic: str, container: Find
) -> None:
    alice, bob, broker = hire("alice"), hire("bob"), container("broker")
    _open_transaction(alice, topic)
    broker.kill()
    alice.begin_call("commit")
    broker.start()
    alice.end_call()
    assert bob.read(topic, COMMITTED) == ["0", "1"]


def test_positions_and_membership_survive_a_restart_of_their_coordinator(
    hire: Hire, topic: str, container: Find
) -> None:
    alice, broker = hire("alice"), container("broker")
    alice.open_producer(topic)
    alice.begin()
    alice.send(topic, 0, *map(str, range(6)))
    alice.commit()
    alice.join(topic, topic)
    assert alice.take(2) == ["0", "1"]
    alice.begin()
    alice.send_positions()
    broker.stop()
    broker.start()
    alice.commit()
    assert alice.take(2) == ["2", "3"]
    alice.leave()
    alice.join(topic, topic)
    assert alice.take(4) == ["2", "3", "4", "5"]


def _until(done: Callable[[], bool]) -> None:
    """Ask again until it is so; each question waits for an answer of a broker."""
    end_s = time.monotonic() + _PATIENCE_S
    while not done():
        assert time.monotonic() < end_s


def test_a_group_shares_its_partitions_and_gives_those_of_a_killed_member_to_the_others(
    hire: Hire, topic: str, container: Find
) -> None:
    alice, bob, his = hire("alice"), hire("bob"), container("bob")
    alice.join(topic, topic)
    _until(lambda: alice.share() == [0, 1])
    bob.join(topic, topic)
    _until(lambda: sorted((*alice.share(), *bob.share())) == [0, 1] and bob.share() != [])
    his.kill()
    _until(lambda: alice.share() == [0, 1])


def test_a_commit_waits_for_a_network_that_is_cut_and_healed(hire: Hire, topic: str, container: Find) -> None:
    alice, bob, hers = hire("alice"), hire("bob"), container("alice")
    _open_transaction(alice, topic)
    hers.disconnect()
    alice.begin_call("commit")
    assert bob.read(topic, COMMITTED) == []
    hers.connect()
    alice.end_call()
    assert bob.read(topic, COMMITTED) == ["0", "1"]


def test_a_client_that_was_cut_off_for_too_long_learns_that_its_transaction_was_aborted(
    hire: Hire, topic: str, container: Find
) -> None:
    alice, bob, hers = hire("alice"), hire("bob"), container("alice")
    _open_transaction(alice, topic, timeout_ms=3_000)
    hers.disconnect()
    bob.open_producer(f"{topic}-after")
    bob.begin()
    bob.send(topic, 0, "after")
    bob.commit()
    # The last stable offset stays below what bob has committed until the coordinator has aborted alice's transaction.
    _until(lambda: bob.read(topic, COMMITTED) == ["after"])
    hers.connect()
    with pytest.raises(Refused) as refused:
        alice.commit()
    assert refused.value.kind in ("fenced", "abortable")
    assert bob.read(topic, COMMITTED) == ["after"]


@pytest.mark.parametrize("kind", ["bundled"], indirect=True)  # librdkafka has no two-phase commit; here it reads
@pytest.mark.parametrize("broker_dies", [False, True])
def test_a_prepared_transaction_survives_the_kill_of_its_client_and_is_completed_in_another_container(
    hire: Hire, topic: str, container: Find, broker_dies: bool
) -> None:
    alice, bob, reader = hire("alice"), hire("bob"), hire("bob", client="librdkafka")
    alice.open_producer(topic, two_phase=True)
    alice.begin()
    alice.send(topic, 0, "prepared")
    prepared = alice.prepare()
    container("alice").kill()
    if broker_dies:
        broker = container("broker")
        broker.kill()
        broker.start()
    assert reader.read(topic, COMMITTED) == []
    assert bob.complete(topic, prepared) == "committed"
    assert reader.read(topic, COMMITTED) == ["prepared"]


def test_a_full_disk_refuses_writes_serves_reads_and_lets_a_commit_finish_once_there_is_room(
    hire: Hire, name: str, container: Find
) -> None:
    small = container("small-broker")
    alice, bob = hire("alice", SMALL), hire("bob", SMALL)
    create_topic(name, SMALL)
    alice.open_producer(f"{name}-before")
    alice.begin()
    alice.send(name, 0, "before")
    alice.commit()
    _open_transaction(alice, name)
    bob.open_producer(f"{name}-late", timeout_ms=3_000)
    small.execute("sh", "-c", f"dd if=/dev/zero of={BALLAST} bs=4k 2>/dev/null; [ -s {BALLAST} ]")
    bob.begin()
    with pytest.raises(Refused):
        bob.send(name, 1, "x" * 100_000)
    assert hire("alice", SMALL).read(name, COMMITTED) == ["before"]
    alice.begin_call("commit")
    small.execute("rm", str(BALLAST))
    alice.end_call()
    assert hire("alice", SMALL).read(name, COMMITTED) == ["0", "1", "before"]
