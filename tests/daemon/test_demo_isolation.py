"""`oncelog demo isolation` against a daemon: the experiment says what Kafka's documentation says."""

import json
import subprocess
import sys

from tests.support.processes.daemon import Daemon


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "oncelog", "demo", "isolation", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_each_isolation_level_sees_what_it_should(daemon: Daemon) -> None:
    answer = run("--bootstrap", daemon.bootstrap, "--json")
    assert answer.returncode == 0, answer.stderr
    first, open_, committed = json.loads(answer.stdout)
    states = [[batch["state"] for batch in scene["batches"]] for scene in (first, open_, committed)]
    assert states == [
        ["aborted", "aborted", "ABORT", "plain"],
        ["aborted", "aborted", "ABORT", "plain", "open", "plain"],
        ["aborted", "aborted", "ABORT", "plain", "committed", "plain", "COMMIT"],
    ]
    assert (first["last_stable_offset"], first["high_watermark"]) == (4, 4)
    assert (open_["last_stable_offset"], open_["high_watermark"]) == (4, 6)
    assert (committed["last_stable_offset"], committed["high_watermark"]) == (7, 7)
    offsets = {
        (index, reading["isolation_level"]): sorted(map(int, reading["values"]))
        for index, scene in enumerate((first, open_, committed))
        for reading in scene["readings"]
    }
    assert offsets == {
        (0, "read_uncommitted"): [0, 1, 3],
        (0, "read_committed"): [3],
        (1, "read_uncommitted"): [0, 1, 3, 4, 5],
        (1, "read_committed"): [3],
        (2, "read_uncommitted"): [0, 1, 3, 4, 5],
        (2, "read_committed"): [3, 4, 5],
    }
    assert [reading["position_after"] for reading in committed["readings"]] == [7, 7]


def test_it_draws_with_a_daemon_of_its_own() -> None:
    answer = run()
    assert answer.returncode == 0, answer.stderr
    for word in ("LSO", "HW", "◆ABORT", "◆COMMIT", "read_committed", "read_uncommitted", "position"):
        assert word in answer.stdout


def test_no_broker_at_the_address_is_one_clear_line() -> None:
    answer = run("--bootstrap", "127.0.0.1:1")
    assert answer.returncode == 2
    assert answer.stderr.startswith("oncelog: 127.0.0.1:1 does not respond: Connection refused")
    assert len(answer.stderr.splitlines()) == 1
