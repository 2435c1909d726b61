"""kafka-go (Go), unmodified, against the daemon: the reader of a group and the writer of tests/interop/go/kafkago."""

from pathlib import Path

import pytest

from tests.conftest import Start
from tests.support.foreign.copying_jobs import EXPECTED, copied_under_kills, feed_topic, make_topics, supervised
from tests.support.foreign.interop import PLACE, QUICK_GROUPS, needs

pytestmark = pytest.mark.interop


def test_a_group_copies_every_record_at_least_once_while_the_broker_is_killed(
    start_daemon: Start, tmp_path: Path
) -> None:
    needs(program := PLACE / "go" / "kafkago")
    daemon = start_daemon(*QUICK_GROUPS)
    make_topics(daemon, "job-source", "job-sink")
    with supervised([str(program), daemon.bootstrap, "job"], tmp_path / "log") as running:
        copied = copied_under_kills(daemon, running, feed_topic(daemon, "job-source"), "job-sink")
    assert copied.keys() == EXPECTED.keys()
