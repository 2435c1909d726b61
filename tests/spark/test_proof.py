"""One seed of each fault of `make spark-proof`: our sinks lose and double nothing, and a plain one is seen to."""

from typing import Any

import pytest

from tests.conftest import Start
from tests.spark.proof import FAULTS, FORMAT, NAIVE, OURS, run_seed

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


@pytest.mark.parametrize("seed", range(len(FAULTS)), ids=list(FAULTS))
def test_a_fault_loses_and_doubles_nothing(spark: Any, start_daemon: Start, seed: int) -> None:
    daemon = start_daemon("oncelog.admin.listen=127.0.0.1:0")
    for fault, sink, found in run_seed(spark, daemon, seed, (OURS, FORMAT)):
        assert (found.lost, found.doubled) == (0, 0), (fault, sink)
        assert found.refused == ("old copy" in fault)


def test_the_same_faults_double_rows_in_a_plain_sink(spark: Any, start_daemon: Start) -> None:
    """So the comparison can fail."""
    daemon = start_daemon()
    ((_, _, found),) = run_seed(spark, daemon, 0, (NAIVE,))
    assert found.doubled > 0
