"""What any request costs, in each API and version: within a factor of its own bytes and of what is stored.

The requests are made from the schemas, so that a new API or array is held to the budget by itself. The memory of each
is measured in its highest version.
"""

import pytest

from oncelog.broker.apis.descriptor import Api
from oncelog.broker.apis.table import API_TABLE
from tests.fakes.broker import VirtualBroker
from tests.support.adversary import Attack, Stored, attacks
from tests.support.costs import cost_of, over_budget
from tests.support.stored import full_broker

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
    return [f"{attack}: {problem}" for problem in over_budget(cost, len(frame))]


@EVERY_API
def test_no_request_costs_more_than_its_bytes_and_what_is_stored_allow(stage: Stage, api: Api) -> None:
    problems = []
    for version in sorted({api.minimum, api.maximum}):
        for attack in attacks(api, version):
            problems += _problems(stage, attack, ELEMENTS, measures_memory=version == api.maximum)
    assert not problems, "\n".join(problems)


@pytest.mark.slow
@EVERY_API
def test_no_version_of_a_request_costs_more_than_its_bytes_and_what_is_stored_allow(stage: Stage, api: Api) -> None:
    problems = []
    for version in range(api.minimum + 1, api.maximum):
        for attack in attacks(api, version):
            problems += _problems(stage, attack, ELEMENTS)
    assert not problems, "\n".join(problems)


@EVERY_API
def test_no_large_request_costs_more_than_its_bytes_and_what_is_stored_allow(stage: Stage, api: Api) -> None:
    problems = []
    for attack in attacks(api, api.maximum):
        if attack.path:
            problems += _problems(stage, attack, MANY_ELEMENTS)
    assert not problems, "\n".join(problems)
