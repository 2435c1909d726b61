"""Two nodes over one PostgreSQL, each in a container: clients continue, whichever of the three is killed."""

import json
from collections.abc import Callable

import pytest

from tests.integration.conftest import Hire, create_topic
from tests.integration.containers import Container, wait_until

pytestmark = pytest.mark.compose
COMMITTED = "read_committed"
NODES = ("first-broker", "second-broker")
BOOTSTRAP = ",".join(f"{each}:9092" for each in NODES)
Find = Callable[[str], Container]


def _both(container: Find) -> list[Container]:
    """The nodes, once one leads and the other stands by."""
    nodes = [container(each) for each in NODES]
    for each in nodes:
        each.wait_until_healthy()

    def are_ready() -> bool:
        try:
            status = json.loads(nodes[0].execute("oncelog", "cluster", "status", "--json"))
        except RuntimeError:  # no node leads yet, or podman's name server is silent, for up to 10 s after each start
            return False
        return {each["state"] for each in status["nodes"]} == {"leads", "stands by"}

    wait_until(are_ready, "no node stands by")
    return nodes


def test_a_transaction_goes_on_whichever_node_is_killed(hire: Hire, name: str, container: Find) -> None:
    """Each in turn, so that the leader is among them: what is open then is committed with the other."""
    first, second = _both(container)
    alice, bob = hire("alice", BOOTSTRAP), hire("bob", BOOTSTRAP)
    create_topic(name, BOOTSTRAP)
    alice.open_producer(name)
    expected = []
    for number, node in enumerate((first, second, first)):
        alice.begin()
        alice.send(name, 0, f"{number} before")
        node.kill()
        alice.send(name, 1, f"{number} after")
        alice.commit()
        expected += [f"{number} before", f"{number} after"]
        node.start()
        _both(container)
    assert bob.read(name, COMMITTED) == sorted(expected)


def test_a_transaction_continues_when_postgresql_is_killed(hire: Hire, name: str, container: Find) -> None:
    _both(container)
    postgres = container("postgres")
    alice, bob = hire("alice", BOOTSTRAP), hire("bob", BOOTSTRAP)
    create_topic(name, BOOTSTRAP)
    alice.open_producer(name)
    alice.begin()
    alice.send(name, 0, "before")
    postgres.kill()
    alice.begin_call("send", name, 1, "after")
    postgres.start()
    alice.end_call()
    alice.commit()
    assert bob.read(name, COMMITTED) == ["after", "before"]
    _both(container)


def test_an_operator_moves_the_leader_under_an_open_transaction(hire: Hire, name: str, container: Find) -> None:
    first, _ = _both(container)
    alice, bob = hire("alice", BOOTSTRAP), hire("bob", BOOTSTRAP)
    create_topic(name, BOOTSTRAP)
    alice.open_producer(name)
    alice.begin()
    alice.send(name, 0, "before")
    assert "leads after" in first.execute("oncelog", "cluster", "step-down")
    alice.send(name, 1, "after")
    alice.commit()
    assert bob.read(name, COMMITTED) == ["after", "before"]
    _both(container)
