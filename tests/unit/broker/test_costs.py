"""What any request costs, in each API and version: within a factor of its own bytes and of what is stored.

The requests are made from the schemas, so that a new API or array is held to the budget by itself.
"""

from collections.abc import Iterator

import pytest

from broker.api_table import API_TABLE, Api
from tests.fakes.broker import VirtualBroker
from tests.support.adversary import Attack, Stored, attacks
from tests.support.costs import CALLS_IN_20_MS, Cost, cost_of
from tests.support.stored import full_broker

ELEMENTS, MANY_ELEMENTS = 200, 3_000
CALLS, CALLS_A_BYTE = 10_000, 100
"""Plus `calls_a_stored_element` of `STORED_ELEMENTS`."""
ANSWERED_BYTES, ANSWERED_BYTES_A_BYTE = 30_000, 60
STORED_ELEMENTS = 6_000
CALLS_A_STORED_ELEMENT, ANSWERED_BYTES_A_STORED_ELEMENT = 120, 120
PEAK_BYTES, PEAK_BYTES_A_BYTE, PEAK_BYTES_A_STORED_ELEMENT = 1_000_000, 500, 1_000
EVERY_API = pytest.mark.parametrize("api", API_TABLE.values(), ids=lambda api: api.name)


@pytest.fixture(scope="module")
def stored() -> Iterator[tuple[VirtualBroker, Stored]]:
    yield full_broker()


def _cost(stored: tuple[VirtualBroker, Stored], attack: Attack, element_count: int, **how: bool) -> tuple[Cost, int]:
    broker, names = stored
    frame = broker.frame(attack.message(names, element_count), attack.version)
    cost = cost_of(broker, frame, **how)
    broker.time.settle()
    return cost, len(frame)


def _problems(attack: Attack, cost: Cost, size_bytes: int) -> list[str]:
    bounds = (
        ("calls", cost.calls, CALLS + CALLS_A_BYTE * size_bytes + CALLS_A_STORED_ELEMENT * STORED_ELEMENTS),
        ("calls in one turn", cost.longest_turn_calls, CALLS_IN_20_MS),
        (
            "bytes answered",
            cost.answered_bytes,
            ANSWERED_BYTES + ANSWERED_BYTES_A_BYTE * size_bytes + ANSWERED_BYTES_A_STORED_ELEMENT * STORED_ELEMENTS,
        ),
        (
            "bytes in memory",
            cost.peak_bytes,
            PEAK_BYTES + PEAK_BYTES_A_BYTE * size_bytes + PEAK_BYTES_A_STORED_ELEMENT * STORED_ELEMENTS,
        ),
    )
    return [
        f"{attack}: {size_bytes} bytes cost {found} {what}, {most} is the most"
        for what, found, most in bounds
        if found > most
    ]


@EVERY_API
def test_no_request_costs_more_than_its_bytes_and_what_is_stored_allow(
    stored: tuple[VirtualBroker, Stored], api: Api
) -> None:
    problems = []
    for version in range(api.minimum, api.maximum + 1):
        for attack in attacks(api, version):
            problems += _problems(attack, *_cost(stored, attack, ELEMENTS))
    assert not problems, "\n".join(problems)


@EVERY_API
def test_no_large_request_costs_more_than_its_bytes_and_what_is_stored_allow(
    stored: tuple[VirtualBroker, Stored], api: Api
) -> None:
    problems = []
    for attack in attacks(api, api.maximum):
        if attack.path:
            problems += _problems(attack, *_cost(stored, attack, MANY_ELEMENTS))
    assert not problems, "\n".join(problems)
