"""Who may connect: counts for all, for a listener, for an address, and how many in a second."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.broker.config.connection_limits import parse_connection_limits
from oncelog.broker.config.settings import ConfigError, load_config
from oncelog.broker.net.quotas import ConnectionQuotas

A, B = "10.0.0.1", "10.0.0.2"


def quotas(*overrides: str) -> ConnectionQuotas:
    config, _ = load_config(overrides=overrides)
    return ConnectionQuotas(lambda: config)


def test_at_max_connections_all_listeners_wait_until_a_connection_ends() -> None:
    given = quotas("max.connections=2")
    assert given.take("ONE", A) and given.take("TWO", B)
    assert given.wait_ms("ONE", 0) is None
    assert given.wait_ms("TWO", 0) is None
    given.give_back("ONE", A)
    assert given.wait_ms("TWO", 0) == 0


def test_connections_leave_the_descriptors_of_others_alone_whatever_is_set() -> None:
    config, _ = load_config(overrides=["max.connections=100"])
    given = ConnectionQuotas(lambda: config, descriptor_count=2)
    assert given.take("ONE", A)
    assert (given.wait_ms("ONE", 0), given.lacks_descriptors) == (0, False)
    assert given.take("TWO", B)
    assert (given.wait_ms("ONE", 0), given.lacks_descriptors) == (None, True)
    given.give_back("ONE", A)
    assert (given.wait_ms("TWO", 0), given.lacks_descriptors) == (0, False)


def test_a_full_listener_lets_the_others_accept() -> None:
    given = quotas("listener.name.one.max.connections=1")
    assert given.take("ONE", A)
    assert given.wait_ms("ONE", 0) is None
    assert given.wait_ms("TWO", 0) == 0


def test_one_too_many_from_an_address_is_refused_and_not_counted() -> None:
    given = quotas("max.connections.per.ip=1", f"max.connections.per.ip.overrides={B}:2,127.0.0.1:0")
    assert [given.take("ONE", host) for host in (A, A, B, B, B, "127.0.0.1")] == [True, False, True, True, False, False]
    assert given.count == 3
    given.give_back("ONE", A)
    assert given.take("ONE", A)


def test_above_the_rate_new_connections_wait_for_the_next_second() -> None:
    given = quotas("max.connection.creation.rate=2", "listener.name.slow.max.connection.creation.rate=1")
    assert given.wait_ms("SLOW", 5_000) == 0
    given.take("SLOW", A)
    assert given.wait_ms("SLOW", 5_400) == 600
    assert given.wait_ms("FAST", 5_400) == 0
    given.take("FAST", A)
    assert given.wait_ms("FAST", 5_500) == 500
    assert given.wait_ms("FAST", 6_000) == given.wait_ms("SLOW", 6_000) == 0


def test_limits_are_those_of_the_moment() -> None:
    config, _ = load_config(overrides=["max.connections=1"])
    given = ConnectionQuotas(lambda: config)
    given.take("ONE", A)
    assert given.wait_ms("ONE", 0) is None
    config = config.with_dynamic({"max.connections": "2"}, {})
    assert given.wait_ms("ONE", 0) == 0
    config = config.with_dynamic({"max.connections": "2"}, {"listener.name.one.max.connections": "1"})
    assert given.wait_ms("ONE", 0) is None
    assert given.wait_ms("TWO", 0) == 0


@given(st.lists(st.tuples(st.sampled_from("LM"), st.sampled_from((A, B)), st.booleans()), max_size=60))
def test_what_is_taken_and_given_back_is_forgotten(steps: Iterable[tuple[str, str, bool]]) -> None:
    """No more are open than allowed, in any order, and all that are given back can be opened again."""
    given = quotas("max.connections=5", "max.connections.per.ip=3")
    open_ones: list[tuple[str, str]] = []
    for listener, host, comes in steps:
        if comes and given.wait_ms(listener, 0) == 0:
            if given.take(listener, host):
                open_ones.append((listener, host))
        elif open_ones:
            given.give_back(*open_ones.pop(0))
        assert given.count == len(open_ones) <= 5
        assert all(sum(host == each for _, host in open_ones) <= 3 for each in (A, B))
    for each in open_ones:
        given.give_back(*each)
    assert all(given.take("L", host) for host in (A, A, A, B, B))


@pytest.mark.parametrize("text", ["10.0.0.1", "10.0.0.1:x", ":3", "no such name !:1", "10.0.0.1:-1", "10.0.0.1:²"])
def test_overrides_that_cannot_be_read_stop_the_start(text: str) -> None:
    with pytest.raises(ConfigError, match=r"max\.connections\.per\.ip\.overrides"):
        load_config(overrides=[f"max.connections.per.ip.overrides={text}"])


def test_overrides_name_addresses_and_hosts() -> None:
    limits = parse_connection_limits("10.0.0.1:1, [::1]:2,localhost:3")
    assert limits["10.0.0.1"] == 1
    assert limits["127.0.0.1"] == 3
    assert limits["::1"] in (2, 3)
    assert parse_connection_limits("") == {}
