"""The verdict of `make proof WHAT=postgres`: each kind of failure is one, and what is right is none."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from tests.proofs.clients.client import Ledger
from tests.proofs.clients.lines import ABORTED, COMMITTED, PARTITIONS, UNKNOWN
from tests.proofs.postgres.logs import logs_of
from tests.proofs.postgres.page import KEPT as RESULTS
from tests.proofs.postgres.page import Found, Saw, page
from tests.proofs.postgres.verdict import Counted, Records, judge

OUTCOMES = {"0.1.1": COMMITTED, "0.1.2": ABORTED, "0.1.3": UNKNOWN, "0.1.4": COMMITTED, "1.1.1": UNKNOWN}
KEPT = ("0.1.1", "0.1.4")
RIGHT = Counted(acknowledged=2, aborted=1, unknown=2, copied=8)


def ledger_of(*lines: str, outcomes: Mapping[str, str] = OUTCOMES) -> Ledger:
    ledger = Ledger()
    for line in (*(f"end {name} {outcome} 7" for name, outcome in outcomes.items()), *lines):
        ledger.add(line)
    return ledger


def log_of(*names: str, partitions: int = PARTITIONS) -> dict[int, list[tuple[int, str]]]:
    return {partition: [(3 * place, name) for place, name in enumerate(names)] for partition in range(partitions)}


def copies_of(log: Records) -> Records:
    return {partition: [(at, f"{name} {partition}") for at, name in records] for partition, records in log.items()}


def counted(log: Records, *lines: str, copies: Records | None = None, losable: tuple[str, ...] = ()) -> Counted:
    return judge(ledger_of(*lines), log, copies_of(log) if copies is None else copies, losable).counted


def test_a_log_of_what_was_acknowledged_is_right() -> None:
    reading = ["read 1 0 0.1.1", "read 1 3 0.1.4"]
    assert counted(log_of(*KEPT), *reading) == replace(RIGHT, read=2)
    assert counted(log_of("0.1.1", "0.1.3", "0.1.4")) == replace(RIGHT, copied=12), "what is unknown may be there"


def test_a_transaction_that_was_acknowledged_and_is_not_there_is_lost_or_gone() -> None:
    log = log_of("0.1.1")
    assert counted(log) == replace(RIGHT, copied=4, lost=1)
    assert counted(log, losable=("0.1.4",)) == replace(RIGHT, copied=4, gone=1)


def test_a_record_that_was_not_copied_is_lost_and_one_copied_twice_doubled() -> None:
    log = log_of(*KEPT)
    copies = {**copies_of(log), 2: copies_of(log)[0]}
    found = counted(log, copies=copies)
    assert (found.lost, found.doubled) == (2, 2)


@pytest.mark.parametrize(
    ("names", "wrong"),
    [
        (("0.1.1", "0.1.4", "0.1.4"), {"doubled": 1}),
        (("0.1.1", "0.1.2", "0.1.4"), {"aborted_seen": 1}),
        (("0.1.1", "0.1.4", "7.7.7"), {"ghosts": 1}),
        (("0.1.4", "0.1.1"), {"disordered": PARTITIONS}),
    ],
)
def test_what_is_wrong_in_the_log_is_counted(names: tuple[str, ...], wrong: dict[str, int]) -> None:
    log = log_of(*names)
    verdict = judge(ledger_of(), log, copies_of(log_of(*dict.fromkeys(names))))
    assert {name: getattr(verdict.counted, name) for name in wrong} == wrong
    assert verdict.counted.wrong == sum(wrong.values())
    assert [each.partition(":")[0] for each in verdict.strange] == [*wrong]


def test_a_transaction_that_is_there_in_part_is_torn() -> None:
    log = {**log_of(*KEPT), 3: [(0, "0.1.1")]}
    assert counted(log) == replace(RIGHT, copied=7, torn=1)


@pytest.mark.parametrize(
    ("lines", "wrong"),
    [
        (["read 0 9 0.1.1"], {"ghosts": 1}),
        (["read 0 3 0.1.1"], {"ghosts": 1}),
        (["read 0 3 0.1.4", "read 0 0 0.1.1"], {"disordered": 1}),
        (["read 0 0 0.1.1", "read 0 6 1.1.1"], {"disordered": 1}),
        (["read 0 0 0.1.1", "told 0 gone", "read 0 0 0.1.1"], {}),
        (["read 0 3 0.1.4", "again 0", "read 0 0 0.1.1"], {}),
    ],
)
def test_what_a_reader_got_is_in_the_log_and_nothing_was_left_out(lines: list[str], wrong: dict[str, int]) -> None:
    log = {**log_of(*KEPT), 0: [(0, "0.1.1"), (3, "0.1.4"), (6, "1.1.1")]}
    found = counted(log, *lines)
    assert {name: getattr(found, name) for name in ("ghosts", "disordered") if getattr(found, name)} == wrong


def test_what_a_reader_got_and_the_database_has_lost_is_no_ghost() -> None:
    found = counted(log_of("0.1.1"), "read 0 3 0.1.4", losable=("0.1.4",))
    assert (found.unseen, found.ghosts, found.wrong) == (1, 0, 0)


# --- the results ------------------------------------------------------------------------------------------------------

QUIET = Saw({}, {}, 7)
TOLD = Saw({}, {"OutOfRange": 1}, 7)


def found_of(
    part: str, counted: Counted, saw: Saw = QUIET, said: tuple[str, ...] = (), postgres: str = "18.6"
) -> Found:
    return Found(part, postgres, 3, {"ours": counted}, {"ours": saw}, [*said], [], 1, 1.0, "2026-01-01", "1.2")


@pytest.mark.parametrize("name", ["lost", "doubled", "torn", "aborted_seen", "ghosts", "disordered", "gone", "unseen"])
def test_each_kind_of_failure_is_one(name: str) -> None:
    assert not found_of("kills", RIGHT).is_bad
    assert found_of("kills", replace(RIGHT, **{name: 1})).is_bad


def test_a_loss_must_be_reported_and_readers_notified() -> None:
    gone = replace(RIGHT, gone=1, unseen=4)
    assert not found_of("lost", gone, TOLD, ("it went back",)).is_bad
    assert found_of("lost", gone, QUIET, ("it went back",)).is_bad
    assert found_of("lost", gone, TOLD, ("it went back", "")).is_bad
    assert found_of("lost", RIGHT, TOLD, ("it went back",)).is_bad, "a part that loses nothing shows nothing"


def test_a_part_that_is_run_again_replaces_what_it_found_with_that_postgresql(tmp_path: Path) -> None:
    results = tmp_path / "results" / "found.jsonl"
    gone = found_of("lost", replace(RIGHT, gone=1), TOLD, ("it went back",))
    older = found_of("kills", RIGHT, postgres="15.18")
    for each in (gone, found_of("kills", replace(RIGHT, lost=1), postgres="18.5"), older, found_of("kills", RIGHT)):
        RESULTS.keep(results, each)
    assert RESULTS.read(results) == [older, found_of("kills", RIGHT), gone]
    text = page(RESULTS.read(results))
    assert "| the broker is killed (-9) and started again | 18.6 | 3 | 2 | 1 | 2 | 8 | 0 | 0 | 0 | 0 | 0 | 0 |" in text
    assert text.count("| 2026-01-01, 1.2 |") == 3, "each row says of when and of which version it is"
    assert "> it went back" in text


# --- the logs ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_well", [False, True])
@pytest.mark.parametrize("is_asked_for", [False, True])
def test_logs_stay_unless_all_was_well_and_say_where_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_well: bool, is_asked_for: bool
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    said: list[str] = []
    with suppress(RuntimeError), logs_of("lost", tmp_path / "logs" if is_asked_for else None, said.append) as logs:
        if not is_well:
            raise RuntimeError("the broker has ended")
        logs.are_needed = False
    assert logs.directory.exists() == (is_asked_for or not is_well)
    assert said == ([] if is_well else [f"the logs are in {logs.directory}"])
