"""What any request costs, in each API and version: within a factor of its own bytes and of what is stored.

The requests are made from the schemas, so that a new API or array is held to the budget by itself. The memory of each
is measured in its highest version. A sample meets each array once: small of equal elements, large of different ones.
"""

import pytest

from oncelog.broker.apis.descriptor import Api
from oncelog.broker.apis.table import API_TABLE
from tests.fakes.broker import VirtualBroker
from tests.support.requests.adversary import Attack, Stored, attacks
from tests.support.requests.costs import cost_of, over_budget
from tests.support.requests.stored import full_broker

ELEMENTS, MANY_ELEMENTS = 200, 2_000
EVERY_API = pytest.mark.parametrize("api", API_TABLE.values(), ids=lambda api: api.name)
Stage = tuple[VirtualBroker, Stored]


@pytest.fixture(scope="module")
def stage() -> Stage:
    return full_broker()


def _problems(stage: Stage, attack: Attack, element_count: int, *, measures_memory: bool = False) -> list[str]:
    broker, stored = stage
    frame = broker.frame(attack.message(stored, element_count), attack.version)
    cost = cost_of(broker, frame, measures_memory=measures_memory)
    broker.time.settle()
    return [f"{attack}: {problem}" for problem in over_budget(cost, len(frame), api=attack.api)]


@pytest.mark.sampled(11)
@EVERY_API
@pytest.mark.parametrize(
    ("element_count", "is_same"),
    [
        (ELEMENTS, True),
        (MANY_ELEMENTS, False),
        pytest.param(ELEMENTS, False, marks=pytest.mark.slow),
        pytest.param(MANY_ELEMENTS, True, marks=pytest.mark.slow),
    ],
)
def test_no_request_costs_more_than_its_bytes_and_what_is_stored_allow(
    stage: Stage, api: Api, element_count: int, is_same: bool
) -> None:
    problems = []
    for attack in attacks(api, api.maximum):
        if attack.is_same is is_same:
            problems += _problems(stage, attack, element_count, measures_memory=element_count == ELEMENTS)
    assert not problems, "\n".join(problems)


@pytest.mark.slow
@EVERY_API
def test_no_version_of_a_request_costs_more_than_its_bytes_and_what_is_stored_allow(stage: Stage, api: Api) -> None:
    problems = []
    for version in range(api.minimum, api.maximum):
        for attack in attacks(api, version):
            problems += _problems(stage, attack, ELEMENTS)
    assert not problems, "\n".join(problems)
