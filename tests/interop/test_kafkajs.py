"""KafkaJS (Node), unmodified, against the daemon: the scenes of tests/interop/node."""

from pathlib import Path

import pytest

from tests.conftest import Start
from tests.support.foreign.interop import NODE_PACKAGES, READ_OF_TRANSACTIONS, finished_while_killed, needs, run, unique
from tests.support.processes.daemon import Daemon

pytestmark = pytest.mark.interop

SCENES = Path(__file__).parent / "node" / "scenes.js"


def command(scene: str, daemon: Daemon) -> list[str]:
    needs(NODE_PACKAGES)
    return ["env", f"NODE_PATH={NODE_PACKAGES}", "node", str(SCENES), scene, daemon.bootstrap, unique(scene)]


def play(scene: str, daemon: Daemon) -> list[str]:
    return run(command(scene, daemon)).splitlines()


def test_its_codecs_are_read_back_in_order_with_keys_headers_and_null_values(daemon: Daemon) -> None:
    assert play("records", daemon) == [f"{codec}: 1001 in order" for codec in ("none", "gzip", "snappy")]


def test_an_idempotent_producer_writes_each_record_once(daemon: Daemon) -> None:
    assert play("idempotent", daemon) == ["200 in order"]


def test_only_committed_transactions_reach_read_committed(daemon: Daemon) -> None:
    assert play("transactions", daemon) == READ_OF_TRANSACTIONS


def test_a_fenced_producer_cannot_commit(daemon: Daemon) -> None:
    assert play("fencing", daemon) == ["fenced by INVALID_PRODUCER_EPOCH", "successor"]


def test_two_members_share_the_partitions_and_one_takes_over(daemon: Daemon) -> None:
    assert play("group", daemon) == ["shared: 0 1 2 3", "described: Stable 2", "taken over: 0 1 2 3"]


def test_a_group_continues_where_it_committed(daemon: Daemon) -> None:
    assert play("resume", daemon) == ["0 1 2 3", "4 5 6 7 8 9"]


def test_offsets_are_committed_with_the_transaction_or_not_at_all(daemon: Daemon) -> None:
    assert play("transform", daemon) == ["loaded", "600 records, 600 different"]


def test_it_transforms_exactly_once_while_the_broker_is_killed(start_daemon: Start) -> None:
    daemon = start_daemon("group.initial.rebalance.delay.ms=0")
    assert finished_while_killed(command("transform", daemon), daemon, pause_s=0.7) == ["600 records, 600 different"]


def test_admin_makes_changes_describes_and_deletes(daemon: Daemon) -> None:
    assert play("admin", daemon) == [
        "brokers: 1",
        "created: true again: false",
        "partitions: 3",
        "cleanup.policy=compact retention.ms=604800000",
        "offsets: 4 to 10",
        "committed: 7",
        "listed: true",
        "left: false",
    ]
