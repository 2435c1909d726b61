"""franz-go's share consumer (kgo, kadm), unmodified, against the daemon: its own tests, compiled from its module, and a
queue that is worked off while the broker is killed."""

import os
import re
import subprocess

import pytest

from tests.conftest import Start
from tests.interop.test_franz_go_etl import SUITES
from tests.support.foreign.interop import GO_PROGRAM, QUICK_GROUPS, await_no_lag, finished_while_killed, needs, unique
from tests.support.patience import SLOW_TIMEOUT_S

pytestmark = [pytest.mark.interop, pytest.mark.timeout(SLOW_TIMEOUT_S)]

OWN = ("TestShareGroup", "TestShareGroupETL", "TestShareGroupAckOnClose", "TestShareGroupOffsetsAdmin")
OF_RECORDS = "TestConsumeRegexShareSkipsInternal"


def test_the_clients_own_tests_of_share_groups_pass(start_daemon: Start) -> None:
    needs(SUITES)
    daemon = start_daemon(*QUICK_GROUPS)
    settings = {"KGO_SEEDS": daemon.bootstrap, "KGO_TEST_RF": "1", "KGO_TEST_RECORDS": "5000", "KGO_LOG_LEVEL": "none"}
    ended = subprocess.run(
        [str(SUITES), "-test.v", f"-test.run=^({'|'.join((*OWN, OF_RECORDS))})$", "-test.timeout=150s"],
        env={**os.environ, **settings},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert ended.returncode == 0, ended.stdout[-6000:]
    outcomes = {name: outcome for outcome, name in re.findall(r"^--- (\w+): (\S+) ", ended.stdout, re.MULTILINE)}
    assert outcomes == dict.fromkeys((*OWN, OF_RECORDS), "PASS")


def test_nothing_of_a_queue_is_lost_while_the_broker_is_killed(start_daemon: Start) -> None:
    needs(GO_PROGRAM)
    daemon, name = start_daemon(*QUICK_GROUPS), unique("queue")
    command = [str(GO_PROGRAM), "queue", daemon.bootstrap, name]
    assert finished_while_killed(command, daemon, pause_s=0.5) == ["6000 records, each delivered, all acknowledged"]
    await_no_lag(daemon, name)
