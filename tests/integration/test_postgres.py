"""A broker whose records are in PostgreSQL, in another container: it has no volume, and no file."""

from collections.abc import Callable

import pytest

from tests.integration.conftest import Hire, create_topic
from tests.integration.containers import Container

pytestmark = pytest.mark.compose
COMMITTED = "read_committed"
BROKER = "postgres-broker:9092"


def test_a_transaction_continues_after_the_broker_was_killed_that_keeps_no_file(
    hire: Hire, name: str, container: Callable[[str], Container]
) -> None:
    broker = container("postgres-broker")
    broker.wait_until_healthy()
    alice, bob = hire("alice", BROKER), hire("bob", BROKER)
    create_topic(name, BROKER)
    alice.open_producer(name)
    alice.begin()
    alice.send(name, 0, "before")
    assert broker.execute("find", "/var/lib/kafka/data", "-mindepth", "1") == ""
    broker.kill()
    broker.start()
    alice.send(name, 1, "after")
    assert bob.read(name, COMMITTED) == []
    alice.commit()
    assert bob.read(name, COMMITTED) == ["after", "before"]
