"""A real daemon that kills itself at one chosen write of a commit, and an unmodified client that does not notice."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import Producer

from oncelog.faults import Action, Point, Rule, Selector
from tests.conftest import Start
from tests.daemon.test_admin_http import ADMIN
from tests.support.foreign.confluent import new_topic, read_all
from tests.support.patience import PATIENCE_S
from tests.support.processes.faults import faults_of

STATE = "__transaction_state"


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("point", "action", "state"),
    [
        (Point.APPEND, Action.TEAR, "PrepareCommit"),
        (Point.APPEND, Action.CRASH, "PrepareCommit"),
        (Point.APPENDED, Action.CRASH, "PrepareCommit"),
        (Point.APPENDED, Action.CRASH, None),
        (Point.APPEND, Action.CRASH, None),
        (Point.APPEND, Action.TEAR, "CompleteCommit"),
    ],
    ids=lambda value: getattr(value, "value", value or "marker"),
)
def test_a_commit_survives_a_kill_at_any_of_its_writes(
    start_daemon: Start, point: Point, action: Action, state: str | None
) -> None:
    daemon = start_daemon(ADMIN)
    topic = new_topic(daemon, partitions=2)
    producer = Producer({"bootstrap.servers": daemon.bootstrap, "transactional.id": "survivor"})
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    for partition in range(2):
        producer.produce(topic, b"%d" % partition, partition=partition)
    assert producer.flush(PATIENCE_S) == 0
    of = Selector(topic=topic, partition=1) if state is None else Selector(topic=STATE, state=state)
    faults_of(daemon).plant(Rule(point, action, of))
    with ThreadPoolExecutor() as pool:
        committing = pool.submit(producer.commit_transaction, 30)
        assert daemon.process.wait(PATIENCE_S) == -9
        daemon.kill()
        daemon.start()
        committing.result(PATIENCE_S)
    assert sorted(read_all(daemon, topic, partitions=2)) == [b"0", b"1"]
    producer.begin_transaction()
    producer.produce(topic, b"next", partition=0)
    producer.commit_transaction(PATIENCE_S)
    assert sorted(read_all(daemon, topic, partitions=2)) == [b"0", b"1", b"next"]
