"""rskafka (Rust), unmodified, against the daemon: the copy from partition to partition of tests/interop/rust."""

from pathlib import Path

import pytest

from tests.conftest import Start
from tests.support.foreign.copying_jobs import EXPECTED, copied_under_kills, feed_topic, make_topics, supervised
from tests.support.foreign.interop import PLACE, needs

pytestmark = pytest.mark.interop


def test_a_partition_is_copied_without_a_loss_while_the_broker_is_killed(start_daemon: Start, tmp_path: Path) -> None:
    needs(program := PLACE / "rust" / "release" / "interop")
    daemon = start_daemon()
    make_topics(daemon, "job-source", "job-sink")
    with supervised([str(program), daemon.bootstrap, "job"], tmp_path / "log") as running:
        copied = copied_under_kills(daemon, running, feed_topic(daemon, "job-source"), "job-sink")
    assert copied.keys() == EXPECTED.keys()
