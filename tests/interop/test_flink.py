"""Apache Flink, unmodified, against the daemon: its source and its sink's two-phase commit, in one process."""

from pathlib import Path

import pytest

from tests.conftest import Start
from tests.support.foreign.copying_jobs import EXPECTED, copied_under_kills, feed_topic, make_topics, supervised
from tests.support.foreign.interop import PLACE, needs
from tests.support.patience import SLOW_TIMEOUT_S

pytestmark = [pytest.mark.interop, pytest.mark.timeout(SLOW_TIMEOUT_S)]


def test_a_job_commits_exactly_once_in_two_phases_while_the_broker_is_killed(
    start_daemon: Start, tmp_path: Path
) -> None:
    needs(job := PLACE / "flink-job")
    daemon = start_daemon()
    make_topics(daemon, "job-source", "job-sink")
    command = ["java", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", f"{job}:{PLACE}/flink/*"]
    command += ["FlinkJob", daemon.bootstrap, "job", str(tmp_path / "checkpoints")]
    with supervised(command, tmp_path / "log") as running:
        assert copied_under_kills(daemon, running, feed_topic(daemon, "job-source"), "job-sink") == EXPECTED
