"""Packets that come late over a connection that their client has given up, with an unmodified client."""

from confluent_kafka import Producer

from oncelog.faults import Action, ApiKey, FaultClient, Point, Rule, Selector
from tests.conftest import Start
from tests.daemon.test_admin_http import ADMIN, address_of
from tests.support.confluent import new_topic, read_all


def test_a_commit_that_comes_late_tears_the_next_transaction_of_a_client_of_version_1(start_daemon: Start) -> None:
    """Jepsen's torn transaction: the first EndTxn is held until librdkafka has given it up and committed by another;
    coming late it commits half of the next. Apache Kafka cannot tell either (KAFKA-17754): KIP-890's protocol can."""
    daemon = start_daemon(ADMIN)
    faults = FaultClient(address_of(daemon))
    topic = new_topic(daemon, partitions=2)
    producer = Producer(
        {"bootstrap.servers": daemon.bootstrap, "transactional.id": "torn", "socket.timeout.ms": 1_000, "linger.ms": 0}
    )
    producer.init_transactions(20)
    late = faults.plant(Rule(Point.REQUEST, Action.HOLD, Selector(api=ApiKey.END_TXN, transactional_id="torn")))
    producer.begin_transaction()
    producer.produce(topic, b"whole", partition=0)
    producer.commit_transaction(20)
    assert len(faults.status(late).held) == 1, "the commit went through by another request"
    producer.begin_transaction()
    producer.produce(topic, b"left leg", partition=0)
    assert producer.flush(10) == 0
    assert faults.release(late) == 1
    for event in faults.follow(faults.events()[-1]["number"] - 1):
        if event.get("state") == "CompleteCommit":
            break
    producer.produce(topic, b"right leg", partition=1)
    assert producer.flush(10) == 0
    producer.abort_transaction(20)
    assert read_all(daemon, topic, partitions=2) == [b"whole", b"left leg"]
