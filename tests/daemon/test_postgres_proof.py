"""The world of `make postgres-proof` with a few faults of each kind, one after the other on the same broker."""

from collections.abc import Callable
from pathlib import Path

import pytest

from oncelog.tools.demo.postgres_server import reachable_programs
from tests.postgres.proof import parts
from tests.postgres.proof.clients import LIBRDKAFKA, OWN
from tests.postgres.proof.world import Say, World
from tests.support.postgres import Postgres, need_programs, open_directory

pytest.importorskip("asyncpg", reason="asyncpg is not installed")
pytest.importorskip("psycopg", reason="connections are cut with psycopg: pip install 'oncelog[postgres]'")
pytestmark = pytest.mark.xdist_group("postgres")
FAULTS: tuple[tuple[Callable[[World, int, Say], None], int], ...] = (
    (parts.kills, 2),
    (parts.cuts, 10),
    (parts.crashes, 1),
    (parts.takeovers, 6),
)


@pytest.mark.slow
def test_transactions_are_there_once_or_not_at_all_whatever_is_killed() -> None:
    with open_directory() as directory:
        server = Postgres(directory / "data", reachable_programs(need_programs(), directory))
        try:
            ended = strange(server, directory)
        finally:
            server.stop("immediate")
    assert ended == []


def strange(server: Postgres, directory: Path) -> list[str]:
    with World([server], directory, 1, "proof", (LIBRDKAFKA, OWN), nodes=2).open() as world:
        for fault, count in FAULTS:
            fault(world, count, lambda _: None)
        verdicts = [verdict for _, verdict in world.finish().values()]
    assert all(each.counted.acknowledged >= 2 * len(FAULTS) for each in verdicts), "little has happened"
    assert [each.counted.gone for each in verdicts] == [0, 0]
    return [what for each in verdicts for what in each.strange]
