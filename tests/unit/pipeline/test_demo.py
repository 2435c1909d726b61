"""The demonstration empties its own work folder and no other, and calls nothing equal that is not."""

from dataclasses import replace
from pathlib import Path

import pytest

from oncelog.pipeline.demo.data import InputError, Totals
from oncelog.pipeline.demo.loading import Troubles
from oncelog.pipeline.demo.show import WORK_MARK, Findings, _empty_folder
from oncelog.pipeline.demo.totalling import Totalling
from oncelog.pipeline.demo.verify import Published, Seen


def findings() -> Findings:
    seen = Seen(1, 100)
    seen.rows[0] = 1
    seen.by_customer["a"] = 100
    return Findings(
        Totals(1, 100, {"a": 100}, {"1997-01": 100}),
        seen,
        Seen(2, 150),
        Published(2, {"a": 100}, {"1997-01": 100}, 1),
        Troubles(kills=1, aborted_cents=30, zombie_cents=20),
        Totalling(published=[0, 1, 3, 4, 5], skipped=[2], died_after=2),
    )


def test_a_folder_of_its_own_is_emptied(tmp_path: Path) -> None:
    work = _empty_folder(tmp_path / "new")
    (work / "old").write_text("")
    assert [path.name for path in _empty_folder(work).iterdir()] == [WORK_MARK]


def test_a_folder_with_something_else_in_it_is_refused_and_kept(tmp_path: Path) -> None:
    (tmp_path / "thesis").write_text("")
    with pytest.raises(InputError, match="not a work folder"):
        _empty_folder(tmp_path)
    assert (tmp_path / "thesis").exists()


def test_all_well_is_no_difference() -> None:
    assert findings().differences() == []


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"uncommitted": Seen(1, 149)}, "read_uncommitted saw 49 cents"),
        ({"troubles": Troubles()}, "killed 0 times"),
        ({"totalling": Totalling(published=[0, 1, 3, 4, 5], died_after=2)}, "batch 2 was not skipped"),
        ({"totalling": Totalling(published=[0, 1], skipped=[2], died_after=2)}, "only 3 micro-batches"),
    ],
)
def test_a_show_without_its_trouble_is_a_failure_too(changes: dict[str, object], told: str) -> None:
    (difference,) = replace(findings(), **changes).differences()  # type: ignore[arg-type]
    assert told in difference
