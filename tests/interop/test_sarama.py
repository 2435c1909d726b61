"""Sarama (Go), unmodified, against the daemon: the transforming group of tests/interop/go/sarama."""

from pathlib import Path

import pytest

from tests.conftest import Start
from tests.support.foreign.copying_jobs import EXPECTED, copied_under_kills, feed_topic, make_topics, supervised
from tests.support.foreign.interop import PLACE, QUICK_GROUPS, needs

pytestmark = pytest.mark.interop


def test_a_group_transforms_exactly_once_in_transactions_while_the_broker_is_killed(
    start_daemon: Start, tmp_path: Path
) -> None:
    needs(program := PLACE / "go" / "sarama")
    daemon = start_daemon(*QUICK_GROUPS)
    make_topics(daemon, "job-source", "job-sink")
    with supervised([str(program), daemon.bootstrap, "job"], tmp_path / "log") as running:
        assert copied_under_kills(daemon, running, feed_topic(daemon, "job-source"), "job-sink") == EXPECTED
