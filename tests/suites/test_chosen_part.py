"""A part of Kafka's own tests in each run of `make interop`: classes of requests, transactions, groups and share groups
that take some seconds each, those of transactions over PostgreSQL, too."""

import pytest

from tests.suites.kafka import JARS, KAFKA, STAND_IN, suite_of
from tests.suites.results import KEPT
from tests.suites.run import result_of
from tests.suites.suite import Where
from tests.support.foreign.interop import needs

pytestmark = pytest.mark.interop

OF_TRANSACTIONS = (
    "kafka.server.AddPartitionsToTxnRequestServerTest",
    "kafka.server.OffsetDeleteRequestTest",
    "kafka.server.TxnOffsetCommitRequestTest",
    "kafka.server.WriteTxnMarkersRequestTest",
)
CHOSEN = (
    *OF_TRANSACTIONS,
    "kafka.server.ConsumerGroupDescribeRequestTest",
    "kafka.server.ConsumerProtocolMigrationTest",
    "kafka.server.DeleteGroupsRequestTest",
    "kafka.server.DescribeGroupsRequestTest",
    "kafka.server.DescribeUserScramCredentialsRequestTest",
    "kafka.server.EdgeCaseRequestTest",
    "kafka.server.ShareGroupDescribeRequestTest",
    "kafka.server.ShareGroupHeartbeatRequestTest",
    "kafka.server.StreamsGroupDescribeRequestTest",
)


@pytest.mark.parametrize(
    ("name", "storage"), [*((name, "files") for name in CHOSEN), *((name, "postgres") for name in OF_TRANSACTIONS)]
)
def test_what_passed_in_the_recorded_run_passes(name: str, storage: str) -> None:
    """A test of Kafka's that has passed against this broker passes again."""
    needs(JARS, STAND_IN)
    where = Where(storage=storage)
    recorded = next(each for each in KEPT.read(KAFKA.results) if (each.suite, each.where) == (name, where))
    found = result_of(suite_of(name), where).outcomes
    passed = [test for test, outcome in recorded.outcomes.items() if outcome.status == "passed"]
    assert passed
    assert {test: str(found.get(test)) for test in passed} == dict.fromkeys(passed, "passed")
