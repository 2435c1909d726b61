"""`oncelog demo crash`: a real commit, a real kill -9, and a verdict that can say no."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest

from oncelog.tools.demo.crash import RECORDS, Step, _is_as_expected
from tests.support.patience import PATIENCE_S

BOTH = list(RECORDS)


def run(*arguments: str, typed: str = "") -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "oncelog", "demo", "crash", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, input=typed, timeout=PATIENCE_S)


def test_prepare_commit_on_disk_decides_and_nothing_before_it_does() -> None:
    answer = run("--json")
    assert answer.returncode == 0, answer.stderr
    report = json.loads(answer.stdout)
    assert report["verdict"] == "as expected"
    before, after = report["scenes"]
    held, killed, end = before["steps"][1], before["steps"][2], before["steps"][-1]
    assert (held["coordinator"], held["committed"]) == ("Ongoing", [])
    assert (killed["coordinator"], killed["transaction_log"][-1]) == (None, "Ongoing")
    assert end["transaction_log"][-3:] == ["PrepareAbort", "CompleteAbort", "Empty"]
    assert end["partitions"] == {f"orders-aborted-{number}": [RECORDS[number], "ABORT"] for number in (0, 1)}
    assert end["committed"] == []
    held, killed, end = after["steps"][1], after["steps"][2], after["steps"][-1]
    assert (held["coordinator"], held["committed"], len(held["without_marker"])) == ("PrepareCommit", [], 2)
    assert killed["transaction_log"][-1] == "PrepareCommit"
    assert killed["partitions"] == {f"orders-committed-{number}": [RECORDS[number]] for number in (0, 1)}
    found = after["steps"][3]
    assert (found["coordinator"], found["committed"], len(found["without_marker"])) == ("PrepareCommit", [], 2)
    assert end["transaction_log"][-1] == "CompleteCommit"
    assert end["partitions"] == {f"orders-committed-{number}": [RECORDS[number], "COMMIT"] for number in (0, 1)}
    assert end["committed"] == BOTH


@pytest.mark.slow
def test_it_draws_each_step_and_waits_with_its_option() -> None:
    answer = run("--step", typed="\n" * 10)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.count("press Enter to continue") == 10
    assert answer.stdout.count("as expected") == 2
    for word in ("PrepareCommit", "◆COMMIT", "◆ABORT", "kill -9", "not running", "read_committed sees"):
        assert word in answer.stdout


def step(state: str | None, log: str, held: list[str], committed: list[str] | None) -> Step:
    return Step("", state, [], log.split(), {"orders-0": held}, committed)


OPEN = step("Ongoing", "Empty Ongoing", ["left leg"], [])
PREPARED = step("PrepareCommit", "Empty Ongoing PrepareCommit", ["left leg"], [])
AFTER = [OPEN, PREPARED, replace(PREPARED, coordinator=None, committed=None)]
AFTER += [step("CompleteCommit", "Empty Ongoing PrepareCommit CompleteCommit", ["left leg", "COMMIT"], BOTH)]
BEFORE = [OPEN, OPEN, replace(OPEN, coordinator=None, committed=None), OPEN]
BEFORE += [step("Empty", "Empty Ongoing PrepareAbort CompleteAbort Empty", ["left leg", "ABORT"], [])]


def test_what_came_as_it_must_is_distinguished_from_what_did_not() -> None:
    assert _is_as_expected(AFTER, True)
    assert _is_as_expected(BEFORE, False)


@pytest.mark.parametrize(
    ("number", "wrong"),
    [
        (-1, {"committed": []}),
        (-1, {"committed": BOTH[:1]}),
        (-1, {"committed": BOTH * 2}),
        (-1, {"transaction_log": ["Empty", "Ongoing", "PrepareAbort", "CompleteAbort"]}),
        (1, {"committed": BOTH}),
        (2, {"transaction_log": ["Empty", "Ongoing"]}),
        (2, {"partitions": {"orders-0": ["left leg", "COMMIT"]}}),
    ],
)
def test_anything_else_is_not_as_it_must_be(number: int, wrong: dict[str, object]) -> None:
    steps = list(AFTER)
    steps[number] = replace(steps[number], **wrong)  # type: ignore[arg-type]
    assert not _is_as_expected(steps, True)


def test_a_transaction_that_was_not_decided_must_not_be_seen() -> None:
    assert not _is_as_expected([*BEFORE[:-1], replace(BEFORE[-1], committed=BOTH)], False)
    assert not _is_as_expected([*BEFORE[:2], replace(AFTER[2]), *BEFORE[3:]], False)
