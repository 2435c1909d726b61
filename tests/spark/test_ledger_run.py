"""What `make proof WHAT=ledger` does over 1.47 million purchases, over a few thousand of CDNOW."""

import random
from pathlib import Path

import pytest

from tests.spark import ledger_run
from tests.spark.test_ledger import cdnow
from tests.support.patience import SLOW_TIMEOUT_S

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(SLOW_TIMEOUT_S)]


def test_driver_and_broker_are_killed_inside_batches_and_every_output_is_right(tmp_path: Path) -> None:
    """Both of a driver and the broker, in a batch with state and in one without, and no cent is lost or doubled."""
    for package in ("pyspark", "pandas", "google.protobuf"):
        pytest.importorskip(package)
    faults = [ledger_run.Fault(query, victim) for query in ("intake", "balances") for victim in ("broker", "driver")]
    run, _ = ledger_run.execute(cdnow(12_000), tmp_path, 1_000, random.Random(2), faults)
    assert len(run.happened) == 2 * len(faults)
