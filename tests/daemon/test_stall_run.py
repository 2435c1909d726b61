"""The measuring of stalled transactions: what it reads from a client's log, and a run of it against the daemon."""

from pathlib import Path

import pytest

from tests.support.foreign.stall_run import log_lines, offsets_gap, options_of, run

LOG = """\
%7|100.000|RECV|rdkafka#producer-2| [thrd:x]: x/1: Received AddOffsetsToTxnResponse (v0, 6 bytes, CorrId 1, rtt 1ms)
%7|100.500|SEND|rdkafka#producer-2| [thrd:x]: x/1: Sent TxnOffsetCommitRequest (v3, 60 bytes @ 0, CorrId 2)
a line of something else
%7|101.000|SEND|rdkafka#producer-2| [thrd:x]: x/1: Sent EndTxnRequest (v1, 60 bytes @ 0, CorrId 3)
%7|110.000|RECV|rdkafka#producer-2| [thrd:x]: x/1: Received AddOffsetsToTxnResponse (v0, 6 bytes, CorrId 4, rtt 1ms)
"""


@pytest.mark.parametrize(
    ("line_count", "since", "until", "gap_s"),
    [
        pytest.param(5, 99, 130, 20.0, id="still-awaited"),
        pytest.param(4, 99, 130, 0.5, id="sent"),
        pytest.param(1, 115, 130, 15.0, id="awaited-since-before"),
        pytest.param(0, 99, 130, 0.0, id="nothing-logged"),
    ],
)
def test_gap_lasts_from_the_response_to_the_request_or_to_the_end(
    line_count: int, since: float, until: float, gap_s: float
) -> None:
    assert offsets_gap(log_lines(LOG.splitlines()[:line_count]), since, until) == pytest.approx(gap_s)


def test_a_copier_that_forgets_no_broker_commits_again_after_a_kill(tmp_path: Path) -> None:
    settings = ("--set=metadata.recovery.strategy=none", "--set=reconnect.backoff.max.ms=1000")
    options = options_of(["--kills=1", "--copiers=1", "--down=1.5", "--patience=90", *settings])
    (found,) = run(options, tmp_path)
    assert found.committed_s is not None and not found.waits_for_removed
    assert found.rebootstraps == 0
