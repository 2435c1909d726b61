"""More partitions written between two checkpoints than one call of the system takes buffers."""

from collections.abc import Callable

import pytest
from confluent_kafka import Producer

from tests.support.foreign.confluent import new_topic, read_all
from tests.support.patience import PATIENCE_S
from tests.support.processes.daemon import Daemon

COUNT = 10_000
VALUE_BYTES = 2_000
"""Three rounds fill both files of the journal more than once, so that checkpoints cover all partitions."""
ROUNDS = 3


@pytest.mark.slow
def test_ten_thousand_partitions_are_written_killed_read_and_stopped(start_daemon: Callable[..., Daemon]) -> None:
    daemon = start_daemon()
    topic = new_topic(daemon, partitions=COUNT)
    acknowledged: list[int] = []
    producer = Producer({"bootstrap.servers": daemon.bootstrap, "linger.ms": 100})
    for number in range(ROUNDS):
        for partition in range(COUNT):
            producer.produce(
                topic,
                b"%d " % number + bytes(VALUE_BYTES),
                partition=partition,
                on_delivery=lambda error, message: acknowledged.append(error is None),
            )
            producer.poll(0)
        assert producer.flush(PATIENCE_S) == 0
    assert acknowledged == [True] * (ROUNDS * COUNT)
    daemon.kill()
    daemon.start()
    assert len(read_all(daemon, topic, partitions=COUNT)) == ROUNDS * COUNT
    assert daemon.stop() == 0
    daemon.start()
    assert daemon.stop() == 0
