"""Quix Streams (Python), unmodified, against the daemon: the application of tests/interop/quixstreams."""

from pathlib import Path

import pytest

from tests.conftest import Start
from tests.support.foreign.copying_jobs import EXPECTED, copied_under_kills, feed_topic, make_topics, supervised
from tests.support.foreign.interop import PLACE, QUICK_GROUPS, needs

pytestmark = pytest.mark.interop

APPLICATION = Path(__file__).parent / "quixstreams" / "application.py"


def test_an_application_transforms_exactly_once_while_the_broker_is_killed(start_daemon: Start, tmp_path: Path) -> None:
    needs(python := PLACE / "quixstreams" / "bin" / "python")
    daemon = start_daemon(*QUICK_GROUPS)
    make_topics(daemon, "job-source", "job-sink")
    command = [str(python), str(APPLICATION), daemon.bootstrap, "job", str(tmp_path / "state")]
    with supervised(command, tmp_path / "log") as running:
        assert copied_under_kills(daemon, running, feed_topic(daemon, "job-source"), "job-sink") == EXPECTED
