"""Transactions and groups between containers while nothing fails."""

import pytest

from tests.integration.clients import Refused
from tests.integration.conftest import Hire

pytestmark = pytest.mark.compose
COMMITTED, UNCOMMITTED = "read_committed", "read_uncommitted"


def test_each_isolation_level_sees_what_it_may_at_each_step(hire: Hire, topic: str) -> None:
    alice, bob = hire("alice"), hire("bob")
    alice.open_producer(topic)
    alice.begin()
    alice.send(topic, 0, "aborted-0")
    alice.send(topic, 1, "aborted-1")
    assert (bob.read(topic, COMMITTED), bob.read(topic, UNCOMMITTED)) == ([], ["aborted-0", "aborted-1"])
    alice.abort()
    alice.begin()
    alice.send(topic, 0, "kept-0")
    alice.send(topic, 1, "kept-1")
    assert bob.read(topic, COMMITTED) == []
    alice.commit()
    assert bob.read(topic, COMMITTED) == ["kept-0", "kept-1"]
    assert bob.read(topic, UNCOMMITTED) == ["aborted-0", "aborted-1", "kept-0", "kept-1"]


def test_a_group_continues_in_another_container_where_a_transaction_committed_its_positions(
    hire: Hire, topic: str
) -> None:
    alice, bob = hire("alice"), hire("bob")
    alice.open_producer(f"{topic}-source")
    alice.begin()
    alice.send(topic, 0, *map(str, range(10)))
    alice.commit()
    bob.open_producer(f"{topic}-copier")
    bob.join(topic, topic)
    for count, ends_with in ((4, "commit"), (3, "abort")):
        bob.begin()
        bob.send(topic, 1, *(f"{ends_with}-{value}" for value in bob.take(count)))
        bob.send_positions()
        getattr(bob, ends_with)()
    bob.leave()
    assert alice.read(topic, COMMITTED) == sorted([*map(str, range(10)), *(f"commit-{each}" for each in range(4))])
    alice.join(topic, topic)
    # Partition 1 has what was copied; what of it comes in between is of no interest.
    assert [value for value in alice.take(10) if value.isdigit()] == ["4", "5", "6", "7", "8", "9"]


def test_a_zombie_in_another_container_is_fenced_and_its_transaction_aborted(hire: Hire, topic: str) -> None:
    zombie, successor = hire("alice"), hire("bob")
    zombie.open_producer(topic)
    zombie.begin()
    zombie.send(topic, 0, "of the zombie")
    successor.open_producer(topic)
    successor.begin()
    successor.send(topic, 0, "of its successor")
    with pytest.raises(Refused) as refused:
        zombie.commit()
    assert refused.value.kind == "fenced"
    successor.commit()
    assert successor.read(topic, COMMITTED) == ["of its successor"]
