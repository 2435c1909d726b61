"""What `make sim` says of its lives, whichever worker is done first."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from oncelog.testing.memory_disk import PowerCut
from tests.simulation.__main__ import WORLDS, live
from tests.simulation.log_auditor import AuditError
from tests.support.patience import PATIENCE_S


@pytest.mark.parametrize(
    "error", [AuditError("a record is gone"), PowerCut("a record is gone"), ValueError("a record is gone")]
)
def test_first_seed_that_breaks_a_promise_is_named(
    error: BaseException, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    later_is_done = Event()

    def world(seed: int) -> dict[str, int]:
        if seed == 3:
            later_is_done.set()
            raise AuditError("a later one")
        if seed == 2:
            assert later_is_done.wait(PATIENCE_S)
            raise error
        return {"stops": 1}

    monkeypatch.setitem(WORLDS, "log", world)
    with ThreadPoolExecutor(2) as workers:
        assert not live(workers, "log", range(4))
    said = capsys.readouterr().err
    assert said.startswith("log, seed 2: ") and "a record is gone" in said and "a later one" not in said
    assert said.endswith("again: python -m tests.simulation --world log --first 2 --seeds 1\n")


def test_lives_are_summed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(WORLDS, "log", lambda seed: {"stops": seed, "steps": 1_000})
    with ThreadPoolExecutor(2) as workers:
        assert live(workers, "log", range(1, 4))
    assert "log: 3 lives, 6 stops, 3,000 steps; " in capsys.readouterr().out
