"""The world of `make proof WHAT=postgres` with a few faults of each kind, one after the other on the same broker."""

from collections.abc import Callable, Sequence

import pytest

from oncelog.tools.demo.postgres_server import reachable_programs
from tests.proofs.clients.client import LIBRDKAFKA, OWN
from tests.proofs.nemesis import Say
from tests.proofs.postgres import partitions, parts, takeovers
from tests.proofs.postgres.world import World
from tests.support.postgres.server import Postgres, need_programs, open_directory
from tests.support.processes.networks import ADDRESSES, open_networks, why_no_networks

pytest.importorskip("asyncpg", reason="asyncpg is not installed")
pytest.importorskip("psycopg", reason="connections are cut with psycopg: pip install 'oncelog[postgres]'")
pytestmark = pytest.mark.xdist_group("postgres")
KINDS = (LIBRDKAFKA, OWN)
Fault = tuple[Callable[[World, int, Say], None], int]
"""A fault, and how often it is planted."""
FAULTS: Sequence[Fault] = (
    (parts.kills, 2),
    (parts.cuts, 10),
    (parts.crashes, 1),
    (takeovers.takeovers, 6),
)
KINDS_OF_TWO = 4
"""The kinds of cuts that two nodes can have: the others need three, and are in `make proof WHAT=postgres`."""


@pytest.mark.slow
def test_transactions_are_there_once_or_not_at_all_whatever_is_killed() -> None:
    with open_directory() as directory:
        server = Postgres(directory / "data", reachable_programs(need_programs(), directory))
        try:
            ended = strange(World([server], directory, 1, "proof", KINDS, count=2), FAULTS)
        finally:
            server.stop("immediate")
    assert ended == []


@pytest.mark.slow
def test_transactions_are_there_once_or_not_at_all_whichever_node_is_cut_off() -> None:
    if reason := why_no_networks():
        pytest.skip(reason)
    with open_directory() as directory, open_networks(2) as networks:
        programs = reachable_programs(need_programs(), directory)
        server = Postgres(directory / "data", programs, partitions.SETTINGS)
        try:
            server.allow(ADDRESSES)
            world = World([server], directory, 1, "proof", KINDS, 2, networks)
            ended = strange(world, [(partitions.partitions, KINDS_OF_TWO)])
        finally:
            server.stop("immediate")
    assert ended == []


def strange(world: World, faults: Sequence[Fault]) -> list[str]:
    with world.open():
        for fault, count in faults:
            fault(world, count, lambda _: None)
        verdicts = [verdict for _, verdict in world.finish().values()]
    assert all(each.counted.acknowledged >= 2 * len(faults) for each in verdicts), "little has happened"
    assert [each.counted.gone for each in verdicts] == [0, 0]
    return [what for each in verdicts for what in each.strange]
