"""A part of Kafka's own tests in each run of `make interop`: requests, transactions and share groups."""

import pytest

from tests.kafka.classes import JARS, STAND_IN
from tests.kafka.launch import run_class
from tests.kafka.results import read_reasons, read_results, result_of
from tests.support.foreign.interop import needs

pytestmark = pytest.mark.interop

CHOSEN = (
    "kafka.server.ConsumerGroupDescribeRequestTest",
    "kafka.server.DeleteGroupsRequestTest",
)


@pytest.mark.parametrize("name", CHOSEN)
def test_what_passed_in_the_recorded_run_passes(name: str) -> None:
    """A test of Kafka's that has passed against this broker passes again."""
    needs(JARS, STAND_IN)
    recorded = read_results()[name]
    result = result_of(name, recorded.origin, recorded.date, run_class(name), read_reasons())
    missed = {(each.method, each.invocation): each.why for each in result.missed}
    for each in recorded.missed:
        missed.pop((each.method, each.invocation), None)
    assert not missed
    assert result.tests == recorded.tests
