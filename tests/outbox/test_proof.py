"""The world of `make proof WHAT=outbox` with a few kills, so that it is held by each run of the tests; and its page."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.proofs.nemesis import Broker, broker_of
from tests.proofs.outbox import parts
from tests.proofs.outbox.ledger import ASIDE, HEADER_EACH
from tests.proofs.outbox.page import KEPT, Found, page
from tests.proofs.outbox.relays import AT_LEAST_ONCE, CARRIERS, ROUND
from tests.proofs.outbox.world import Counted, World
from tests.support.postgres.server import Postgres, open_directory

pytest.importorskip("psycopg", reason="the outbox needs psycopg: pip install 'oncelog[postgres]'")
pytestmark = pytest.mark.xdist_group("postgres")
KILLS = 3
CLEAN = Counted(commits=9, rollbacks=2, events=20)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with open_directory() as directory, broker_of("oncelog", directory / "broker") as found:
        yield found


def assert_all_kinds(world: World) -> None:
    """Each kind of event was among those that were written."""
    committed = world.ledger.committed()
    assert any(each.item == ASIDE for each in committed), "none had to be put aside"
    assert any(each.item != ASIDE and each.version % HEADER_EACH == 0 for each in committed), "no header was large"
    assert any(event.endswith("not UTF-8") for event in world.ledger.rolled_back()), "no header was refused"


@pytest.mark.sampled(3)
@pytest.mark.parametrize("carrier", CARRIERS)
def test_a_relay_that_is_killed_writes_each_event_once_and_in_order(
    server: Postgres, broker: Broker, tmp_path: Path, carrier: str
) -> None:
    with World(server, broker, carrier, f"proof_{carrier}", 1, tmp_path).open() as world:
        parts.kills(world, KILLS, lambda _: None)
        counted = world.finish()
        assert_all_kinds(world)
    expected = Counted(commits=counted.commits, rollbacks=counted.rollbacks, events=counted.events)
    assert counted == expected


def test_a_broker_that_is_killed_takes_each_row_once_and_in_order(
    server: Postgres, broker: Broker, tmp_path: Path
) -> None:
    """The broker feeds itself, without a relay, from the database that it keeps its records in."""
    with World(server, broker, ROUND, "proof_round", 1, tmp_path).open() as world:
        parts.round_kills(world, KILLS, lambda _: None)
        counted = world.finish()
        assert_all_kinds(world)
    assert counted == Counted(commits=counted.commits, rollbacks=counted.rollbacks, events=counted.events)


def found_of(kind: str, counted: Counted, said: str | None = None) -> Found:
    return Found("oncelog", "kills", kind, KILLS, counted, 1, 1.0, "18.0", 0, said, "2026-01-01")


@pytest.mark.parametrize(
    "name", ["missing", "doubled", "disordered", "rolled_back", "only_in_kafka", "lost_by_database"]
)
def test_each_kind_of_failure_of_ours_is_one(name: str) -> None:
    failed = replace(CLEAN, **{name: 1})
    assert found_of("wal", failed).is_bad and not found_of("wal", CLEAN).is_bad
    assert not found_of(AT_LEAST_ONCE, failed).is_bad


def test_a_loss_that_is_not_reported_is_a_failure() -> None:
    lost = replace(CLEAN, only_in_kafka=3, lost_by_database=3)
    assert found_of("wal", lost, "").is_bad and not found_of("wal", lost, "commits were lost").is_bad


def test_a_part_that_is_run_again_replaces_what_it_found(tmp_path: Path) -> None:
    results = tmp_path / "results" / "found.jsonl"
    for each in (found_of("wal", replace(CLEAN, missing=1)), found_of(AT_LEAST_ONCE, CLEAN), found_of("wal", CLEAN)):
        KEPT.keep(results, each)
    assert KEPT.read(results) == [found_of("wal", CLEAN), found_of(AT_LEAST_ONCE, CLEAN)]
    text = page(KEPT.read(results), [])
    assert "| the relay is killed (-9) at random moments | wal | 3 | 9 | 2 | 20 | 0 | 0 | 0 | 0 |" in text
    assert "| an at-least-once relay, killed (-9) | – | 3 | 9 | 2 | 20 | 0 | 0 | 0 | 0 |" in text
