"""franz-go's own chains of transforming groups, compiled from its module, unmodified, against the daemon.

Each variant chains three groups, `TestTxnEtl` in transactions, while members come, go and quit in the middle; the suite
itself panics on a record that is lost, doubled or out of order. KGO_TEST_RECORDS=500000 runs it at its authors' size.
"""

import os
import re
import subprocess

import pytest

from tests.conftest import Start
from tests.support.foreign.interop import PLACE, needs
from tests.support.patience import SLOW_TIMEOUT_S

pytestmark = [pytest.mark.interop, pytest.mark.timeout(SLOW_TIMEOUT_S)]

SUITES = PLACE / "go" / "kgo.test"
RECORDS = os.environ.get("KGO_TEST_RECORDS", "20000")
LIMIT_S = 120 if RECORDS == "20000" else 800
VARIANTS = {
    "range",
    "cooperative-sticky",
    "range/848",
    "sticky/848",
    "cooperative-sticky/static",
    "sticky/848/static",
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("suite", ["TestTxnEtl", "TestGroupETL"])
def test_the_clients_own_chains_of_groups_pass_in_every_variant(start_daemon: Start, suite: str) -> None:
    needs(SUITES)
    daemon = start_daemon("group.initial.rebalance.delay.ms=0")
    settings = {"KGO_SEEDS": daemon.bootstrap, "KGO_TEST_RF": "1", "KGO_TEST_RECORDS": RECORDS, "KGO_LOG_LEVEL": "none"}
    # A limit of its own, so that a chain that hangs says where.
    ended = subprocess.run(
        [str(SUITES), "-test.v", f"-test.run=^{suite}$", f"-test.timeout={LIMIT_S}s"],
        env={**os.environ, **settings},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert ended.returncode == 0, ended.stdout[-6000:]
    # Counted: a variant that was skipped, or that a newer version leaves out, is not one that passed.
    outcomes = {
        name: outcome for outcome, name in re.findall(rf"^ +--- (\w+): {suite}/(\S+) ", ended.stdout, re.MULTILINE)
    }
    assert outcomes == dict.fromkeys(VARIANTS, "PASS")
