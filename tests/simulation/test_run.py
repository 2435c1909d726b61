"""What `make sim` says of its lives, whichever worker is done first."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from oncelog.testing.memory_disk import PowerCut
from tests.fakes.budget import Budget, names_its_seed
from tests.fakes.scheduler import ManualScheduler
from tests.fakes.virtual_time import VirtualTime
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


class _Endless:
    """A world in which something is always left to do."""

    def __init__(self, seed: int, time: ManualScheduler | VirtualTime, run: Callable[[], None]) -> None:
        self.seed = seed
        self._time = time
        self._run = run

    @names_its_seed
    def run(self) -> None:
        self._do_it_again()
        self._run()

    def _do_it_again(self) -> None:
        self._time.call_soon(self._do_it_again)


def _worlds() -> Iterator[_Endless]:
    scheduler, time = ManualScheduler(Budget(100)), VirtualTime(budget=Budget(100))
    yield _Endless(7, scheduler, scheduler.run)
    yield _Endless(7, time, time.settle)


@pytest.mark.parametrize("world", list(_worlds()), ids=["scheduler", "time"])
def test_a_life_without_an_end_is_ended_by_its_budget(world: _Endless) -> None:
    """The error names the seed and the last steps."""
    with pytest.raises(AssertionError, match=r"no end after 100 steps.*_do_it_again") as caught:
        world.run()
    assert caught.value.__notes__ == ["in the _Endless of seed 7"]


def test_to_wait_for_what_never_comes_takes_steps_too() -> None:
    scheduler = ManualScheduler(Budget(100))
    with pytest.raises(AssertionError, match="no end after 100 steps"):
        while True:
            scheduler.run()
