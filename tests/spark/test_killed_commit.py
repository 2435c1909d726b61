"""A real kill -9 of the process that commits, while its EndTxn is on the way: it may arrive late, or never."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from oncelog.faults import Action, ApiKey, Point, Rule, Selector
from tests.conftest import Start
from tests.spark.scenes import create, expected, make_input, run_to_end, stream, values
from tests.support.processes.faults import faults_of
from tests.support.processes.processes import connected_to

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="looks for the process in /proc"),
]


@pytest.mark.parametrize("arrives", [True, False], ids=["it arrives late", "it never arrives"])
def test_a_commit_whose_sender_is_killed(spark: Any, start_daemon: Start, tmp_path: Path, arrives: bool) -> None:
    daemon = start_daemon("oncelog.admin.listen=127.0.0.1:0")
    faults = faults_of(daemon)
    create(daemon, "killed")
    source = make_input(tmp_path / "in")

    def writer() -> Any:
        options = {"kafka.bootstrap.servers": daemon.bootstrap, "topic": "killed"}
        made = stream(spark, source).writeStream.format("oncelog").options(**options)
        return made.option("checkpointLocation", str(tmp_path / "checkpoint"))

    # The second batch's; a held request is handled when it is released, even if its sender is dead.
    held = faults.plant(Rule(Point.REQUEST, Action.HOLD, Selector(api=ApiKey.END_TXN), nth=2))
    query = writer().trigger(availableNow=True).start()
    assert faults.wait_fired(held, 25_000).fired_count == 1
    (committing,) = connected_to(int(daemon.bootstrap.rpartition(":")[2]), "python")
    os.kill(committing, signal.SIGKILL)
    with pytest.raises(Exception, match="STREAM_FAILED"):
        query.awaitTermination()
    if arrives:
        faults.release(held)
        run_to_end(writer())
    else:
        run_to_end(writer())
        faults.remove(held)  # and with it the request is handled: by now it is of an epoch that is fenced
    assert values(daemon, "killed") == expected()
