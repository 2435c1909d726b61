"""@confluentinc/kafka-javascript (Node, librdkafka), against the daemon: the scenes of tests/interop/confluentjs."""

from pathlib import Path

import pytest

from tests.conftest import Start
from tests.support.foreign.interop import (
    CONFLUENT_NODE_PACKAGES,
    QUICK_GROUPS,
    READ_OF_TRANSACTIONS,
    finished_while_killed,
    needs,
    run,
    unique,
)
from tests.support.processes.daemon import Daemon

pytestmark = pytest.mark.interop

SCENES = Path(__file__).parent / "confluentjs" / "scenes.js"
PROTOCOLS = ("classic", "consumer")


def command(scene: str, daemon: Daemon, protocol: str = "classic") -> list[str]:
    needs(CONFLUENT_NODE_PACKAGES)
    packages = f"NODE_PATH={CONFLUENT_NODE_PACKAGES}"
    return ["env", packages, "node", str(SCENES), scene, daemon.bootstrap, unique(scene), protocol]


def play(scene: str, daemon: Daemon, protocol: str = "classic") -> list[str]:
    return run(command(scene, daemon, protocol)).splitlines()


def test_its_codecs_are_read_back_in_order_with_keys_headers_and_null_values(daemon: Daemon) -> None:
    assert play("records", daemon) == [f"{codec}: 1001 in order" for codec in ("none", "gzip", "snappy", "lz4")]


def test_an_idempotent_producer_keeps_order_with_many_in_flight(daemon: Daemon) -> None:
    assert play("idempotent", daemon) == ["200 in order"]


def test_only_committed_transactions_reach_read_committed(daemon: Daemon) -> None:
    assert play("transactions", daemon) == READ_OF_TRANSACTIONS


def test_a_fenced_producer_cannot_commit(daemon: Daemon) -> None:
    assert play("fencing", daemon) == ["commit refused: ERR__FENCED", "successor"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_two_members_share_the_partitions_and_one_takes_over(start_daemon: Start, protocol: str) -> None:
    assert play("group", start_daemon(*QUICK_GROUPS), protocol) == ["shared: 0 1 2 3", "taken over: 0 1 2 3"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_group_continues_where_it_committed(start_daemon: Start, protocol: str) -> None:
    assert play("resume", start_daemon(*QUICK_GROUPS), protocol) == ["0 1 2 3", "4 5 6 7 8 9"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_offsets_are_committed_with_the_transaction_or_not_at_all(start_daemon: Start, protocol: str) -> None:
    lines = play("transform", start_daemon(*QUICK_GROUPS), protocol)
    assert lines == ["loaded", "600 records, 600 different"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_it_transforms_exactly_once_while_the_broker_is_killed(start_daemon: Start, protocol: str) -> None:
    daemon = start_daemon(*QUICK_GROUPS)
    lines = finished_while_killed(command("transform", daemon, protocol), daemon, pause_s=0.7)
    assert lines == ["600 records, 600 different"]


def test_admin_makes_describes_and_deletes(start_daemon: Start) -> None:
    assert play("admin", start_daemon(*QUICK_GROUPS)) == [
        "created: true again: false",
        "partitions: 3",
        "offsets: 4 to 10",
        "described: 1 roundrobin",
        "committed: 7",
        "listed: true",
        "left: false",
    ]


def test_its_interface_of_callbacks_commits_is_fenced_and_reads(daemon: Daemon) -> None:
    assert play("callbacks", daemon) == [
        "delivered at: 0 2 4",
        "fenced: true",
        "read: kept, kept too committed: 5",
    ]
