"""The demonstration's drivers: one is killed as planned, those that die by themselves are started again."""

import json
from pathlib import Path
from typing import Any

import pytest

from oncelog.pipeline.demo.processes import ProcessFailed
from oncelog.pipeline.demo.totalling import Drivers, Totalling

PLANNED = [["published", 0], ["published", 1], ["dying", 2]]
REST = [["skipped", 2], ["published", 3], ["done"]]
NOTHING: list[Any] = []


@pytest.fixture(autouse=True)
def with_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scripted driver is one of the tests, which an installed broker does not have beside it."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))


def run(work: Path, *lives: list[Any]) -> tuple[Totalling, list[Any]]:
    """Run drivers with these lives; return the result, and the batch after which each life was to die."""
    (work / "lives.json").write_text(json.dumps(lives), encoding="utf-8")
    with Drivers("127.0.0.1:0", "in", "out", work, module="tests.support.spark.scripted_driver") as drivers:
        result = drivers.run(max_offsets=7)
    orders = [json.loads(line) for line in (work / "orders").read_text(encoding="utf-8").splitlines()]
    assert {each["max_offsets"] for each in orders} == {7}
    return result, [each["kill_after"] for each in orders]


def test_the_first_driver_is_killed_and_the_second_finishes(tmp_path: Path) -> None:
    result, kills = run(tmp_path, PLANNED, REST)
    assert (result.died_after, result.skipped, result.published, kills) == (2, [2], [0, 1, 3], [2, None])
    assert result.unplanned_deaths == 0


@pytest.mark.parametrize(
    ("lives", "kills"),
    [
        ((NOTHING, PLANNED, REST), [2, 2, None]),
        ((PLANNED, NOTHING, REST), [2, None, None]),
        (([["published", 2], ["published", 3]], [["dying", 3]], REST), [2, 3, None]),
    ],
)
def test_a_driver_that_dies_by_itself_is_started_again(tmp_path: Path, lives: Any, kills: list[int | None]) -> None:
    result, told = run(tmp_path, *lives)
    assert (result.unplanned_deaths, told) == (1, kills)


def test_a_driver_that_never_lives_is_not_started_for_ever(tmp_path: Path) -> None:
    with pytest.raises(ProcessFailed, match="died 4 times"):
        run(tmp_path, *[NOTHING] * 9)


def test_a_job_whose_driver_was_not_killed_has_shown_nothing(tmp_path: Path) -> None:
    with pytest.raises(ProcessFailed, match="did not die as planned"):
        run(tmp_path, [["published", 0], ["done"]])
